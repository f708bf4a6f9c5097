// Tells ThreadSanitizer what gRPC orders. gRPC hands operations from thread to thread through
// lock-free queues of its own, and Debian's is built without ThreadSanitizer, so that each reactor
// would seem to race with itself. Linked as absl_tsan.cc is.
//
// What was done before an operation started comes before what is done when it is over. What an
// RPC's reactions did comes before its OnDone.
#include <grpc/grpc.h>
#include <grpcpp/support/callback_common.h>
#include <grpcpp/support/server_callback.h>
#include <sanitizer/tsan_interface.h>

#include "tests/support/next_definition.h"

using factord::NextDefinition;

// grpc::internal::CallbackWithSuccessTag::StaticRun, which is private: where operations of the
// callback API end. Null in executables that do not use it.
extern "C" [[gnu::weak]] void
factord_StaticRun(grpc_completion_queue_functor* operation, int ok) asm(
    "_ZN4grpc8internal22CallbackWithSuccessTag9StaticRunEP29grpc_completion_queue_functori");

namespace {

void AcquireAndRun(grpc_completion_queue_functor* operation, int ok) {
  __tsan_acquire(operation);
  factord_StaticRun(operation, ok);
}

// The reactor's OnCancel. The library calls it, and then releases its hold on the RPC without
// ThreadSanitizer's notice.
class Cancellation final : public grpc::internal::ServerReactor {
 public:
  Cancellation(grpc::internal::ServerReactor* reactor, void* holds)
      : reactor_(reactor), holds_(holds) {}

  void OnCancel() override {
    reactor_->OnCancel();
    __tsan_release(holds_);
    delete this;
  }
  void OnDone() override {}
  bool InternalInlineable() override { return reactor_->InternalInlineable(); }

 private:
  grpc::internal::ServerReactor* const reactor_;
  void* const holds_;
};

}  // namespace

namespace grpc::internal {

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  static const auto real = NextDefinition<void(ServerCallbackCall*, ServerReactor*)>(
      "_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_13ServerReactorE");
  __tsan_acquire(&on_cancel_conditions_remaining_);
  real(this, new Cancellation(reactor, &callbacks_outstanding_));
}

void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  static const auto real = NextDefinition<void(ServerCallbackCall*, bool)>(
      "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  __tsan_acquire(&callbacks_outstanding_);
  real(this, inline_ondone);
}

}  // namespace grpc::internal

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, std::size_t count,
                                      void* tag, void* reserved) {
  static const auto real = NextDefinition<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  // Tags of completion queues begin with another pointer.
  auto* const operation = static_cast<grpc_completion_queue_functor*>(tag);
  if (factord_StaticRun != nullptr && operation->functor_run == factord_StaticRun) {
    operation->functor_run = AcquireAndRun;
  }
  __tsan_release(tag);
  return real(call, ops, count, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static const auto real =
      NextDefinition<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  const grpc_event event = real(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static const auto real =
      NextDefinition<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  const grpc_event event = real(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}
}

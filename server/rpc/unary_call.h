// UnaryCall: one unary RPC that computes: decode, run, encode. A reactor: gRPC calls it, it ends
// itself.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/request.h"
#include "server/rpc/request_record.h"
#include "server/rpc/service_context.h"

namespace factord {

// Deletes itself when gRPC is done with it. Finish is called once: at once where the request is
// refused, else from the lane that ran its last job.
template <typename ProtoRequest>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  UnaryCall(Rpc rpc, grpc::CallbackServerContext* grpc_context, const grpc::ByteBuffer* request,
            grpc::ByteBuffer* response, ServiceContext& context);

  void OnCancel() override;
  void OnDone() override;

 private:
  absl::StatusOr<std::shared_ptr<Request>> Accept(const grpc::ByteBuffer& buffer);
  void Reply(Request& request, const absl::Status& status);
  void End(const absl::Status& status);

  const Rpc rpc_;
  ServiceContext& context_;
  grpc::ByteBuffer* const response_;
  RequestRecord record_;
  Caller caller_;
};

}  // namespace factord

#include "server/rpc/factorization_service.h"

#include "server/rpc/caller.h"
#include "server/rpc/explain.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/reduce_call.h"
#include "server/rpc/refusal.h"
#include "server/rpc/request_end.h"
#include "server/rpc/request_start.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/unary_call.h"
#include "server/rpc/wire.h"

namespace factord {
namespace {

// How often a stream's time limits, seconds long, are looked at.
constexpr absl::Duration kStreamTick = absl::Milliseconds(100);

// An RPC that computes nothing: answers at once.
template <typename Answer>
grpc::ServerUnaryReactor* AnswerAtOnce(Rpc rpc, grpc::CallbackServerContext* grpc_context,
                                       const grpc::ByteBuffer& request, grpc::ByteBuffer* response,
                                       ServiceContext& context, Answer answer) {
  RequestRecord record = StartRecord(RecordKind::kCall, rpc, *grpc_context, context);
  record.client = CallerOf(*grpc_context, context.tokens.get()).client;
  context.metrics->RequestStarted(rpc);
  const auto reply = answer(request, context);
  if (reply.ok()) *response = JoinBulk(*reply, {});
  CountRefusal(reply.status(), *context.metrics);
  context.refusals.Add(rpc, reply.status(), absl::Now());
  record.status = reply.status();
  EndRequest(record, static_cast<int>(reply.status().code()), context);
  auto* reactor = grpc_context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(reply.status()));
  return reactor;
}

}  // namespace

FactorizationService::FactorizationService(ServiceContext& context)
    : context_(context), streams_(kStreamTick) {
  streams_.Add(context_.request_log);
}

void FactorizationService::BeginDrain() {
  context_.draining.store(true);
  streams_.TickNow();
}

grpc::ServerUnaryReactor* FactorizationService::Factorize(Context* context, const Bytes* request,
                                                          Bytes* response) {
  return new UnaryCall<v1::FactorizeRequest>(Rpc::kFactorize, context, request, response, context_);
}

grpc::ServerUnaryReactor* FactorizationService::FormQ(Context* context, const Bytes* request,
                                                      Bytes* response) {
  return new UnaryCall<v1::FormQRequest>(Rpc::kFormQ, context, request, response, context_);
}

grpc::ServerUnaryReactor* FactorizationService::ApplyQ(Context* context, const Bytes* request,
                                                       Bytes* response) {
  return new UnaryCall<v1::ApplyQRequest>(Rpc::kApplyQ, context, request, response, context_);
}

grpc::ServerUnaryReactor* FactorizationService::Solve(Context* context, const Bytes* request,
                                                      Bytes* response) {
  return new UnaryCall<v1::SolveRequest>(Rpc::kSolve, context, request, response, context_);
}

grpc::ServerUnaryReactor* FactorizationService::Explain(Context* context, const Bytes* request,
                                                        Bytes* response) {
  return AnswerAtOnce(Rpc::kExplain, context, *request, response, context_, factord::Explain);
}

grpc::ServerUnaryReactor* FactorizationService::GetServerInfo(Context* context,
                                                              const Bytes* request,
                                                              Bytes* response) {
  return AnswerAtOnce(Rpc::kGetServerInfo, context, *request, response, context_,
                      factord::GetServerInfo);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* FactorizationService::FactorizeStream(
    Context* context) {
  return StreamCall::Start(context, context_, streams_);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* FactorizationService::ReduceRows(
    Context* context) {
  return ReduceCall::Start(context, context_, streams_);
}

}  // namespace factord

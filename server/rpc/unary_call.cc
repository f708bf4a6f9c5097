#include "server/rpc/unary_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/caller.h"
#include "server/rpc/decode_message.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/refusal.h"
#include "server/rpc/request_end.h"
#include "server/rpc/request_start.h"

namespace factord {
namespace {

absl::Status CheckReplySize(const DecodedRequest& decoded, const Limits& limits) {
  std::int64_t bytes = decoded.response_overhead_bytes();
  for (const Item& item : decoded.items) bytes += item.output_bytes;
  if (bytes <= limits.max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the reply would be ", bytes, " bytes; the message limit is ",
                   limits.max_message_bytes, ": use FactorizeStream"));
}

const google::protobuf::Message& ResponseOf(const v1::StreamResult& result) {
  switch (result.result_case()) {
    case v1::StreamResult::kFormQ:
      return result.form_q();
    case v1::StreamResult::kApplyQ:
      return result.apply_q();
    case v1::StreamResult::kSolve:
      return result.solve();
    default:
      return result.factorize();
  }
}

}  // namespace

template <typename ProtoRequest>
UnaryCall<ProtoRequest>::UnaryCall(Rpc rpc, grpc::CallbackServerContext* grpc_context,
                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response,
                                   ServiceContext& context)
    : rpc_(rpc),
      context_(context),
      response_(response),
      record_(StartRecord(RecordKind::kCall, rpc, *grpc_context, context)),
      caller_(CallerOf(*grpc_context, context.tokens.get())) {
  record_.client = caller_.client;
  caller_.traced = record_.traced;
  context_.CallStarted();
  context_.metrics->RequestStarted(rpc_);
  context_.metrics->Received(static_cast<std::int64_t>(request->Length()));
  const auto accepted = Accept(*request);
  if (!accepted.ok()) {
    CountRefusal(accepted.status(), *context_.metrics);
    End(accepted.status());
    return;
  }
  // The matrices are in the slab. gRPC would keep the message until the end of the call, out of any
  // budget's sight.
  const_cast<grpc::ByteBuffer*>(request)->Clear();
  const absl::Status status = (*accepted)->Run(
      caller_, nullptr, [this](Request& done, const absl::Status& end) { Reply(done, end); });
  if (!status.ok()) End(status);
}

template <typename ProtoRequest>
absl::StatusOr<std::shared_ptr<Request>> UnaryCall<ProtoRequest>::Accept(
    const grpc::ByteBuffer& buffer) {
  RETURN_IF_ERROR(CheckAccepting(context_));
  ASSIGN_OR_RETURN(
      const auto message,
      DecodeMessage<ProtoRequest>(buffer, WireLimits::ForTensors(context_.limits.max_tensors)));
  ASSIGN_OR_RETURN(DecodedRequest decoded, Decode(message.proto, DataMode::kInline,
                                                  message.payload_sizes, context_.limits));
  record_.Decoded(decoded);
  RETURN_IF_ERROR(CheckReplySize(decoded, context_.limits));
  ASSIGN_OR_RETURN(std::shared_ptr<Request> request, Request::Create(std::move(decoded), context_));
  request->CopyPayloads(message.split.payloads);
  record_.in_memory = absl::Now();
  const absl::Duration decode_time = *record_.in_memory - record_.arrived;
  request->set_decode_time(decode_time);
  context_.metrics->StageEnded(Stage::kDecode, decode_time);
  return request;
}

template <typename ProtoRequest>
void UnaryCall<ProtoRequest>::Reply(Request& request, const absl::Status& status) {
  const absl::Time start = absl::Now();
  const Outcome outcome = request.TakeOutcome();
  record_.Ran(outcome);
  if (!status.ok()) return End(status);
  const v1::StreamResult result = Encode(request.decoded(), &outcome, /*placeholders=*/true);
  *response_ = JoinBulk(ResponseOf(result), request.OutputPayloads());
  const absl::Time end = absl::Now();
  record_.Encoded(start, end);
  context_.metrics->StageEnded(Stage::kEncode, end - start);
  context_.metrics->Sent(static_cast<std::int64_t>(response_->Length()));
  End(absl::OkStatus());
}

template <typename ProtoRequest>
void UnaryCall<ProtoRequest>::End(const absl::Status& status) {
  record_.status = status;
  context_.refusals.Add(rpc_, status, absl::Now());
  Finish(ToGrpcStatus(status));
}

template <typename ProtoRequest>
void UnaryCall<ProtoRequest>::OnCancel() {
  caller_.cancelled->store(true);
  context_.dispatcher->NotifyCancelled();
}

template <typename ProtoRequest>
void UnaryCall<ProtoRequest>::OnDone() {
  EndRequest(record_, static_cast<int>(record_.status.code()), context_);
  context_.CallEnded();
  delete this;
}

template class UnaryCall<v1::FactorizeRequest>;
template class UnaryCall<v1::FormQRequest>;
template class UnaryCall<v1::ApplyQRequest>;
template class UnaryCall<v1::SolveRequest>;

}  // namespace factord

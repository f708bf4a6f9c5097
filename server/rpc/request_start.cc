#include "server/rpc/request_start.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace factord {
namespace {

constexpr char kRequestIdKey[] = "x-request-id";
constexpr char kTraceparentKey[] = "traceparent";

// Empty where there is none, or more than one.
absl::string_view TheOnly(const char* key, const grpc::CallbackServerContext& context) {
  const auto [first, last] = context.client_metadata().equal_range(key);
  if (first == last || std::next(first) != last) return {};
  return {first->second.data(), first->second.size()};
}

RequestIds IdsOf(const grpc::CallbackServerContext& context, double sample_ratio) {
  const absl::string_view id = TheOnly(kRequestIdKey, context);
  const auto parent = ParseTraceparent(TheOnly(kTraceparentKey, context));
  return {.request_id = IsRequestId(id) ? std::string(id) : NewRequestId(),
          .trace = parent ? parent->Child() : NewTrace(sample_ratio)};
}

}  // namespace

RequestRecord StartRecord(RecordKind kind, Rpc rpc, grpc::CallbackServerContext& grpc_context,
                          const ServiceContext& context) {
  RequestRecord record;
  record.arrived = absl::Now();
  record.kind = kind;
  record.rpc = rpc;
  record.ids = IdsOf(grpc_context, context.spans == nullptr ? 0 : context.trace_sample_ratio);
  record.traced = context.spans != nullptr && record.ids.trace.sampled;
  grpc_context.AddTrailingMetadata(kRequestIdKey, record.ids.request_id);
  grpc_context.AddTrailingMetadata(kTraceparentKey, record.ids.trace.Traceparent());
  return record;
}

RequestRecord RecordWithin(const RequestRecord& stream, const std::string& id, absl::Time now) {
  RequestRecord record;
  record.kind = RecordKind::kStreamRequest;
  record.rpc = stream.rpc;
  record.ids = {.request_id = absl::StrCat(stream.ids.request_id, "/", id),
                .trace = stream.ids.trace.Child()};
  record.client = stream.client;
  record.arrived = now;
  record.traced = stream.traced;
  return record;
}

}  // namespace factord

#include "server/rpc/request_log.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/support/status.h"
#include "server/logging/log.h"

namespace factord {
namespace {

constexpr int kLines = 10;
constexpr absl::Duration kWindow = absl::Seconds(10);

spdlog::level::level_enum LevelOf(int grpc_code) {
  switch (grpc_code) {
    case grpc::OK:
    case grpc::CANCELLED:
      return spdlog::level::debug;
    // The client's to mend.
    case grpc::INVALID_ARGUMENT:
    case grpc::FAILED_PRECONDITION:
    case grpc::RESOURCE_EXHAUSTED:
    case grpc::UNIMPLEMENTED:
    case grpc::UNAUTHENTICATED:
    case grpc::PERMISSION_DENIED:
      return spdlog::level::info;
    // There is too much work, or too little time.
    case grpc::UNAVAILABLE:
    case grpc::DEADLINE_EXCEEDED:
      return spdlog::level::warn;
    default:
      return spdlog::level::err;
  }
}

std::string ShapeOf(const RequestRecord& record) {
  const Spec& spec = record.spec;
  std::string shape =
      absl::StrCat(Name(spec.dtype), " ", record.matrices, "x", spec.m, "x", spec.n);
  if (spec.p > 0) absl::StrAppend(&shape, ", p ", spec.p);
  if (record.tensors > 1) absl::StrAppend(&shape, ", and ", record.tensors - 1, " more");
  return shape;
}

LogFields FieldsOf(const RequestRecord& record, int grpc_code, absl::Duration total) {
  LogFields fields;
  fields.Add("request_id", record.ids.request_id)
      .Add("trace_id", record.ids.trace.trace_id.Hex())
      .Add("span_id", record.ids.trace.span_id.Hex())
      .Add("rpc", Name(record.rpc))
      .Add("client", record.client)
      .Add("code", GrpcCodeName(grpc_code));
  if (!record.status.ok()) fields.Add("error", record.status.message());
  if (record.tensors > 0) fields.Add("shape", ShapeOf(record));
  if (record.in_memory) fields.AddMilliseconds("decode_ms", *record.in_memory - record.arrived);
  if (record.times) {
    fields.Add("backend", Name(record.backend))
        .AddMilliseconds("queue_ms", record.times->queue)
        .AddMilliseconds("pack_ms", record.times->pack)
        .AddMilliseconds("compute_ms", record.times->compute)
        .AddMilliseconds("unpack_ms", record.times->unpack)
        .AddMilliseconds("run_ms", record.times->run)
        .AddMilliseconds("encode_ms", record.encode);
  }
  return fields.AddMilliseconds("total_ms", total);
}

}  // namespace

RequestLog::RequestLog() : limiter_(kGrpcCodes, kLines, kWindow) {}

void RequestLog::Ended(const RequestRecord& record, int grpc_code, absl::Duration total) {
  const auto level = LevelOf(grpc_code);
  if (!LogsAt(level)) return;
  const bool all = LogsAt(spdlog::level::debug);
  if (!all && !limiter_.Allows(static_cast<std::size_t>(grpc_code), absl::Now())) return;
  Log(level, record.kind == RecordKind::kStream ? "stream ended" : "request ended",
      FieldsOf(record, grpc_code, total));
}

void RequestLog::Tick(absl::Time now) {
  for (const auto& [kind, count] : limiter_.TakeSuppressed(now)) {
    const int code = static_cast<int>(kind);
    Log(LevelOf(code), "more requests ended so, without a line each",
        LogFields().Add("code", GrpcCodeName(code)).Add("suppressed", count));
  }
}

}  // namespace factord

#include "server/rpc/request_spans.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "factord/v1/factord.grpc.pb.h"
#include "grpcpp/support/status.h"

namespace factord {
namespace {

// As OpenTelemetry's conventions for gRPC have it: what is the client's fault is no error of the
// server's span.
bool IsServerError(int grpc_code) {
  switch (grpc_code) {
    case grpc::UNKNOWN:
    case grpc::DEADLINE_EXCEEDED:
    case grpc::UNIMPLEMENTED:
    case grpc::INTERNAL:
    case grpc::UNAVAILABLE:
    case grpc::DATA_LOSS:
      return true;
    default:
      return false;
  }
}

std::string NameOf(const RequestRecord& record) {
  if (record.kind == RecordKind::kStreamRequest) return "FactorizeStream request";
  return absl::StrCat(v1::Factorization::service_full_name(), "/", Name(record.rpc));
}

Span RequestSpan(const RequestRecord& record, int grpc_code, absl::Time end) {
  Span span = {
      .context = record.ids.trace,
      .name = NameOf(record),
      .kind = record.kind == RecordKind::kStreamRequest ? SpanKind::kInternal : SpanKind::kServer,
      .start = record.arrived,
      .end = end,
      .attributes = {{"rpc.system", "grpc"},
                     {"rpc.service", v1::Factorization::service_full_name()},
                     {"rpc.method", std::string(Name(record.rpc))},
                     {"rpc.grpc.status_code", std::int64_t{grpc_code}},
                     {"factord.request_id", record.ids.request_id},
                     {"factord.client", record.client}},
      .failed = IsServerError(grpc_code),
      .error = std::string(record.status.message())};
  if (record.tensors > 0) {
    span.attributes.insert(span.attributes.end(),
                           {{"factord.tensors", static_cast<std::int64_t>(record.tensors)},
                            {"factord.dtype", std::string(Name(record.spec.dtype))},
                            {"factord.matrices", record.matrices},
                            {"factord.m", record.spec.m},
                            {"factord.n", record.spec.n},
                            {"factord.jobs", record.jobs}});
  }
  return span;
}

Span StageSpan(const RequestRecord& record, absl::string_view name, absl::Time start,
               absl::Time end) {
  return {.context = record.ids.trace.Child(),
          .name = std::string(name),
          .kind = SpanKind::kInternal,
          .start = start,
          .end = end,
          .attributes = {},
          .failed = false,
          .error = {}};
}

void AppendJob(const RequestRecord& record, const JobRun& job, std::vector<Span>& spans) {
  const absl::Time started = job.queued + job.times.queue;
  spans.push_back(StageSpan(record, "queue", job.queued, started));
  Span run = StageSpan(record, "run", started, started + job.times.run);
  run.attributes = {{"factord.backend", std::string(Name(job.backend))},
                    {"factord.path", std::string(job.path)},
                    {"factord.matrices", job.matrices},
                    {"factord.batch_matrices", job.batch_matrices},
                    {"factord.pack_ns", absl::ToInt64Nanoseconds(job.times.pack)},
                    {"factord.compute_ns", absl::ToInt64Nanoseconds(job.times.compute)},
                    {"factord.unpack_ns", absl::ToInt64Nanoseconds(job.times.unpack)}};
  spans.push_back(std::move(run));
}

}  // namespace

std::vector<Span> SpansOf(const RequestRecord& record, int grpc_code, absl::Time end) {
  std::vector<Span> spans = {RequestSpan(record, grpc_code, end)};
  if (record.in_memory)
    spans.push_back(StageSpan(record, "decode", record.arrived, *record.in_memory));
  for (const JobRun& job : record.runs) AppendJob(record, job, spans);
  for (const Interval& encoding : record.encodings) {
    spans.push_back(StageSpan(record, "encode", encoding.start, encoding.end));
  }
  return spans;
}

}  // namespace factord

#include "server/rpc/request_end.h"

#include "absl/time/clock.h"
#include "server/rpc/request_spans.h"

namespace factord {

void EndRequest(const RequestRecord& record, int grpc_code, ServiceContext& context) {
  const absl::Time now = absl::Now();
  const absl::Duration total = now - record.arrived;
  if (record.kind != RecordKind::kStream) {
    context.metrics->RequestEnded(record.rpc, grpc_code, total);
  }
  context.request_log->Ended(record, grpc_code, total);
  if (record.traced) context.spans->Add(SpansOf(record, grpc_code, now));
}

}  // namespace factord

// What happens once a request is over.
#pragma once

#include "server/rpc/request_record.h"
#include "server/rpc/service_context.h"

namespace factord {

// Counts it, writes its log line and, where it is traced, hands its spans to the exporter. A stream
// as a whole is not counted: its requests are.
void EndRequest(const RequestRecord& record, int grpc_code, ServiceContext& context);

}  // namespace factord

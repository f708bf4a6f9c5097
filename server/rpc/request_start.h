// What a call brings with it: its ids, and the record that is kept of it.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "server/rpc/request_record.h"
#include "server/rpc/service_context.h"

namespace factord {

// The record of a call that arrives now; who called is left to fill in. Its ids come from the
// metadata entries `x-request-id` and `traceparent`: one that is missing, malformed or there twice
// is made anew (gRPC itself keeps the last one of two traceparents). They go back in the trailing
// metadata, with the server's own span in traceparent: so this must come before Finish.
RequestRecord StartRecord(RecordKind kind, Rpc rpc, grpc::CallbackServerContext& grpc_context,
                          const ServiceContext& context);

// The record of one of a stream's requests, that arrives at `now`. It is called "STREAM'S ID/id",
// where `id` is the client's, and its span is below the stream's.
RequestRecord RecordWithin(const RequestRecord& stream, const std::string& id, absl::Time now);

}  // namespace factord

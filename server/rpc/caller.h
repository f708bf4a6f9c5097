// Who a call is from, and until when: read from its metadata.
#pragma once

#include "grpcpp/server_context.h"
#include "server/rpc/request.h"

namespace factord {

// The fairness key is the metadata entry "factord-client", else the peer's address without its
// port.
Caller CallerOf(const grpc::CallbackServerContext& context);

}  // namespace factord

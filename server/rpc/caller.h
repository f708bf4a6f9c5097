// Who a call is from, and until when: read from its metadata.
#pragma once

#include "grpcpp/server_context.h"
#include "server/rpc/request.h"
#include "server/security/auth_tokens.h"

namespace factord {

// The fairness key is the metadata entry "factord-client", else whom the call's token or the peer's
// certificate names, else the peer's address without its port. `tokens`: null where none are asked
// for; that the call may be made at all was decided before it came here.
Caller CallerOf(const grpc::CallbackServerContext& context, const TokenFile* tokens);

}  // namespace factord

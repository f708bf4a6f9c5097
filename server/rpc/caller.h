// Who a call is from, and until when: read from its metadata.
#pragma once

#include <string>

#include "grpcpp/server_context.h"
#include "server/rpc/request.h"
#include "server/security/auth_tokens.h"

namespace factord {

// What a call says of where it is from; each may be empty but the last.
struct Origin {
  std::string client = {};       // the metadata entry "factord-client"
  std::string token = {};        // the name of its token
  std::string certificate = {};  // the first name in the peer's certificate
  std::string peer = {};  // its address: "ipv4:127.0.0.1:54321", "ipv6:[::1]:54321", "unix:..."
};

// The first of them that there is; of the peer its address without the port.
std::string FairnessKey(const Origin& origin);

// `tokens`: null where none are asked for. Whether the call may be made at all was decided before
// it came here.
Caller CallerOf(const grpc::CallbackServerContext& context, const TokenFile* tokens);

}  // namespace factord

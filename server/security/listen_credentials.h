// How the calls that come in on one address are secured: by TLS, by tokens, by both or not at all.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/security/server_credentials.h"
#include "server/metrics/metrics.h"
#include "server/security/auth_tokens.h"
#include "server/security/tls_files.h"

namespace factord {

struct ListenSecurity {
  std::shared_ptr<const TlsFiles> tls;      // null: plain
  std::shared_ptr<const TokenFile> tokens;  // null: none are asked for
  std::shared_ptr<Metrics> metrics;         // where calls without a token are counted
};

// For one address: gRPC asks each for the certificate by itself. A unix socket stays plain: the
// file system says who may open it.
std::shared_ptr<grpc::ServerCredentials> ListenCredentials(const std::string& address,
                                                           ListenSecurity security);

// Whether only this machine can reach it.
bool IsLocalAddress(const std::string& address);

}  // namespace factord

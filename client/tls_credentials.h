#ifndef FACTORD_CLIENT_TLS_CREDENTIALS_H_
#define FACTORD_CLIENT_TLS_CREDENTIALS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/factord_client.h"

namespace factord::client {

// PEM files; each may be empty.
struct TlsFiles {
  // The CAs that the server's certificate is checked against. Empty: the system's.
  std::string ca;
  // This client's certificate and key, for a server that asks for one. Both or neither.
  std::string certificate;
  std::string key;
};

// For ClientOptions::credentials. An error names the file that can not be read. What is in the
// files shows when a call is made.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(const TlsFiles& files);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_TLS_CREDENTIALS_H_

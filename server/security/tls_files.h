// TlsFiles: the server's certificate and key, and whose certificates clients are to show.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/security/watched_files.h"

namespace factord {

// PEM texts that OpenSSL takes.
struct TlsPems {
  std::string certificate;  // and its chain
  std::string key;          // that of the certificate
  std::string client_ca;    // empty: clients show none
};

using TlsFiles = WatchedFiles<TlsPems>;

// INVALID_ARGUMENT says what is wrong with which file. `client_ca_path` may be empty.
absl::StatusOr<std::shared_ptr<TlsFiles>> OpenTlsFiles(const std::string& certificate_path,
                                                       const std::string& key_path,
                                                       const std::string& client_ca_path);

}  // namespace factord

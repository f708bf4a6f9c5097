#include "client/tls_credentials.h"

#include <grpcpp/security/credentials.h>

#include "client/file_io.h"

namespace factord::client {
namespace {

absl::Status ReadIfNamed(const std::string& path, std::string* contents) {
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<std::string> read = ReadFile(path);
  if (!read.ok()) return read.status();
  *contents = *std::move(read);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> TlsCredentials(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("TLS: a client's certificate and its key need each other");
  }
  grpc::SslCredentialsOptions options;
  for (const absl::Status& status : {ReadIfNamed(files.ca, &options.pem_root_certs),
                                     ReadIfNamed(files.certificate, &options.pem_cert_chain),
                                     ReadIfNamed(files.key, &options.pem_private_key)}) {
    if (!status.ok()) return status;
  }
  return grpc::SslCredentials(options);
}

}  // namespace factord::client

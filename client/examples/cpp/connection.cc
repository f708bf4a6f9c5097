#include "client/examples/cpp/connection.h"

#include <grpcpp/security/credentials.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

namespace factord::examples {
namespace {

// Empty where the variable is not set.
std::string FileNamedBy(const char* variable) {
  const char* path = std::getenv(variable);
  if (path == nullptr) return "";
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::shared_ptr<grpc::ChannelCredentials> TlsCredentials() {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = FileNamedBy("FACTORD_CA");
  options.pem_cert_chain = FileNamedBy("FACTORD_CERT");  // this and the next for mutual TLS
  options.pem_private_key = FileNamedBy("FACTORD_KEY");
  const auto tls = grpc::SslCredentials(options);
  const char* token = std::getenv("FACTORD_TOKEN");
  if (token == nullptr) return tls;
  // authorization: Bearer TOKEN, with every call.
  return grpc::CompositeChannelCredentials(tls, grpc::AccessTokenCredentials(token));
}

}  // namespace

client::ClientOptions OptionsFor(const std::string& address) {
  client::ClientOptions options;
  options.target = address;
  if (std::getenv("FACTORD_CA") != nullptr) options.credentials = TlsCredentials();
  return options;
}

}  // namespace factord::examples

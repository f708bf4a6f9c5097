#include "client/examples/cpp/connection.h"

#include <cstdlib>
#include <utility>

#include "client/tls_credentials.h"

namespace factord::examples {
namespace {

// Empty where it is not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<client::ClientOptions> OptionsFor(const std::string& address) {
  client::ClientOptions options;
  options.target = address;
  if (const std::string ca = Variable("FACTORD_CA"); !ca.empty()) {
    // Certificate and key are for mutual TLS; empty elsewhere.
    auto credentials = client::TlsCredentials(
        {.ca = ca, .certificate = Variable("FACTORD_CERT"), .key = Variable("FACTORD_KEY")});
    if (!credentials.ok()) return credentials.status();
    options.credentials = *std::move(credentials);
    options.token = Variable("FACTORD_TOKEN");  // authorization: Bearer TOKEN, with every call
  }
  return options;
}

absl::StatusOr<std::unique_ptr<client::Client>> Connect(const std::string& address) {
  absl::StatusOr<client::ClientOptions> options = OptionsFor(address);
  if (!options.ok()) return options.status();
  return client::Client::Create(*std::move(options));
}

}  // namespace factord::examples

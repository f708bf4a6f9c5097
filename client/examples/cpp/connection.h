#ifndef FACTORD_CLIENT_EXAMPLES_CPP_CONNECTION_H_
#define FACTORD_CLIENT_EXAMPLES_CPP_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/factord_client.h"

namespace factord::examples {

// Options for a server, as these examples use it: encrypted where FACTORD_CA names a file; with a
// token where FACTORD_TOKEN holds one. An error names a file that can not be read.
absl::StatusOr<client::ClientOptions> OptionsFor(const std::string& address);

// A client with these options.
absl::StatusOr<std::unique_ptr<client::Client>> Connect(const std::string& address);

}  // namespace factord::examples

#endif  // FACTORD_CLIENT_EXAMPLES_CPP_CONNECTION_H_

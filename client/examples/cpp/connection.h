#ifndef FACTORD_CLIENT_EXAMPLES_CPP_CONNECTION_H_
#define FACTORD_CLIENT_EXAMPLES_CPP_CONNECTION_H_

#include <string>

#include "client/factord_client.h"

namespace factord::examples {

// Options for a server, as these examples use it: encrypted where FACTORD_CA names a file; with a
// token where FACTORD_TOKEN holds one.
client::ClientOptions OptionsFor(const std::string& address);

}  // namespace factord::examples

#endif  // FACTORD_CLIENT_EXAMPLES_CPP_CONNECTION_H_

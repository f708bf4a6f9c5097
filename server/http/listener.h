// Listener: a TCP socket that listens.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace factord {

// Movable; closes the socket unless it was released.
class Listener {
 public:
  // At "HOST:PORT": HOST a name, an IPv4 address or an IPv6 one in brackets; port 0: any free one.
  // INVALID_ARGUMENT where that is none; UNAVAILABLE where it can't be listened on, with the
  // system's reason.
  static absl::StatusOr<Listener> Open(absl::string_view address);

  Listener(Listener&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), address_(std::move(other.address_)) {}
  Listener& operator=(Listener&&) = delete;
  ~Listener();

  // With the port that was chosen.
  const std::string& address() const { return address_; }
  int Release() { return std::exchange(socket_, -1); }

 private:
  Listener(int socket, std::string address) : socket_(socket), address_(std::move(address)) {}

  int socket_;
  std::string address_;
};

}  // namespace factord

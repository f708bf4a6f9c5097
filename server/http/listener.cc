#include "server/http/listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace factord {
namespace {

constexpr int kMaxPort = 65'535;
constexpr int kBacklog = 128;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};

// As getsockname gives it, IPv4 or IPv6.
int PortOf(int socket) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return 0;
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

// -1, and errno says why.
int ListenAt(const addrinfo& where) {
  const int listening =
      socket(where.ai_family, where.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, where.ai_protocol);
  if (listening < 0) return -1;
  const int on = 1;
  setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listening, where.ai_addr, where.ai_addrlen) == 0 && listen(listening, kBacklog) == 0) {
    return listening;
  }
  const int error = errno;
  close(listening);
  errno = error;
  return -1;
}

}  // namespace

absl::StatusOr<Listener> Listener::Open(absl::string_view address) {
  const std::size_t colon = address.rfind(':');
  int port = -1;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is not HOST:PORT"));
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const auto unavailable = [&](const char* why) {
    return absl::UnavailableError(absl::StrCat("can not listen on ", address, ": ", why));
  };

  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int found =
      getaddrinfo(std::string(host).c_str(), absl::StrCat(port).c_str(), &hints, &list);
  if (found != 0) return unavailable(gai_strerror(found));
  const std::unique_ptr<addrinfo, FreeAddresses> owned(list);
  const int listening = ListenAt(*list);
  if (listening < 0) return unavailable(std::strerror(errno));
  return Listener(listening, absl::StrCat(address.substr(0, colon + 1), PortOf(listening)));
}

Listener::~Listener() {
  if (socket_ >= 0) close(socket_);
}

}  // namespace factord

#include "server/rpc/caller.h"

#include <chrono>
#include <string>

namespace factord {
namespace {

constexpr char kClientKey[] = "factord-client";
constexpr std::size_t kMaxClientBytes = 128;

std::string ClientOf(const grpc::CallbackServerContext& context) {
  const auto entry = context.client_metadata().find(kClientKey);
  if (entry != context.client_metadata().end() && !entry->second.empty()) {
    return std::string(entry->second.data(), std::min(entry->second.size(), kMaxClientBytes));
  }
  std::string peer = context.peer();  // "ipv4:127.0.0.1:54321", "ipv6:[::1]:54321", "unix:..."
  if (peer.rfind("unix", 0) == 0) return peer;
  return peer.substr(0, peer.rfind(':'));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const auto deadline = context.deadline();
  return deadline == std::chrono::system_clock::time_point::max() ? absl::InfiniteFuture()
                                                                  : absl::FromChrono(deadline);
}

}  // namespace

Caller CallerOf(const grpc::CallbackServerContext& context) {
  return {.client = ClientOf(context), .deadline = DeadlineOf(context)};
}

}  // namespace factord

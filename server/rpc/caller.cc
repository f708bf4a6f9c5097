#include "server/rpc/caller.h"

#include <string>

#include "grpc/support/time.h"

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
  // Not context.deadline(): its 64-bit nanoseconds end in 2262, and "for ever" may be later.
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_REALTIME);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_REALTIME)) == 0)
    return absl::InfiniteFuture();
  return absl::FromUnixSeconds(deadline.tv_sec) + absl::Nanoseconds(deadline.tv_nsec);
}

}  // namespace

Caller CallerOf(const grpc::CallbackServerContext& context) {
  return {.client = ClientOf(context), .deadline = DeadlineOf(context)};
}

}  // namespace factord

#include "server/rpc/caller.h"

#include <string>

#include "grpc/support/time.h"

namespace factord {
namespace {

constexpr char kClientKey[] = "factord-client";
constexpr std::size_t kMaxClientBytes = 128;

std::string TokenNameOf(const grpc::CallbackServerContext& context, const TokenFile& tokens) {
  const auto entry = context.client_metadata().find("authorization");
  if (entry == context.client_metadata().end()) return "";
  return tokens.value()->NameOf({entry->second.data(), entry->second.size()}).value_or("");
}

// The first name of its certificate: an alternative name, or the common name where it has none.
std::string CertificateNameOf(const grpc::CallbackServerContext& context) {
  const auto names = context.auth_context()->GetPeerIdentity();
  return names.empty() ? "" : std::string(names.front().data(), names.front().size());
}

std::string ClientOf(const grpc::CallbackServerContext& context, const TokenFile* tokens) {
  const auto entry = context.client_metadata().find(kClientKey);
  if (entry != context.client_metadata().end() && !entry->second.empty()) {
    return std::string(entry->second.data(), std::min(entry->second.size(), kMaxClientBytes));
  }
  const std::string token = tokens == nullptr ? "" : TokenNameOf(context, *tokens);
  if (!token.empty()) return "token:" + token;
  const std::string certificate = CertificateNameOf(context);
  if (!certificate.empty()) return "certificate:" + certificate;
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

Caller CallerOf(const grpc::CallbackServerContext& context, const TokenFile* tokens) {
  return {.client = ClientOf(context, tokens), .deadline = DeadlineOf(context)};
}

}  // namespace factord

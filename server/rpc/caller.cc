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

std::string EntryOf(const grpc::CallbackServerContext& context) {
  const auto entry = context.client_metadata().find(kClientKey);
  if (entry == context.client_metadata().end()) return "";
  return std::string(entry->second.data(), std::min(entry->second.size(), kMaxClientBytes));
}

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  // Not context.deadline(): its 64-bit nanoseconds end in 2262, and "for ever" may be later.
  const gpr_timespec deadline = gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_REALTIME);
  if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_REALTIME)) == 0)
    return absl::InfiniteFuture();
  return absl::FromUnixSeconds(deadline.tv_sec) + absl::Nanoseconds(deadline.tv_nsec);
}

}  // namespace

std::string FairnessKey(const Origin& origin) {
  if (!origin.client.empty()) return origin.client;
  if (!origin.token.empty()) return "token:" + origin.token;
  if (!origin.certificate.empty()) return "certificate:" + origin.certificate;
  if (origin.peer.rfind("unix", 0) == 0) return origin.peer;
  return origin.peer.substr(0, origin.peer.rfind(':'));
}

Caller CallerOf(const grpc::CallbackServerContext& context, const TokenFile* tokens) {
  const Origin origin = {.client = EntryOf(context),
                         .token = tokens == nullptr ? "" : TokenNameOf(context, *tokens),
                         .certificate = CertificateNameOf(context),
                         .peer = context.peer()};
  return {.client = FairnessKey(origin), .deadline = DeadlineOf(context)};
}

}  // namespace factord

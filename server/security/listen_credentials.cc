#include "server/security/listen_credentials.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "factord/v1/factord.grpc.pb.h"
#include "grpc/grpc.h"
#include "grpc/grpc_security.h"
#include "grpc/support/log.h"
#include "server/core/address.h"

namespace factord {
namespace {

// Health is open: what probes and load balancers ask holds no secret.
constexpr absl::string_view kHealth = "/grpc.health.v1.Health/";
constexpr char kNoToken[] =
    "this server takes calls with a token only: metadata \"authorization: Bearer TOKEN\"";
constexpr char kWrongToken[] = "the token is not one of this server's";

absl::string_view ToView(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// One address's, which gRPC's core owns and asks. The C++ API has no certificates that change and
// keep the last good ones (its file watcher refuses all connections while a pair is bad), and no
// check of tokens on connections without TLS; the core has both.
class AddressSecurity {
 public:
  explicit AddressSecurity(ListenSecurity security) : security_(std::move(security)) {}
  ~AddressSecurity() { OrderUses(); }

  // The core's, with this object inside.
  static grpc_server_credentials* ToCore(std::unique_ptr<AddressSecurity> owned);

 private:
  // From the core, before each handshake and for one at a time.
  static grpc_ssl_certificate_config_reload_status FetchCertificate(
      void* self, grpc_ssl_server_certificate_config** config);
  // From the core, before a call's messages are read.
  static void CheckCall(void* self, grpc_auth_context* context, const grpc_metadata* metadata,
                        size_t count, grpc_process_auth_metadata_done_cb done, void* user_data);

  void CountRefusal(absl::string_view path) const;

  // After each use. The core orders uses and the end of this object too, where ThreadSanitizer does
  // not see it.
  void OrderUses() { uses_.fetch_add(1, std::memory_order_acq_rel); }

  const ListenSecurity security_;
  std::shared_ptr<const TlsPems> served_;  // the certificate that the core has
  std::atomic<std::uint64_t> uses_{0};
};

grpc_server_credentials* AddressSecurity::ToCore(std::unique_ptr<AddressSecurity> owned) {
  AddressSecurity* const self = owned.release();
  grpc_server_credentials* credentials = nullptr;
  if (self->security_.tls == nullptr) {
    credentials = grpc_insecure_server_credentials_create();
  } else {
    const bool mutual = !self->security_.tls->value()->client_ca.empty();
    credentials = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                   : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            FetchCertificate, self));
  }
  // Also what ends this object, with the last connection that knows it.
  grpc_server_credentials_set_auth_metadata_processor(
      credentials, {.process = self->security_.tokens == nullptr ? nullptr : CheckCall,
                    .destroy = [](void* state) { delete static_cast<AddressSecurity*>(state); },
                    .state = self});
  return credentials;
}

grpc_ssl_certificate_config_reload_status AddressSecurity::FetchCertificate(
    void* self_pointer, grpc_ssl_server_certificate_config** config) {
  auto* const self = static_cast<AddressSecurity*>(self_pointer);
  std::shared_ptr<const TlsPems> current = self->security_.tls->value();
  const bool is_served = current == self->served_;
  self->OrderUses();
  if (is_served) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  grpc_ssl_pem_key_cert_pair pair = {.private_key = current->key.c_str(),
                                     .cert_chain = current->certificate.c_str()};
  // gRPC wants some CA, also where no client is asked for a certificate.
  const std::string& ca = current->client_ca.empty() ? current->certificate : current->client_ca;
  *config = grpc_ssl_server_certificate_config_create(ca.c_str(), &pair, 1);
  self->served_ = std::move(current);
  self->OrderUses();
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

void AddressSecurity::CheckCall(void* self_pointer, grpc_auth_context*,
                                const grpc_metadata* metadata, size_t count,
                                grpc_process_auth_metadata_done_cb done, void* user_data) {
  auto* const self = static_cast<AddressSecurity*>(self_pointer);
  absl::string_view path, authorization;
  for (size_t i = 0; i < count; ++i) {
    const absl::string_view key = ToView(metadata[i].key);
    if (key == ":path") path = ToView(metadata[i].value);
    if (key == "authorization") authorization = ToView(metadata[i].value);
  }
  const bool allowed = absl::StartsWith(path, kHealth) ||
                       self->security_.tokens->value()->NameOf(authorization).has_value();
  if (!allowed) self->CountRefusal(path);
  self->OrderUses();
  done(user_data, nullptr, 0, nullptr, 0, allowed ? GRPC_STATUS_OK : GRPC_STATUS_UNAUTHENTICATED,
       allowed                 ? nullptr
       : authorization.empty() ? kNoToken
                               : kWrongToken);
}

// As a request that came and ended, where it is one of an RPC of ours.
void AddressSecurity::CountRefusal(absl::string_view path) const {
  Metrics& metrics = *security_.metrics;
  metrics.Rejected(Reject::kUnauthenticated);
  for (int i = 0; i < kRpcs; ++i) {
    const Rpc rpc = static_cast<Rpc>(i);
    if (path != absl::StrCat("/", v1::Factorization::service_full_name(), "/", Name(rpc))) continue;
    metrics.RequestStarted(rpc);
    metrics.RequestEnded(rpc, GRPC_STATUS_UNAUTHENTICATED, absl::ZeroDuration());
  }
}

// The core's credentials in the C++ API's clothes.
class CoreCredentials final : public grpc::ServerCredentials {
 public:
  explicit CoreCredentials(grpc_server_credentials* credentials) : credentials_(credentials) {}
  ~CoreCredentials() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {
    GPR_ASSERT(false);  // there is one
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ListenCredentials(const std::string& address,
                                                           ListenSecurity security) {
  if (IsUnixAddress(address)) security.tls = nullptr;
  if (security.tls == nullptr && security.tokens == nullptr)
    return grpc::InsecureServerCredentials();
  return std::make_shared<CoreCredentials>(
      AddressSecurity::ToCore(std::make_unique<AddressSecurity>(std::move(security))));
}

bool IsLocalAddress(const std::string& address) {
  return IsUnixAddress(address) || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") || absl::StartsWith(address, "[::1]:");
}

}  // namespace factord

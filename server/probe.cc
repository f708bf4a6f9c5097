#include "server/probe.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/tls_credentials_options.h"
#include "server/core/address.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/security/read_file.h"

namespace factord {
namespace {

using grpc::health::v1::HealthCheckResponse;

// A healthy server answers within milliseconds; a container's own limit may end the probe earlier.
constexpr auto kTimeout = std::chrono::seconds(2);

absl::Status CheckAddress(const std::string& address) {
  int port = 0;
  const std::size_t colon = address.rfind(':');
  const bool tcp = colon != std::string::npos && colon > 0 &&
                   absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port < 65536;
  if (IsUnixAddress(address) ? NamesUnixSocket(address) : tcp) return absl::OkStatus();
  return InvalidField("probe",
                      absl::StrCat("\"", address, "\" is neither HOST:PORT nor unix:PATH"));
}

absl::StatusOr<std::string> ReadOne(const std::string& flag, const std::string& path) {
  if (path.empty()) return std::string();
  ASSIGN_OR_RETURN(const std::vector<FileText> files, ReadFiles({{.flag = flag, .path = path}}));
  return files.front().text;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const ProbeOptions& options) {
  namespace tls = grpc::experimental;
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return InvalidField("tls_cert", "and tls_key need each other");
  }
  if (IsUnixAddress(options.address) || (options.tls_ca.empty() && options.tls_cert.empty())) {
    return grpc::InsecureChannelCredentials();
  }
  ASSIGN_OR_RETURN(std::string ca, ReadOne("tls_ca", options.tls_ca));
  ASSIGN_OR_RETURN(std::string certificate, ReadOne("tls_cert", options.tls_cert));
  ASSIGN_OR_RETURN(std::string key, ReadOne("tls_key", options.tls_key));
  std::vector<tls::IdentityKeyCertPair> pairs;
  if (!certificate.empty()) {
    pairs.push_back({.private_key = std::move(key), .certificate_chain = std::move(certificate)});
  }
  tls::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(std::make_shared<tls::StaticDataCertificateProvider>(ca, pairs));
  if (!pairs.empty()) channel.watch_identity_key_cert_pairs();
  if (!ca.empty()) {
    channel.watch_root_certs();
  } else {
    channel.set_verify_server_certs(false);
    channel.set_check_call_host(false);
    channel.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  }
  return tls::TlsCredentials(channel);
}

}  // namespace

absl::Status Probe(const ProbeOptions& options) {
  RETURN_IF_ERROR(CheckAddress(options.address));
  ASSIGN_OR_RETURN(const auto credentials, Credentials(options));
  const auto stub =
      grpc::health::v1::Health::NewStub(grpc::CreateChannel(options.address, credentials));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  HealthCheckResponse response;
  const grpc::Status status = stub->Check(&context, {}, &response);
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat(options.address, ": ", status.error_message()));
  }
  const std::string answer = absl::StrCat(
      options.address, ": ", HealthCheckResponse::ServingStatus_Name(response.status()));
  if (response.status() != HealthCheckResponse::SERVING) return absl::UnavailableError(answer);
  std::printf("%s\n", answer.c_str());
  return absl::OkStatus();
}

}  // namespace factord

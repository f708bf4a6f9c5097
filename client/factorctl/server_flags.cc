#include "client/factorctl/server_flags.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/file_io.h"
#include "client/tls_credentials.h"

namespace factord::client {
namespace {

// The first token of a file in the server's format.
absl::StatusOr<std::string> TokenIn(const std::string& path) {
  const absl::StatusOr<std::string> contents = ReadFile(path);
  if (!contents.ok()) return contents.status();
  for (absl::string_view line : absl::StrSplit(*contents, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    return std::string(line.substr(line.find(':') + 1));
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": holds no token"));
}

}  // namespace

void ServerFlags::Register(FlagSet* flags) {
  flags->String("server", "HOST:PORT", &server, "Where the server is.");
  flags->Duration("timeout", &timeout,
                  "Longest time one request may take, retries included; units ms, s, m, h.");
  flags->String("client_name", "NAME", &client_name,
                "The name under which the server counts this client when it shares itself out.");
  flags->Int("max_message_mib", &max_message_mib,
             "Largest gRPC message, in MiB; what is larger is streamed. At least 4.");
  flags->Bool("tls", &tls, "Encrypt, and check the server's certificate.");
  flags->String("tls_ca", "FILE", &tls_ca,
                "PEM file with the CAs to check it against, else the system's; means --tls.");
  flags->String("tls_cert", "FILE", &tls_cert,
                "PEM file with a certificate to show to the server; means --tls.");
  flags->String("tls_key", "FILE", &tls_key, "PEM file with that certificate's key.");
  flags->String("token_file", "FILE", &token_file,
                "File whose first line, TOKEN or NAME:TOKEN, is the token to show to the server.");
  flags->Bool("json", &json, "Print one JSON value instead of text.");
}

absl::StatusOr<ClientOptions> ServerFlags::ToClientOptions() const {
  if (timeout <= absl::ZeroDuration()) return UsageError("--timeout must be above 0");
  if (max_message_mib < 4 || max_message_mib > 2047) {
    return UsageError("--max_message_mib must be in 4..2047");
  }
  ClientOptions options;
  options.target = server;
  options.client_name = client_name;
  options.timeout = timeout;
  options.max_message_bytes = max_message_mib << 20;
  if (tls || !tls_ca.empty() || !tls_cert.empty() || !tls_key.empty()) {
    if (tls_cert.empty() != tls_key.empty()) {
      return UsageError("--tls_cert and --tls_key need each other");
    }
    auto credentials = TlsCredentials({.ca = tls_ca, .certificate = tls_cert, .key = tls_key});
    if (!credentials.ok()) return credentials.status();
    options.credentials = *std::move(credentials);
  }
  if (!token_file.empty()) {
    absl::StatusOr<std::string> token = TokenIn(token_file);
    if (!token.ok()) return token.status();
    options.token = *std::move(token);
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Client>> ServerFlags::Connect() const {
  absl::StatusOr<ClientOptions> options = ToClientOptions();
  if (!options.ok()) return options.status();
  return Client::Create(*std::move(options));
}

void RunFlags::Register(FlagSet* flags) {
  flags->Choice<v1::Backend>(
      "backend",
      {{"auto", v1::BACKEND_UNSPECIFIED}, {"cpu", v1::BACKEND_CPU}, {"gpu", v1::BACKEND_GPU}},
      &backend, "Where to run; auto: the server chooses.");
  flags->Choice<v1::Precision>(
      "precision", {{"strict", v1::PRECISION_STRICT}, {"fast", v1::PRECISION_FAST}}, &precision,
      "strict: accurate to the type; fast: lower precision is allowed inside.");
  flags->Choice<v1::Priority>(
      "priority", {{"normal", v1::PRIORITY_NORMAL}, {"low", v1::PRIORITY_LOW}}, &priority,
      "low: runs when no normal work waits, or when it has waited long enough.");
  flags->Bool("reproducible", &reproducible,
              "The same bytes in give the same bytes out, whatever the server's load.");
}

v1::RunOptions RunFlags::ToRunOptions() const {
  v1::RunOptions run;
  run.set_backend(backend);
  run.set_precision(precision);
  run.set_priority(priority);
  run.set_reproducible(reproducible);
  return run;
}

void RegisterDType(FlagSet* flags, v1::DType* dtype) {
  flags->Choice<v1::DType>("dtype",
                           {{"f32", v1::DTYPE_F32},
                            {"f64", v1::DTYPE_F64},
                            {"c64", v1::DTYPE_C64},
                            {"c128", v1::DTYPE_C128}},
                           dtype, "The matrices' type.");
}

void QrFlags::Register(FlagSet* flags) {
  flags->Choice<Mode>(
      "mode",
      {{"reduced", Mode::kReduced},
       {"complete", Mode::kComplete},
       {"r", Mode::kR},
       {"raw", Mode::kRaw}},
      &mode,
      "reduced: Q (m x k) and R (k x n), k = min(m, n); complete: Q (m x m) and R;\n"
      "r: R only; raw: LAPACK geqrf's packed reflectors (m x n) and tau (k).");
  flags->Choice<v1::Sign>(
      "sign",
      {{"lapack", v1::SIGN_LAPACK},
       {"nonnegative", v1::SIGN_NONNEGATIVE},
       {"special_orthogonal", v1::SIGN_SPECIAL_ORTHOGONAL}},
      &sign,
      "lapack: R's diagonal as geqrf leaves it; nonnegative: R's diagonal >= 0;\n"
      "special_orthogonal: and det Q = +1 (real square matrices).");
}

v1::QrOptions QrFlags::ToQrOptions() const {
  v1::QrOptions qr;
  qr.set_sign(sign);
  if (mode == Mode::kReduced) qr.set_q(v1::Q_MODE_REDUCED);
  if (mode == Mode::kComplete) qr.set_q(v1::Q_MODE_COMPLETE);
  if (mode == Mode::kRaw) {
    qr.set_reflectors(true);
  } else {
    qr.set_r(true);
  }
  return qr;
}

std::string QrFlags::ModeName() const {
  switch (mode) {
    case Mode::kReduced:
      return "reduced";
    case Mode::kComplete:
      return "complete";
    case Mode::kR:
      return "r";
    case Mode::kRaw:
      return "raw";
  }
  return "";
}

}  // namespace factord::client

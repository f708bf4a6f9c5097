#ifndef FACTORD_CLIENT_FACTORCTL_SERVER_FLAGS_H_
#define FACTORD_CLIENT_FACTORCTL_SERVER_FLAGS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/factorctl/flags.h"
#include "client/factord_client.h"

namespace factord::client {

// The flags that every command has: where the server is, and how the output looks.
struct ServerFlags {
  std::string server = "127.0.0.1:50051";
  std::string client_name = "factorctl";
  absl::Duration timeout = absl::Seconds(60);
  int64_t max_message_mib = 64;
  bool json = false;
  bool tls = false;  // also by any of the next three
  std::string tls_ca;
  std::string tls_cert;
  std::string tls_key;
  std::string token_file;

  void Register(FlagSet* flags);

  // A usage error for values out of range; another where a file can not be read.
  absl::StatusOr<ClientOptions> ToClientOptions() const;
  absl::StatusOr<std::unique_ptr<Client>> Connect() const;
};

// The flags of commands that compute: factord.v1.RunOptions.
struct RunFlags {
  v1::Backend backend = v1::BACKEND_UNSPECIFIED;
  v1::Precision precision = v1::PRECISION_STRICT;
  v1::Priority priority = v1::PRIORITY_NORMAL;
  bool reproducible = false;

  void Register(FlagSet* flags);
  v1::RunOptions ToRunOptions() const;
};

// --dtype, of commands that make up their matrices.
void RegisterDType(FlagSet* flags, v1::DType* dtype);

// The flags that say which factors of A = Q R are wanted.
struct QrFlags {
  enum class Mode { kReduced, kComplete, kR, kRaw };
  Mode mode = Mode::kReduced;
  v1::Sign sign = v1::SIGN_LAPACK;

  void Register(FlagSet* flags);
  v1::QrOptions ToQrOptions() const;
  std::string ModeName() const;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_SERVER_FLAGS_H_

#ifndef FACTORD_CLIENT_FACTORCTL_SWEEP_H_
#define FACTORD_CLIENT_FACTORCTL_SWEEP_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/factorctl/load.h"

namespace factord::client {

// What a series of load runs varies.
enum class SweptOption { kClients, kRate, kBatch };

struct Sweep {
  SweptOption option;
  std::vector<double> values;
};

// "rate:100,200,400"; whole numbers for clients and batch. Usage errors.
absl::StatusOr<Sweep> ParseSweep(absl::string_view text);

// "clients", "rate" or "batch".
absl::string_view Name(SweptOption option);

// `options` with the swept option at `value`. A batch takes the place of all leading dims of every
// shape.
LoadOptions WithOption(LoadOptions options, SweptOption option, double value);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_SWEEP_H_

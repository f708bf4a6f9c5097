#include "client/factorctl/sweep.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/factorctl/flags.h"

namespace factord::client {
namespace {

constexpr std::pair<absl::string_view, SweptOption> kOptions[] = {
    {"clients", SweptOption::kClients},
    {"rate", SweptOption::kRate},
    {"batch", SweptOption::kBatch}};

bool Fits(SweptOption option, double value) {
  if (!std::isfinite(value) || value <= 0) return false;
  if (option == SweptOption::kRate) return true;
  const double most = option == SweptOption::kClients ? 10'000 : 1e9;
  return value <= most && value == std::floor(value);
}

}  // namespace

absl::string_view Name(SweptOption option) {
  return kOptions[static_cast<std::size_t>(option)].first;
}

absl::StatusOr<Sweep> ParseSweep(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
  for (const auto& [name, option] : kOptions) {
    if (parts.size() != 2 || parts[0] != name) continue;
    Sweep sweep{.option = option, .values = {}};
    for (absl::string_view word : absl::StrSplit(parts[1], ',')) {
      double value = 0;
      if (!absl::SimpleAtod(word, &value) || !Fits(option, value)) {
        return UsageError(absl::StrCat("--sweep: '", word, "' is no value for ", name));
      }
      sweep.values.push_back(value);
    }
    return sweep;
  }
  return UsageError(
      absl::StrCat("--sweep must be clients:N,..., rate:N,... or batch:N,..., not '", text, "'"));
}

LoadOptions WithOption(LoadOptions options, SweptOption option, double value) {
  switch (option) {
    case SweptOption::kClients:
      options.clients = static_cast<int>(value);
      break;
    case SweptOption::kRate:
      options.rate = value;
      break;
    case SweptOption::kBatch:
      for (Dims& dims : options.shapes) {
        dims = {static_cast<int64_t>(value), dims[dims.size() - 2], dims.back()};
      }
  }
  return options;
}

}  // namespace factord::client

// Which backend a run of equal matrices goes to, and what that choice rests on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/spec.h"

namespace factord {

// What predicted times rest on.
enum class RouteLabel : std::uint8_t {
  kMeasured,   // on this CPU and this device
  kEstimated,  // on others
  kDefault,    // a rule of thumb
};
inline constexpr int kRouteLabels = 3;
absl::string_view Name(RouteLabel label);

// Of one run, transfers included, without queueing. Zero: that backend is not here, or its time is
// not known.
struct RouteTimes {
  absl::Duration cpu, gpu;
  RouteLabel label = RouteLabel::kDefault;
};

// Why a backend was chosen.
enum class RouteReason : std::uint8_t {
  kOnlyBackend,    // there is no other
  kAsked,          // the request names it
  kEmpty,          // no matrix has an element
  kNotOnGpu,       // the GPU engine does not have this operation or type
  kTooLarge,       // for the GPU's buffers
  kServerSetting,  // --backend
  kWork,           // --gpu_min_flops
  kGpuLost,        // no device is healthy
  kPredicted,      // the smaller predicted time
};

struct RouteQuery {
  Spec spec = {};
  std::int64_t count = 0;               // matrices of the run
  std::optional<Backend> backend = {};  // asked for by name
  bool reproducible = false;            // the choice must not depend on count or load
  bool explain = false;                 // times are wanted even where the choice does not need them
};

struct Route {
  Backend backend = Backend::kCpu;
  bool pinned = false;  // never re-run elsewhere: asked for by name, or reproducible
  bool reproducible = false;
  RouteReason reason = RouteReason::kOnlyBackend;
  RouteTimes times;  // zero where the choice did not need them

  // One sentence, for people.
  std::string Explanation() const;
};

}  // namespace factord

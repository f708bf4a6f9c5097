#include "server/core/route.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace factord {
namespace {

std::string Comparison(const Route& route) {
  const bool gpu = route.backend == Backend::kGpu;
  const absl::Duration chosen = gpu ? route.times.gpu : route.times.cpu;
  const absl::Duration other = gpu ? route.times.cpu : route.times.gpu;
  return absl::StrFormat("the %s is predicted to be %.2g times as fast as the %s (%s)",
                         std::string(Name(route.backend)), absl::FDivDuration(other, chosen),
                         gpu ? "cpu" : "gpu", std::string(Name(route.times.label)));
}

}  // namespace

absl::string_view Name(RouteLabel label) {
  switch (label) {
    case RouteLabel::kMeasured:
      return "measured";
    case RouteLabel::kEstimated:
      return "estimated";
    case RouteLabel::kDefault:
      return "default";
  }
  return "";
}

std::string Route::Explanation() const {
  const absl::string_view name = Name(backend);
  const absl::string_view by_shape =
      reproducible ? ", decided by shape alone as the request is to be reproducible" : "";
  switch (reason) {
    case RouteReason::kOnlyBackend:
      return absl::StrCat("this server has only the ", name, " backend");
    case RouteReason::kAsked:
      return absl::StrCat("the request asks for the ", name);
    case RouteReason::kEmpty:
      return "there is nothing to factorize";
    case RouteReason::kNotOnGpu:
      return "the gpu engine does real types, and least squares of tall and square matrices; the "
             "rest runs on the cpu beside it";
    case RouteReason::kTooLarge:
      return "one matrix with its results does not fit the gpu's buffers (--gpu_memory_bytes, "
             "--gpu_pinned_bytes)";
    case RouteReason::kServerSetting:
      return absl::StrCat("the server's --backend is ", name);
    case RouteReason::kWork:
      return absl::StrCat("the server's --gpu_min_flops draws the line", by_shape);
    case RouteReason::kGpuLost:
      return "no gpu is healthy";
    case RouteReason::kPredicted:
      return absl::StrCat(Comparison(*this), by_shape);
  }
  return "";
}

}  // namespace factord

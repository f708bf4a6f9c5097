#include "server/engine/router.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace factord {
namespace {

constexpr absl::Duration kCpuOverhead = absl::Microseconds(10);  // of a batch
constexpr double kLapackNsPerFlop = 0.5;                         // one thread, small matrices
constexpr double kSimdNsPerFlopF32 = 0.04, kSimdNsPerFlopF64 = 0.08;
constexpr double kCpuTeamFlops = 2e7;  // a matrix that all threads work on together
constexpr double kCpuFlopsPerMatrix = 2000;

constexpr absl::Duration kGpuOverhead = absl::Microseconds(60);  // launches, both transfers' start
constexpr double kBusBytesPerNs = 20;
constexpr double kGpuFlopsPerNsF32 = 2000, kGpuFlopsPerNsF64 = 1000;
constexpr double kGpuNsPerColumn = 1500;  // columns wait for each other

constexpr std::int64_t kNominalBytes = 1 << 20;

std::int64_t BytesOf(const Spec& spec) {
  std::int64_t bytes = 0;
  for (Operand operand : InputsOf(spec)) bytes += MatrixBytes(spec, operand);
  for (Operand operand : OutputsOf(spec)) bytes += MatrixBytes(spec, operand);
  return bytes;
}

double CpuNsPerFlop(const Spec& spec, const Machine& machine) {
  if (machine.cpu_engine == "lapack") return kLapackNsPerFlop;
  return RealOf(spec.dtype) == DType::kF32 ? kSimdNsPerFlopF32 : kSimdNsPerFlopF64;
}

RouteLabel LabelOf(const Machine& machine, const std::optional<RoutingTable>& table) {
  if (!table) return RouteLabel::kDefault;
  const RoutingHeader& header = table->header();
  const bool same = header.measured && header.cpu == machine.cpu &&
                    header.threads == machine.threads && header.cpu_engine == machine.cpu_engine &&
                    (!machine.gpu || header.device == *machine.gpu);
  return same ? RouteLabel::kMeasured : RouteLabel::kEstimated;
}

}  // namespace

bool GpuTakes(const Spec& spec) {
  if (IsComplex(spec.dtype) || spec.k() == 0) return false;
  return spec.op != Op::kSolve || spec.m >= spec.n;
}

std::int64_t NominalCount(const Spec& spec) {
  return std::max<std::int64_t>(1, kNominalBytes / std::max<std::int64_t>(1, BytesOf(spec)));
}

RouteTimes DefaultTimes(const Spec& spec, std::int64_t count, const Machine& machine) {
  const auto matrices = static_cast<double>(count);
  const double flops = FlopsOf(spec);
  const double threads =
      flops >= kCpuTeamFlops ? machine.threads : std::min<double>(machine.threads, matrices);
  RouteTimes times;
  const double cpu_ns = (flops + kCpuFlopsPerMatrix) * CpuNsPerFlop(spec, machine);
  times.cpu = kCpuOverhead + absl::Nanoseconds(cpu_ns * matrices / threads);
  if (!machine.gpu) return times;
  const double rate = RealOf(spec.dtype) == DType::kF32 ? kGpuFlopsPerNsF32 : kGpuFlopsPerNsF64;
  const double bus_ns = static_cast<double>(BytesOf(spec)) * matrices / kBusBytesPerNs;
  const double columns_ns = static_cast<double>(spec.k()) * kGpuNsPerColumn;
  times.gpu =
      kGpuOverhead + absl::Nanoseconds(bus_ns + std::max(flops * matrices / rate, columns_ns));
  return times;
}

Router::Router(Machine machine, std::optional<RoutingTable> table, RoutingOverrides overrides)
    : machine_(std::move(machine)),
      table_(std::move(table)),
      overrides_(overrides),
      label_(LabelOf(machine_, table_)) {}

RouteTimes Router::Predict(const Spec& spec, std::int64_t count) const {
  if (!table_) return DefaultTimes(spec, count, machine_);
  const auto cpu = table_->Predict(spec, count, Backend::kCpu);
  const auto gpu = machine_.gpu ? table_->Predict(spec, count, Backend::kGpu)
                                : std::optional(absl::ZeroDuration());
  // Both or neither: a measured time says nothing next to a rule of thumb.
  if (!cpu || !gpu) return DefaultTimes(spec, count, machine_);
  return {*cpu, *gpu, label_};
}

Route Router::Choose(const RouteQuery& query, std::int64_t count, bool gpu_healthy) const {
  Route route;
  const auto choose = [&](Backend backend, RouteReason reason) {
    route.backend = backend;
    route.reason = reason;
    return route;
  };
  if (!machine_.gpu) {
    return choose(Backend::kCpu, query.backend ? RouteReason::kAsked : RouteReason::kOnlyBackend);
  }
  if (query.backend == Backend::kCpu) return choose(Backend::kCpu, RouteReason::kAsked);
  if (query.spec.k() == 0 || count == 0) return choose(Backend::kCpu, RouteReason::kEmpty);
  if (!GpuTakes(query.spec)) return choose(Backend::kCpu, RouteReason::kNotOnGpu);
  if (BytesOf(query.spec) > machine_.gpu_matrix_bytes) {
    return choose(Backend::kCpu, RouteReason::kTooLarge);
  }
  if (query.backend) return choose(Backend::kGpu, RouteReason::kAsked);
  if (overrides_.backend == Backend::kCpu) {
    return choose(Backend::kCpu, RouteReason::kServerSetting);
  }
  if (!gpu_healthy && !query.reproducible) return choose(Backend::kCpu, RouteReason::kGpuLost);
  if (overrides_.backend) return choose(Backend::kGpu, RouteReason::kServerSetting);
  if (overrides_.gpu_min_flops > 0) {
    const bool enough =
        FlopsOf(query.spec) * static_cast<double>(count) >= overrides_.gpu_min_flops;
    return choose(enough ? Backend::kGpu : Backend::kCpu, RouteReason::kWork);
  }
  route.times = Predict(query.spec, count);
  return choose(route.times.gpu < route.times.cpu ? Backend::kGpu : Backend::kCpu,
                RouteReason::kPredicted);
}

Route Router::Decide(const RouteQuery& query, bool gpu_healthy) const {
  const bool empty = query.count == 0 || query.spec.k() == 0;
  const std::int64_t count = query.reproducible && !empty ? NominalCount(query.spec) : query.count;
  Route route = Choose(query, count, gpu_healthy);
  route.reproducible = query.reproducible;
  route.pinned = query.reproducible || query.backend.has_value();
  if (query.explain && !empty && route.reason != RouteReason::kPredicted) {
    route.times = Predict(query.spec, count);
    if (!GpuTakes(query.spec) || route.reason == RouteReason::kTooLarge)
      route.times.gpu = absl::ZeroDuration();
  }
  return route;
}

std::string Router::Description() const {
  if (!table_) return "no table: a rule of thumb";
  const RoutingHeader& header = table_->header();
  std::string text = absl::StrCat(header.cpu, ", ", header.threads, " threads, ",
                                  header.device == "none" ? "no GPU" : header.device);
  if (!header.date.empty()) absl::StrAppend(&text, ", ", header.date);
  return text;
}

}  // namespace factord

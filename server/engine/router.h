// Router: CPU or GPU, by measured times where there are any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/core/route.h"
#include "server/core/spec.h"
#include "server/engine/routing_table.h"

namespace factord {

// What the routing table is compared with.
struct Machine {
  std::string cpu;
  int threads = 1;                            // of the CPU engine
  std::string cpu_engine = "lapack";          // or "simd"
  std::optional<std::string> gpu = {};        // the devices' model; nothing: there is none
  std::int64_t gpu_matrix_bytes = INT64_MAX;  // the largest matrix, with its results, that fits
};

struct RoutingOverrides {
  std::optional<Backend> backend = {};  // of every request that names none
  double gpu_min_flops = 0;  // > 0: this much work or more goes to the GPU, less does not
};

// Real types; not Solve of wide matrices; nothing empty. What it does not take runs on the CPU
// beside it, even where the GPU was asked for: no request is refused for its type.
bool GpuTakes(const Spec& spec);

// Of a reproducible request, whatever its count: as many matrices as have about 1 MiB.
std::int64_t NominalCount(const Spec& spec);

// Without a table: 10 us and 0.5 ns a flop (LAPACK) or 0.04 (f32) and 0.08 (f64, our kernels),
// divided by the threads that a batch can use, against 60 us, 20 GB/s over the bus, 1 (f64) or 2
// (f32) Tflop/s, and no column in less than 1.5 us.
RouteTimes DefaultTimes(const Spec& spec, std::int64_t count, const Machine& machine);

// A value: pure, deterministic. The queues in front of the backends do not count.
class Router {
 public:
  Router(Machine machine, std::optional<RoutingTable> table, RoutingOverrides overrides);

  // In this order: what can not run elsewhere; what the request names; --backend; what is left when
  // no device is healthy; --gpu_min_flops; the smaller predicted time. A reproducible request's
  // choice never depends on its count nor on health.
  Route Decide(const RouteQuery& query, bool gpu_healthy) const;

  // REQUIRES: m, n and count are at least 1.
  RouteTimes Predict(const Spec& spec, std::int64_t count) const;

  // What predictions of the operations in the table rest on; as a word, and for people.
  RouteLabel label() const { return label_; }
  std::string Description() const;

 private:
  Route Choose(const RouteQuery& query, std::int64_t count, bool gpu_healthy) const;

  Machine machine_;
  std::optional<RoutingTable> table_;
  RoutingOverrides overrides_;
  RouteLabel label_ = RouteLabel::kDefault;
};

}  // namespace factord

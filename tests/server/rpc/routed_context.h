// A ServiceContext with two backends, whose router does what the test says.
#pragma once

#include <array>
#include <memory>

#include "server/core/byte_budget.h"
#include "server/core/cost_model.h"
#include "server/metrics/metrics.h"
#include "server/rpc/service_context.h"

namespace factord::testing {

struct RoutedContext {
  RoutedContext() {
    context.costs = &costs;
    context.metrics = std::make_shared<Metrics>(BuildInfo{});
    context.budget = std::make_shared<ByteBudget>(std::int64_t{1} << 30);
    context.limits.memory_budget_bytes = context.budget->limit();
    for (Backend backend : {Backend::kCpu, Backend::kGpu}) {
      BackendDescription& description = context.backends.emplace_back();
      description.backend = backend;
      description.name = backend == Backend::kCpu ? "a CPU" : "a GPU";
      description.path_of = [backend](const Spec&) { return Name(backend).data(); };
      description.healthy = [this, backend] { return backend == Backend::kCpu || gpu_healthy; };
    }
    context.backends[1].driver = "580.1";
    context.backends[1].devices = {
        {.name = "gpu0", .model = "a GPU", .memory_bytes = 5, .lanes = 2, .healthy = [this] {
           return gpu_healthy;
         }}};
    context.route = [this](const RouteQuery& query) {
      asked = query;
      return route;
    };
  }

  std::array<CostModel, kBackends> costs{{CostModel(Backend::kCpu), CostModel(Backend::kGpu)}};
  bool gpu_healthy = true;
  RouteQuery asked;
  Route route;
  ServiceContext context;
};

}  // namespace factord::testing

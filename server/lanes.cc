#include "server/lanes.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

Fallback ReasonFor(const Factorizer& factorizer, const absl::Status& status) {
  if (!factorizer.healthy()) return Fallback::kDeviceLost;
  return absl::IsResourceExhausted(status) ? Fallback::kOutOfMemory : Fallback::kError;
}

}  // namespace

Lanes::Lanes(Factorizer& cpu, const std::vector<Gpu>& gpus, Dispatcher& dispatcher, Costs& costs,
             Metrics& metrics, WarmUpLane warm_up)
    : dispatcher_(dispatcher),
      costs_(costs),
      metrics_(metrics),
      warm_up_(std::move(warm_up)),
      gpu_lanes_(0) {
  for (const Gpu& gpu : gpus) gpu_lanes_ += static_cast<int>(gpu.factorizers.size());
  if (gpu_lanes_ == 0) dispatcher_.LoseGpu();
  Add("cpu", Backend::kCpu, 0, cpu);
  for (std::size_t device = 0; device < gpus.size(); ++device) {
    const Gpu& gpu = gpus[device];
    for (std::size_t i = 0; i < gpu.factorizers.size(); ++i) {
      Add(absl::StrCat("gpu ", gpu.index, " ", i), Backend::kGpu, device + 1, *gpu.factorizers[i]);
    }
  }
}

void Lanes::Add(const std::string& name, Backend backend, std::size_t device,
                Factorizer& factorizer) {
  Lane::Failed failed;
  if (backend == Backend::kGpu) {
    failed = [this, device, &factorizer](Batch batch, const absl::Status& status) {
      Failed(device, factorizer, std::move(batch), status);
    };
  }
  Since& running = metrics_.AddLane(device);
  lanes_.push_back(std::make_unique<Lane>(
      name, factorizer,
      [this, backend, device, &factorizer, &running, first = true]() mutable {
        std::optional<Batch> batch =
            NextBatch(backend, device, factorizer, std::exchange(first, false));
        if (batch) running.Set(absl::Now());
        return batch;
      },
      [this, backend, device, &running](Batch& batch, absl::Time, absl::Duration elapsed,
                                        const absl::Status& status) {
        running.End();
        Finished(backend, device, batch, elapsed, status);
      },
      std::move(failed)));
}

// Nothing: the lane ends, because the server stops or warming up was too much for its device.
std::optional<Batch> Lanes::NextBatch(Backend backend, std::size_t device, Factorizer& factorizer,
                                      bool first) {
  if (first && warm_up_) {
    warm_up_(backend, factorizer);
    if (!factorizer.healthy()) {
      CountOut(device);
      return std::nullopt;
    }
  }
  return dispatcher_.WaitForBatch(backend);
}

void Lanes::Finished(Backend backend, std::size_t device, const Batch& batch,
                     absl::Duration elapsed, const absl::Status& status) {
  dispatcher_.Finished(static_cast<std::int64_t>(batch.jobs.size()));
  if (!status.ok()) {
    spdlog::error("{}: a batch of {} matrices failed: {}", std::string(Name(backend)),
                  batch.matrices(), status.ToString());
    return;
  }
  // One bucket, so nearly one size: the first job stands for all.
  costs_[static_cast<std::size_t>(backend)].Observe(batch.jobs[0]->spec, batch.matrices(), elapsed);
  metrics_.BatchEnded(batch, elapsed, device);
}

// On the thread of a lane whose factorizer is not healthy: it takes no more batches, so each is
// counted out once.
void Lanes::CountOut(std::size_t device) {
  metrics_.SetDeviceHealthy(device, false);
  if (--gpu_lanes_ == 0) {
    spdlog::error("no GPU works any more: its work goes to the CPU");
    dispatcher_.LoseGpu();
  }
}

void Lanes::Failed(std::size_t device, const Factorizer& factorizer, Batch batch,
                   const absl::Status& status) {
  metrics_.FellBack(device, ReasonFor(factorizer, status));
  if (!factorizer.healthy()) CountOut(device);
  dispatcher_.Requeue(std::move(batch.jobs), status);
}

}  // namespace factord

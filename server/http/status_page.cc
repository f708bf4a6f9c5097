#include "server/http/status_page.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "nlohmann/json.hpp"
#include "server/batching/bucket_snapshot.h"
#include "server/batching/dispatcher.h"

namespace factord {
namespace {

using Json = nlohmann::ordered_json;

// Buckets listed; more are only counted.
constexpr std::size_t kMaxBuckets = 40;

std::string Text(absl::string_view text) { return std::string(text); }

Json Quantile(const HistogramCounts& counts, double q) {
  const std::optional<double> value = counts.Quantile(q);
  return value ? Json(*value) : Json(nullptr);
}

Json Latency(absl::string_view name, const HistogramCounts& counts) {
  return {{"name", Text(name)},
          {"count", counts.total()},
          {"p50_s", Quantile(counts, 0.5)},
          {"p95_s", Quantile(counts, 0.95)},
          {"p99_s", Quantile(counts, 0.99)}};
}

// One line for each of an enum's values, by their Name.
template <typename Enum, std::size_t kSize>
Json Latencies(const std::array<HistogramCounts, kSize>& now,
               const std::array<HistogramCounts, kSize>& before) {
  Json lines = Json::array();
  for (std::size_t i = 0; i < kSize; ++i) {
    lines.push_back(Latency(Name(static_cast<Enum>(i)), now[i].Since(before[i])));
  }
  return lines;
}

template <typename Enum, std::size_t kSize>
Json Named(const std::array<double, kSize>& values) {
  Json object = Json::object();
  for (std::size_t i = 0; i < kSize; ++i) object[Text(Name(static_cast<Enum>(i)))] = values[i];
  return object;
}

double Requests(const MetricsSnapshot& snapshot) {
  double sum = 0;
  for (const HistogramCounts& counts : snapshot.request_seconds) {
    sum += static_cast<double>(counts.total());
  }
  return sum;
}

double BusySeconds(const MetricsSnapshot& snapshot) {
  double sum = 0;
  for (const DeviceSnapshot& device : snapshot.devices) sum += device.busy_seconds;
  return sum;
}

int LanesOf(const ServiceContext& context) {
  int lanes = 0;
  for (const BackendDescription& backend : context.backends) lanes += backend.lanes;
  return std::max(lanes, 1);
}

Json RequestLines(const MetricsSnapshot& now, const MetricsSnapshot& before) {
  Json lines = Latencies<Rpc>(now.request_seconds, before.request_seconds);
  for (std::size_t rpc = 0; rpc < kRpcs; ++rpc) {
    lines[rpc]["failed"] = now.requests_failed[rpc] - before.requests_failed[rpc];
    lines[rpc]["total"] = now.request_seconds[rpc].total();
  }
  return lines;
}

Json Queue(const MetricsSnapshot& now, const std::vector<BucketSnapshot>& buckets,
           absl::Time time) {
  Json lines = Json::array();
  const auto age = [&](const BucketSnapshot& bucket) {
    return std::max(0.0, absl::ToDoubleSeconds(time - bucket.oldest));
  };
  for (std::size_t i = 0; i < std::min(buckets.size(), kMaxBuckets); ++i) {
    const BucketSnapshot& bucket = buckets[i];
    const Spec& spec = bucket.bucket.spec();
    lines.push_back({{"name", bucket.bucket.Name()},
                     {"type", Text(Name(spec.dtype))},
                     {"backend", Text(Name(bucket.backend))},
                     {"jobs", bucket.jobs},
                     {"matrices", bucket.matrices},
                     {"bytes", bucket.bytes},
                     {"oldest_s", age(bucket)}});
  }
  return {{"jobs", now.queue_jobs},
          {"bytes", now.queue_bytes},
          {"running_jobs", now.running_jobs},
          {"oldest_s", buckets.empty() ? Json(nullptr) : Json(age(buckets.front()))},
          {"bucket_count", buckets.size()},
          {"buckets", lines}};
}

Json DeviceLine(const DeviceSnapshot& now, const DeviceSnapshot& before, double seconds, int lanes,
                const std::string& model) {
  const double busy = now.busy_seconds - before.busy_seconds;
  return {{"name", now.name},
          {"model", model},
          {"lanes", lanes},
          {"healthy", now.healthy},
          // A batch counts when it ends, also the part of it that ran before.
          {"busy_share", std::clamp(busy / std::max(seconds, 1e-9) / std::max(lanes, 1), 0.0, 1.0)},
          {"memory", Named<MemoryKind>(now.memory_bytes)}};
}

// Devices are counted as the metrics do: the CPU, then the GPUs.
Json Devices(const ServiceContext& context, const MetricsSnapshot& now,
             const MetricsSnapshot& before, double seconds) {
  Json lines = Json::array();
  std::size_t index = 0;
  const auto add = [&](int lanes, const std::string& model) {
    if (index >= now.devices.size()) return;
    lines.push_back(DeviceLine(now.devices[index], before.devices[index], seconds, lanes, model));
    ++index;
  };
  for (const BackendDescription& backend : context.backends) {
    if (backend.devices.empty()) add(backend.lanes, backend.name);
    for (const DeviceDescription& device : backend.devices) add(device.lanes, device.model);
  }
  return lines;
}

Json Batches(const MetricsSnapshot& now, const MetricsSnapshot& before) {
  std::array<double, kCloseReasons> reasons{};
  HistogramCounts sizes;
  for (std::size_t i = 0; i < now.devices.size(); ++i) {
    const HistogramCounts since =
        now.devices[i].batch_matrices.Since(before.devices[i].batch_matrices);
    if (sizes.counts.empty())
      sizes = {since.bounds, std::vector<std::uint64_t>(since.counts.size())};
    for (std::size_t j = 0; j < since.counts.size(); ++j) sizes.counts[j] += since.counts[j];
    for (std::size_t j = 0; j < kCloseReasons; ++j) {
      reasons[j] += now.devices[i].batches[j] - before.devices[i].batches[j];
    }
  }
  Json columns = Json::array();
  for (std::size_t i = 0; i < sizes.bounds.size(); ++i) {
    columns.push_back({{"up_to", sizes.bounds[i]}, {"batches", sizes.counts[i]}});
  }
  return {
      {"count", sizes.total()}, {"sizes", columns}, {"close_reasons", Named<CloseReason>(reasons)}};
}

Json Refusals(const ServiceContext& context) {
  Json lines = Json::array();
  for (const RefusedRequest& refused : context.refusals.Recent()) {
    lines.push_back({{"time_unix_ms", absl::ToUnixMillis(refused.time)},
                     {"reason", refused.reason},
                     {"rpc", Text(Name(refused.rpc))},
                     {"message", refused.message}});
  }
  return lines;
}

// What the charts show: between each two samples.
Json Series(const History& history, int lanes) {
  Json requests = Json::array(), matrices = Json::array(), busy = Json::array(),
       queue = Json::array();
  const auto& samples = history.samples();
  for (std::size_t i = 1; i < samples.size(); ++i) {
    const MetricsSnapshot &now = samples[i], &before = samples[i - 1];
    const double seconds = std::max(absl::ToDoubleSeconds(now.taken - before.taken), 1e-3);
    requests.push_back((Requests(now) - Requests(before)) / seconds);
    matrices.push_back((now.matrices - before.matrices) / seconds);
    busy.push_back(
        std::clamp((BusySeconds(now) - BusySeconds(before)) / seconds / lanes, 0.0, 1.0));
    queue.push_back(now.queue_jobs);
  }
  return {{"step_s", absl::ToDoubleSeconds(History::kStep)},
          {"requests_per_s", requests},
          {"matrices_per_s", matrices},
          {"busy_share", busy},
          {"queue_jobs", queue}};
}

Json ConfigLines(const Settings& settings) {
  Json lines = Json::array();
  for (const auto& [name, value] : settings) lines.push_back({{"name", name}, {"value", value}});
  return lines;
}

}  // namespace

std::string StatusJson(const StatusSource& source, const MetricsSnapshot& now,
                       const History& history, absl::Time time) {
  const ServiceContext& context = source.context;
  const MetricsSnapshot* oldest = history.Before(now.taken);
  const MetricsSnapshot& before = oldest != nullptr ? *oldest : now;
  const double seconds = absl::ToDoubleSeconds(now.taken - before.taken);
  const std::optional<std::string> not_ready = source.not_ready();
  const Json status = {
      {"version", context.version},
      {"uptime_s", absl::ToDoubleSeconds(time - context.started)},
      {"ready", !not_ready.has_value()},
      {"state", not_ready.value_or("serving")},
      {"window_s", seconds},
      {"requests", RequestLines(now, before)},
      {"queue", Queue(now, context.dispatcher->Snapshot(), time)},
      {"memory",
       {{"in_flight_bytes", context.budget->used()}, {"budget_bytes", context.budget->limit()}}},
      {"streams", now.streams},
      {"devices", Devices(context, now, before, seconds)},
      {"stages", Latencies<Stage>(now.stage_seconds, before.stage_seconds)},
      {"batches", Batches(now, before)},
      {"rejected", Named<Reject>(now.rejects)},
      {"refusals", Refusals(context)},
      {"history", Series(history, LanesOf(context))},
      {"settings", ConfigLines(source.settings)}};
  // A message may quote what a client sent, in the middle of a character.
  return status.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace factord

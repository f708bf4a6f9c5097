#include "client/factorctl/load.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "client/elements.h"
#include "client/factorctl/arrivals.h"
#include "client/factorctl/qr_flops.h"

namespace factord::client {
namespace {

// A sleeping thread wakes late by about this much, which would be added to every latency: the rest
// is waited awake.
constexpr absl::Duration kSleepError = absl::Microseconds(80);

Matrices RandomNormal(const Dims& dims, v1::DType dtype, uint64_t seed) {
  Matrices matrices;
  matrices.dtype = dtype;
  matrices.dims = dims;
  const int64_t element_bytes = DTypeBytes(dtype);
  const BatchShape shape = ShapeOf(dims);
  const int64_t count = shape.batch_count * shape.m * shape.n;
  matrices.data.resize(count * element_bytes);
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < count; ++i) {
    const double real = normal(generator);
    SetElement(dtype, i, {real, IsComplex(dtype) ? normal(generator) : 0.0}, &matrices.data);
  }
  return matrices;
}

// One run. Start, then RunThread from every thread at once; all of that is thread-safe.
class LoadRun {
 public:
  LoadRun(const LoadOptions& options, const std::function<void(int64_t, int64_t)>& progress)
      : options_(options), progress_(progress), end_(options.warmup + options.duration) {
    for (size_t i = 0; i < options.shapes.size(); ++i) {
      inputs_.push_back(RandomNormal(options.shapes[i], options.dtype, options.seed + i));
      flops_.push_back(QrFlops(options.shapes[i], options.dtype, options.qr));
    }
    if (options.rate > 0) {
      arrivals_ =
          PoissonArrivals(options.rate, options.warmup, end_, options.requests, options.seed);
    }
  }

  void Start() { start_ = absl::Now(); }

  // Sends requests until there are no more. `thread`: this one's number, for its own random
  // choices.
  LoadResult RunThread(Client* client, int thread) {
    std::mt19937_64 generator(options_.seed * 1'000'003 + static_cast<uint64_t>(thread));
    std::uniform_int_distribution<size_t> mix(0, inputs_.size() - 1);
    LoadResult result;
    absl::Duration intended;
    while (options_.rate > 0 ? WaitForArrival(&intended, &result) : NextInClosedLoop(&intended)) {
      RunRequest(client, mix(generator), intended, &result);
    }
    return result;
  }

 private:
  absl::Duration Elapsed() const { return absl::Now() - start_; }

  // False: there are no more.
  bool NextInClosedLoop(absl::Duration* intended) {
    *intended = Elapsed();
    if (*intended >= end_) return false;
    if (*intended < options_.warmup || options_.requests == 0) return true;
    return static_cast<int64_t>(next_.fetch_add(1)) < options_.requests;
  }

  // Sleeps until the next arrival that is still worth sending. False: there are no more.
  bool WaitForArrival(absl::Duration* intended, LoadResult* result) {
    while (true) {
      const size_t index = next_.fetch_add(1);
      if (index >= arrivals_.size()) return false;
      *intended = arrivals_[index];
      if (Elapsed() <= end_ + options_.client.timeout) break;
      if (*intended >= options_.warmup) ++result->unsent;
    }
    absl::SleepFor(*intended - Elapsed() - kSleepError);
    while (Elapsed() < *intended) std::this_thread::yield();
    return true;
  }

  void RunRequest(Client* client, size_t shape, absl::Duration intended, LoadResult* result) {
    const Matrices& input = inputs_[shape];
    CallOptions call;
    call.run = options_.run;
    const absl::StatusOr<FactorizeResult> reply =
        client->Factorize({input.View()}, options_.qr, call);
    const absl::Duration end = Elapsed();
    TellProgress(end);
    if (intended < options_.warmup) return;

    result->elapsed = std::max(result->elapsed, end - options_.warmup);
    if (!reply.ok()) {
      ++result->errors[reply.status().code()];
      result->last_error = reply.status();
      return;
    }
    result->latency.Record(end - intended);
    ++result->succeeded;
    result->matrices += ShapeOf(input.dims).batch_count;
    result->flops += flops_[shape];
    result->sent_bytes += static_cast<double>(input.data.size());
    const QrResult& qr = reply->qr[0];
    result->matrices_not_ok += static_cast<int64_t>(qr.statuses.size());
    for (const std::optional<Matrices>* output : {&qr.q, &qr.r, &qr.reflectors, &qr.tau}) {
      if (output->has_value())
        result->received_bytes += static_cast<double>((*output)->data.size());
    }
    result->batch_matrices += static_cast<double>(reply->report.batch_matrices());
    result->queue += absl::Nanoseconds(reply->report.queue_ns());
    result->compute += absl::Nanoseconds(reply->report.compute_ns());
  }

  void TellProgress(absl::Duration elapsed) {
    // Whoever finds it taken has nothing new to tell.
    if (!progress_ || !progress_mutex_.TryLock()) return;
    if (end_ < absl::InfiniteDuration()) {
      progress_(absl::ToInt64Milliseconds(elapsed), absl::ToInt64Milliseconds(end_));
    } else {
      progress_(static_cast<int64_t>(next_.load()), options_.requests);
    }
    progress_mutex_.Unlock();
  }

  const LoadOptions& options_;
  const std::function<void(int64_t, int64_t)>& progress_;
  const absl::Duration end_;
  std::vector<Matrices> inputs_;
  std::vector<double> flops_;
  std::vector<absl::Duration> arrivals_;
  absl::Time start_;
  std::atomic<size_t> next_ = 0;  // of the arrivals, or of the counted requests
  absl::Mutex progress_mutex_;
};

}  // namespace

void LoadResult::Merge(const LoadResult& other) {
  latency.Merge(other.latency);
  elapsed = std::max(elapsed, other.elapsed);
  succeeded += other.succeeded;
  for (const auto& [code, count] : other.errors) errors[code] += count;
  if (!other.last_error.ok()) last_error = other.last_error;
  unsent += other.unsent;
  matrices += other.matrices;
  matrices_not_ok += other.matrices_not_ok;
  flops += other.flops;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  batch_matrices += other.batch_matrices;
  queue += other.queue;
  compute += other.compute;
}

absl::StatusOr<LoadResult> RunLoad(
    const LoadOptions& options, const std::function<void(int64_t done, int64_t total)>& progress) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < (options.own_channels ? options.clients : 1); ++i) {
    ClientOptions client_options = options.client;
    client_options.own_connection = options.own_channels;
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(std::move(client_options));
    if (!client.ok()) return client.status();
    // Connects, and tells at once if there is no server.
    const absl::Status status = (*client)->GetServerInfo().status();
    if (!status.ok()) return status;
    clients.push_back(*std::move(client));
  }

  LoadRun run(options, progress);
  std::vector<LoadResult> results(options.clients);
  std::vector<std::thread> threads;
  threads.reserve(options.clients);
  run.Start();
  for (int i = 0; i < options.clients; ++i) {
    threads.emplace_back(
        [&, i] { results[i] = run.RunThread(clients[i % clients.size()].get(), i); });
  }
  for (std::thread& thread : threads) thread.join();
  LoadResult total;
  for (const LoadResult& result : results) total.Merge(result);
  return total;
}

}  // namespace factord::client

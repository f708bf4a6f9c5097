// Request: one accepted request, from its memory to its last result.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/core/slab.h"
#include "server/rpc/codec.h"
#include "server/rpc/service_context.h"
#include "server/rpc/wire.h"

namespace factord {

// Who asks, and until when.
struct Caller {
  std::string client;  // the fairness key
  absl::Time deadline = absl::InfiniteFuture();
  std::shared_ptr<std::atomic<bool>> cancelled = std::make_shared<std::atomic<bool>>(false);
  bool traced = false;  // wants to know how each job ran
};

// FAILED_PRECONDITION where the request asks for a backend that is not here.
absl::Status CheckBackend(const DecodedRequest& decoded, const ServiceContext& context);

// Where an item of the request goes, once CheckBackend said OK. `explain`: with predicted times,
// whether the choice needs them or not.
Route RouteOf(const DecodedRequest& decoded, const Item& item, const ServiceContext& context,
              bool explain = false);

// How many such matrices make one job: about job_bytes or job_cost, whichever is less; at least
// one.
std::int64_t MatricesPerJob(const Spec& spec, Backend backend, const ServiceContext& context);

// Says who the job is for, and where it goes.
void SendTo(const Route& route, const Caller& caller, Priority priority,
            const ServiceContext& context, Job& job);

// Owns the memory of a request's tensors and the budget taken for it, both returned with the last
// reference: jobs hold one while they run, slices while gRPC sends them. Thread-safe after Run.
class Request : public std::enable_shared_from_this<Request> {
 public:
  // Called as a job's results are ready, from lane threads, possibly several at once; before
  // `finished`.
  using JobDone = absl::AnyInvocable<void(Request&, const Job&)>;
  // Called once, after the last job: OK, or the first error.
  using Finished = absl::AnyInvocable<void(Request&, const absl::Status&)>;

  ~Request();

  // Takes the budget, then the memory. UNAVAILABLE where the budget is full, FAILED_PRECONDITION
  // where the backend asked for is not here.
  static absl::StatusOr<std::shared_ptr<Request>> Create(DecodedRequest decoded,
                                                         ServiceContext& context);

  const DecodedRequest& decoded() const { return decoded_; }
  std::byte* input(const TensorSlot& slot) const { return inputs_.data() + slot.offset; }
  std::byte* output(const TensorSlot& slot) const { return outputs_.data() + slot.offset; }

  // Copies received payloads into the tensors they belong to.
  void CopyPayloads(std::span<const Payload> payloads);

  // Splits the request into jobs and submits them. On an error none ran and neither callback is
  // called. `job_done` may be empty.
  absl::Status Run(const Caller& caller, JobDone job_done, Finished finished);

  // After `finished`: what the response says and, with OK, its tensors' data, one for each output
  // tensor.
  Outcome TakeOutcome();
  std::vector<OutPayload> OutputPayloads();

  void set_decode_time(absl::Duration time) { decode_time_ = time; }

 private:
  Request(DecodedRequest decoded, ServiceContext& context)
      : decoded_(std::move(decoded)),
        context_(context),
        metrics_(context.metrics),
        budget_(context.budget) {}

  std::vector<std::unique_ptr<Job>> MakeJobs(const Caller& caller);
  void OnJobDone(Job& job, const absl::Status& status);
  void Merge(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Constant after Create.
  const DecodedRequest decoded_;
  ServiceContext& context_;  // while there are jobs: gRPC may keep the last slice for longer
  const std::shared_ptr<Metrics> metrics_;
  const std::shared_ptr<ByteBudget> budget_;
  ByteBudget::Reservation reservation_;
  Slab inputs_, outputs_;
  absl::Duration decode_time_;

  // Constant after Run.
  std::shared_ptr<std::atomic<bool>> cancelled_;
  bool traced_ = false;
  JobDone job_done_;
  Finished finished_;

  std::atomic<std::int64_t> pending_{0};  // jobs
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  Outcome outcome_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace factord

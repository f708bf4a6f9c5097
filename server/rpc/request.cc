#include "server/rpc/request.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/batching/bucket.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/run_report.h"

namespace factord {
namespace {

// Beside its data, a request is a few objects, and for each tensor a slot, a job and its part of
// the response.
constexpr std::int64_t kRequestBytes = 2048;
constexpr std::int64_t kTensorBytes = 512;

std::int64_t BytesHeld(const DecodedRequest& decoded) {
  const auto tensors = static_cast<std::int64_t>(decoded.inputs.size() + decoded.outputs.size());
  return decoded.input_bytes + decoded.output_bytes + kRequestBytes + kTensorBytes * tensors;
}

// What comes beside the data is one message, whatever goes in chunks.
absl::Status CheckOverhead(const DecodedRequest& decoded, const Limits& limits) {
  const std::int64_t bytes = decoded.response_overhead_bytes();
  if (bytes <= limits.max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the dims, ranks and statuses of the reply may take ", bytes, " bytes; the message limit is ",
      limits.max_message_bytes, ": split the request"));
}

}  // namespace

absl::Status CheckBackend(const DecodedRequest& decoded, const ServiceContext& context) {
  if (!decoded.backend) return absl::OkStatus();
  for (const BackendDescription& backend : context.backends) {
    if (backend.backend == *decoded.backend) return absl::OkStatus();
  }
  context.metrics->Rejected(Reject::kNoBackend);
  return absl::FailedPreconditionError(
      absl::StrCat("run.backend: this server has no ", Name(*decoded.backend), " backend"));
}

Route RouteOf(const DecodedRequest& decoded, const Item& item, const ServiceContext& context,
              bool explain) {
  RouteQuery query{.spec = item.spec};
  // Empty results are no work, however many matrices there are.
  query.count = item.output_bytes == 0 ? 0 : item.count;
  query.backend = decoded.backend;
  query.reproducible = decoded.reproducible;
  query.explain = explain;
  return context.route(query);
}

std::int64_t MatricesPerJob(const Spec& spec, Backend backend, const ServiceContext& context) {
  std::int64_t bytes = 1;
  for (Operand operand : InputsOf(spec)) bytes += MatrixBytes(spec, operand);
  for (Operand operand : OutputsOf(spec)) bytes += MatrixBytes(spec, operand);
  const std::int64_t by_bytes = context.job_bytes / bytes;
  const absl::Duration one =
      std::max(context.CostsOf(backend).Predict(spec, 1).time, absl::Nanoseconds(1));
  const auto by_cost = static_cast<std::int64_t>(absl::FDivDuration(context.job_cost, one));
  return std::max<std::int64_t>(1, std::min(by_bytes, by_cost));
}

void SendTo(const Route& route, const Caller& caller, Priority priority,
            const ServiceContext& context, Job& job) {
  job.client = caller.client;
  job.priority = priority;
  job.deadline = caller.deadline;
  job.cancelled = caller.cancelled;
  job.route = route.backend;
  job.pinned = route.pinned;
  const Prediction prediction = context.CostsOf(route.backend).Predict(job.spec, job.count);
  job.predicted = prediction.time;
  job.predicted_measured = prediction.measured;
}

absl::StatusOr<std::shared_ptr<Request>> Request::Create(DecodedRequest decoded,
                                                         ServiceContext& context) {
  RETURN_IF_ERROR(CheckBackend(decoded, context));
  std::shared_ptr<Request> request(new Request(std::move(decoded), context));
  RETURN_IF_ERROR(CheckOverhead(request->decoded_, context.limits));
  const std::int64_t bytes = BytesHeld(request->decoded_);
  request->reservation_ = context.budget->TryTake(bytes);
  if (!request->reservation_) {
    context.metrics->Rejected(Reject::kBudgetFull);
    return Overloaded("MEMORY_BUDGET_FULL",
                      absl::StrCat("the request needs ", bytes, " bytes; ", context.budget->used(),
                                   " of ", context.budget->limit(), " are in use"),
                      absl::Milliseconds(100));
  }
  context.metrics->BudgetChanged(context.budget->used());
  ASSIGN_OR_RETURN(request->inputs_, Slab::Create(request->decoded_.input_bytes));
  ASSIGN_OR_RETURN(request->outputs_, Slab::Create(request->decoded_.output_bytes));
  return request;
}

Request::~Request() {
  reservation_.Return();
  metrics_->BudgetChanged(budget_->used());
}

void Request::CopyPayloads(std::span<const Payload> payloads) {
  for (const TensorSlot& slot : decoded_.inputs) {
    if (slot.payload >= 0) payloads[static_cast<std::size_t>(slot.payload)].CopyTo(input(slot));
  }
}

std::vector<std::unique_ptr<Job>> Request::MakeJobs(const Caller& caller) {
  std::vector<std::array<std::byte*, kOperands>> operands(decoded_.items.size());
  for (const TensorSlot& slot : decoded_.inputs)
    operands[slot.item][static_cast<std::size_t>(slot.operand)] = input(slot);
  for (const TensorSlot& slot : decoded_.outputs) {
    operands[slot.item][static_cast<std::size_t>(slot.operand)] = output(slot);
  }
  std::vector<std::unique_ptr<Job>> jobs;
  for (std::size_t index = 0; index < decoded_.items.size(); ++index) {
    const Item& item = decoded_.items[index];
    if (item.output_bytes == 0) continue;  // all results are empty, however many there are
    const Route route = RouteOf(decoded_, item, context_);
    metrics_->Routed(route.backend, route.times.label);
    const std::int64_t step = MatricesPerJob(item.spec, route.backend, context_);
    for (std::int64_t first = 0; first < item.count; first += step) {
      auto job = std::make_unique<Job>();
      job->spec = item.spec;
      job->item = index;
      job->first = first;
      job->count = std::min(step, item.count - first);
      for (std::size_t i = 0; i < kOperands; ++i) {
        if (operands[index][i] != nullptr) {
          job->operands[i] =
              operands[index][i] + first * MatrixBytes(item.spec, static_cast<Operand>(i));
        }
      }
      SendTo(route, caller, decoded_.priority, context_, *job);
      job->done = [request = shared_from_this()](Job& done, const absl::Status& status) {
        request->OnJobDone(done, status);
      };
      jobs.push_back(std::move(job));
    }
  }
  return jobs;
}

absl::Status Request::Run(const Caller& caller, JobDone job_done, Finished finished) {
  cancelled_ = caller.cancelled;
  traced_ = caller.traced;
  std::vector<std::unique_ptr<Job>> jobs = MakeJobs(caller);
  {
    absl::MutexLock lock(&mutex_);
    outcome_.failures.resize(decoded_.items.size());
    outcome_.report.set_jobs(static_cast<std::int64_t>(jobs.size()));
    outcome_.report.set_decode_ns(absl::ToInt64Nanoseconds(decode_time_));
    if (!decoded_.items.empty()) {
      outcome_.report.set_bucket(BucketOf(decoded_.items.front().spec).Name());
    }
    // Until a job has run.
    outcome_.report.set_backend(ToProto(jobs.empty() ? Backend::kCpu : jobs.front()->route));
  }
  if (jobs.empty()) {
    finished(*this, absl::OkStatus());
    return absl::OkStatus();
  }
  job_done_ = std::move(job_done);
  finished_ = std::move(finished);
  pending_.store(static_cast<std::int64_t>(jobs.size()));
  return context_.dispatcher->Submit(std::move(jobs));
}

void Request::OnJobDone(Job& job, const absl::Status& status) {
  bool failed_before = false;
  {
    absl::MutexLock lock(&mutex_);
    failed_before = !status_.ok();
    status_.Update(status);
    if (status.ok()) Merge(job);
  }
  if (!status.ok()) {
    cancelled_->store(true);  // the jobs still waiting have nobody to answer to
  } else if (!failed_before && job_done_) {
    job_done_(*this, job);
  }
  if (pending_.fetch_sub(1) > 1) return;
  auto finished = std::move(finished_);
  absl::Status result;
  {
    absl::MutexLock lock(&mutex_);
    result = status_;
  }
  finished(*this, result);
}

void Request::Merge(const Job& job) {
  const std::int64_t room =
      std::max<std::int64_t>(kMaxStatuses - outcome_.report.failed_matrices(), 0);
  const auto listed = std::min(static_cast<std::int64_t>(job.failures.size()), room);
  std::vector<MatrixFailure>& failures = outcome_.failures[job.item];
  failures.insert(failures.end(), job.failures.begin(), job.failures.begin() + listed);
  AddJob(job, traced_, outcome_);
}

Outcome Request::TakeOutcome() {
  absl::MutexLock lock(&mutex_);
  for (auto& failures : outcome_.failures) {
    std::sort(failures.begin(), failures.end(),
              [](const MatrixFailure& a, const MatrixFailure& b) { return a.index < b.index; });
  }
  outcome_.ranks.resize(decoded_.items.size());
  for (const TensorSlot& slot : decoded_.outputs) {
    if (slot.operand != Operand::kRank) continue;
    outcome_.ranks[slot.item] = {reinterpret_cast<const std::int32_t*>(output(slot)),
                                 static_cast<std::size_t>(decoded_.items[slot.item].count)};
  }
  return std::move(outcome_);
}

std::vector<OutPayload> Request::OutputPayloads() {
  std::vector<OutPayload> payloads;
  payloads.reserve(decoded_.outputs.size());
  for (const TensorSlot& slot : decoded_.outputs) {
    payloads.push_back({output(slot), slot.bytes, shared_from_this()});
  }
  return payloads;
}

}  // namespace factord

#include "server/rpc/reduce_call.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/server_context.h"
#include "server/batching/bucket.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/caller.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/refusal.h"
#include "server/rpc/request_end.h"
#include "server/rpc/request_start.h"
#include "server/rpc/run_report.h"

namespace factord {

ReduceCall::ReduceCall(grpc::CallbackServerContext* grpc_context, ServiceContext& context)
    : context_(context),
      grpc_context_(grpc_context),
      caller_(CallerOf(*grpc_context, context.tokens.get())),
      record_(StartRecord(RecordKind::kCall, Rpc::kReduceRows, *grpc_context, context)) {
  record_.client = caller_.client;
  caller_.traced = record_.traced;
}

ReduceCall* ReduceCall::Start(grpc::CallbackServerContext* grpc_context, ServiceContext& context,
                              StreamRegistry& registry) {
  std::shared_ptr<ReduceCall> call(new ReduceCall(grpc_context, context));
  call->self_ = call;
  registry.Add(call);
  context.CallStarted();
  context.metrics->StreamOpened();
  context.metrics->RequestStarted(Rpc::kReduceRows);
  absl::MutexLock lock(&call->mutex_);
  call->ReadNext();
  return call.get();
}

// ---- reading

void ReduceCall::OnReadDone(bool ok) {
  {
    // The stream may be over while this read was under way.
    absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (fatal_ || finished_) return FinishIfOver();
  }
  const absl::Status status = ok ? Handle(incoming_) : HandleEnd();
  incoming_.Clear();
  absl::MutexLock lock(&mutex_);
  if (!status.ok()) return Fail(status);
  if (ok) ReadNext();
  Advance();
}

void ReduceCall::ReadNext() {
  if (fatal_ || finished_) return;
  read_waits_ = reduction_ && !reduction_->has_room();
  if (read_waits_) return;
  reading_ = true;
  read_started_ = absl::Now();
  StartRead(&incoming_);
}

absl::Status ReduceCall::Handle(const grpc::ByteBuffer& buffer) {
  context_.metrics->Received(static_cast<std::int64_t>(buffer.Length()));
  ASSIGN_OR_RETURN(const Message message,
                   DecodeMessage<v1::ReduceRowsRequest>(buffer, WireLimits{}));
  switch (message.proto.message_case()) {
    case v1::ReduceRowsRequest::kStart:
      return HandleStart(message.proto.start());
    case v1::ReduceRowsRequest::kRows:
      return HandleRows(message);
    case v1::ReduceRowsRequest::kReduced:
      return HandleReduced(message);
    case v1::ReduceRowsRequest::MESSAGE_NOT_SET:
      break;
  }
  return InvalidField("message", "is not set; set start, rows or reduced");
}

absl::Status ReduceCall::HandleStart(const v1::ReduceRowsStart& start) {
  RETURN_IF_ERROR(CheckAccepting(context_));
  {
    absl::MutexLock lock(&mutex_);
    if (reduction_) return InvalidField("start", "came a second time on this stream");
  }
  ASSIGN_OR_RETURN(decoded_, Decode(start, context_.limits));
  RETURN_IF_ERROR(CheckBackend(decoded_.request, context_));
  const auto self = shared_from_this();
  ASSIGN_OR_RETURN(std::shared_ptr<RowReduction> reduction,
                   RowReduction::Create(
                       decoded_.options, context_.budget, context_.metrics,
                       [self](std::unique_ptr<Job> job) { return self->Submit(std::move(job)); },
                       [self] { self->OnChanged(); }));
  absl::MutexLock lock(&mutex_);
  reduction_ = std::move(reduction);
  record_.Decoded(decoded_.request);
  outcome_.report.set_backend(ToProto(Backend::kCpu));  // until a job has run
  outcome_.report.set_bucket(BucketOf(decoded_.request.items.front().spec).Name());
  return absl::OkStatus();
}

absl::Status ReduceCall::HandleRows(const Message& message) {
  std::shared_ptr<RowReduction> reduction;
  {
    absl::MutexLock lock(&mutex_);
    reduction = reduction_;
  }
  if (!reduction) return InvalidField("rows", "came before start");
  const std::int64_t payload = IndexOf(message.proto.rows());
  if (payload < 0) return absl::OkStatus();
  for (const auto& range : message.split.payloads[static_cast<std::size_t>(payload)].ranges()) {
    RETURN_IF_ERROR(reduction->Append(std::as_bytes(range)));
  }
  return absl::OkStatus();
}

absl::Status ReduceCall::HandleReduced(const Message& message) {
  std::shared_ptr<RowReduction> reduction;
  {
    absl::MutexLock lock(&mutex_);
    reduction = reduction_;
  }
  if (!reduction) return InvalidField("reduced", "came before start");
  ASSIGN_OR_RETURN(
      const DecodedTriangle triangle,
      Decode(message.proto.reduced(), message.payload_sizes, decoded_.options, context_.limits));
  return reduction->AppendReduced(triangle.rows, [&](std::byte* to) {
    message.split.payloads[static_cast<std::size_t>(triangle.payload)].CopyTo(to);
  });
}

absl::Status ReduceCall::HandleEnd() {
  std::shared_ptr<RowReduction> reduction;
  {
    absl::MutexLock lock(&mutex_);
    reduction = reduction_;
    record_.in_memory = absl::Now();
    const absl::Duration upload_time = *record_.in_memory - record_.arrived;
    outcome_.report.set_decode_ns(absl::ToInt64Nanoseconds(upload_time));
    context_.metrics->StageEnded(Stage::kDecode, upload_time);
  }
  if (!reduction) return InvalidField("start", "is missing: the stream ended before it");
  return reduction->Finish();
}

// ---- jobs

absl::Status ReduceCall::Submit(std::unique_ptr<Job> job) {
  Item item;
  item.spec = job->spec;
  item.count = job->count;
  item.output_bytes = 1;  // there is work to do
  const Route route = RouteOf(decoded_.request, item, context_);
  context_.metrics->Routed(route.backend, route.times.label);
  SendTo(route, caller_, decoded_.request.priority, context_, *job);
  job->done = [self = shared_from_this(), done = std::move(job->done)](
                  Job& ended, const absl::Status& status) mutable {
    if (status.ok()) self->OnJobRan(ended);
    done(ended, status);
  };
  std::vector<std::unique_ptr<Job>> jobs;
  jobs.push_back(std::move(job));
  return context_.dispatcher->Submit(std::move(jobs));
}

void ReduceCall::OnJobRan(const Job& job) {
  absl::MutexLock lock(&mutex_);
  v1::RunReport& report = outcome_.report;
  const v1::Backend backend = report.backend();
  const std::string path = report.path();
  AddJob(job, caller_.traced, outcome_);
  // The path that counts is the blocks', not that of the little that comes last.
  if (report.jobs() > 0) {
    report.set_backend(backend);
    report.set_path(path);
  }
  report.set_jobs(report.jobs() + 1);
}

void ReduceCall::OnChanged() {
  absl::MutexLock lock(&mutex_);
  Advance();
}

void ReduceCall::Advance() {
  if (fatal_ || finished_ || !reduction_) return FinishIfOver();
  const std::int64_t rows = reduction_->rows_reduced();
  context_.metrics->RowsReduced(rows - std::exchange(rows_counted_, rows));
  if (const absl::Status status = reduction_->status(); !status.ok()) return Fail(status);
  if (read_waits_) ReadNext();
  WriteNext();
  FinishIfOver();
}

// ---- writing

void ReduceCall::WriteNext() {
  if (writing_ || result_written_ || fatal_ || finished_ || !reduction_) return;
  const Reduced* result = reduction_->result();
  const std::int64_t rows = reduction_->rows_reduced();
  if (result != nullptr) {
    outgoing_ = EncodeResult(*result);
    result_written_ = true;
  } else if (decoded_.progress_rows > 0 && rows - rows_said_ >= decoded_.progress_rows) {
    v1::ReduceRowsResponse response;
    response.mutable_progress()->set_rows(rows);
    outgoing_ = JoinBulk(response, {});
    rows_said_ = rows;
  } else {
    return;
  }
  writing_ = true;
  write_started_ = absl::Now();
  context_.metrics->Sent(static_cast<std::int64_t>(outgoing_.Length()));
  StartWrite(&outgoing_);
}

grpc::ByteBuffer ReduceCall::EncodeResult(const Reduced& reduced) {
  const absl::Time start = absl::Now();
  std::vector<OutPayload> payloads;
  v1::ReduceRowsResponse response = Encode(decoded_.options, reduced, reduction_, payloads);
  *response.mutable_result()->mutable_report() = outcome_.report;
  record_.spec.m = reduced.rows;
  grpc::ByteBuffer buffer = JoinBulk(response, payloads);
  const absl::Time end = absl::Now();
  record_.Encoded(start, end);
  context_.metrics->StageEnded(Stage::kEncode, end - start);
  return buffer;
}

void ReduceCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  outgoing_.Clear();
  if (!ok) return Fail(absl::CancelledError("the client is gone"));
  WriteNext();
  FinishIfOver();
}

// ---- ending

void ReduceCall::Fail(const absl::Status& status) {
  if (!fatal_ && !finished_) {
    CountRefusal(status, *context_.metrics);
    if (ReasonOf(status) == "MEMORY_BUDGET_FULL") context_.metrics->Rejected(Reject::kBudgetFull);
    context_.refusals.Add(Rpc::kReduceRows, status, absl::Now());
    fatal_ = status;
    caller_.cancelled->store(true);
    context_.dispatcher->NotifyCancelled();
  }
  FinishIfOver();
}

void ReduceCall::FinishIfOver() {
  if (finished_ || writing_ || !(fatal_ || result_written_)) return;
  finished_ = true;
  record_.status = fatal_.value_or(absl::OkStatus());
  Finish(ToGrpcStatus(record_.status));
}

void ReduceCall::OnCancel() {
  absl::MutexLock lock(&mutex_);
  Fail(absl::Now() >= caller_.deadline
           ? absl::DeadlineExceededError("the deadline passed before the result was ready")
           : absl::CancelledError("the stream was cancelled"));
}

void ReduceCall::OnDone() {
  context_.metrics->StreamClosed();
  std::shared_ptr<RowReduction> reduction;  // let go after the lock
  {
    // Nothing may be written after this, whatever still comes from lanes.
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    reduction = std::move(reduction_);
    record_.Ran(outcome_);
    EndRequest(record_, static_cast<int>(record_.status.code()), context_);
  }
  reduction.reset();
  context_.CallEnded();
  self_.reset();
}

absl::Status ReduceCall::CheckTime(absl::Time now) const {
  if (now >= caller_.deadline) {
    return absl::DeadlineExceededError("the deadline passed before the result was ready");
  }
  if (reading_ && now - read_started_ >= context_.upload_timeout) {
    return absl::DeadlineExceededError(
        absl::StrCat("no message for ", absl::FormatDuration(context_.upload_timeout)));
  }
  if (!reduction_ && context_.draining.load()) return CheckAccepting(context_);
  return absl::OkStatus();
}

void ReduceCall::Tick(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (finished_) return;
  if (!fatal_) {
    if (const absl::Status status = CheckTime(now); !status.ok()) {
      if (absl::IsDeadlineExceeded(status)) context_.metrics->Rejected(Reject::kExpired);
      Fail(status);
    }
  }
  if (writing_ && now - write_started_ >= context_.stall_timeout) grpc_context_->TryCancel();
}

}  // namespace factord

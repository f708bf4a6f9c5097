// The half of StreamCall that answers: results, writes, endings. stream_call.cc reads.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/server_context.h"
#include "server/core/errors.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/request_end.h"
#include "server/rpc/stream_call.h"

namespace factord {
namespace {

constexpr std::size_t kEndedIdsKept = 4096;
// An upload holds budget: beyond upload_timeout it has to keep up this rate as a whole.
constexpr double kMinUploadBytesPerSecond = 128 << 10;

}  // namespace

// ---- results

void StreamCall::OnJobDone(const std::string& id, std::uint64_t serial, Request& request,
                           const Job& job) {
  const DecodedRequest& decoded = request.decoded();
  const auto owner = request.shared_from_this();
  const absl::Time start = absl::Now();
  absl::MutexLock lock(&mutex_);
  const auto found = FindCurrent(id, serial);
  if (found == entries_.end()) return;
  const Item& item = decoded.items[job.item];
  for (std::size_t i = 0; i < item.output_tensors; ++i) {
    const std::size_t tensor = item.first_output + i;
    const TensorSlot& slot = decoded.outputs[tensor];
    const std::int64_t matrix_bytes = MatrixBytes(job.spec, slot.operand);
    const std::int64_t end = (job.first + job.count) * matrix_bytes;
    for (std::int64_t offset = job.first * matrix_bytes; offset < end;
         offset += context_.chunk_bytes) {
      const OutPayload payload{request.output(slot) + offset,
                               std::min(context_.chunk_bytes, end - offset), owner};
      v1::StreamResponse response;
      v1::Chunk& chunk = *response.mutable_chunk();
      chunk.set_request_id(id);
      chunk.set_tensor(static_cast<int>(tensor));
      chunk.set_offset(offset);
      chunk.set_data(PlaceholderOf(0));
      Send(response, {&payload, 1}, nullptr);
    }
  }
  const absl::Time encoded = absl::Now();
  found->second.record->Encoded(start, encoded);
  context_.metrics->StageEnded(Stage::kEncode, encoded - start);
}

void StreamCall::OnFinished(const std::string& id, std::uint64_t serial, Request& request,
                            const absl::Status& status) {
  const Outcome outcome = request.TakeOutcome();
  v1::StreamResult result;
  if (status.ok()) result = Encode(request.decoded(), &outcome, /*placeholders=*/false);
  absl::MutexLock lock(&mutex_);
  const auto found = FindCurrent(id, serial);
  if (found == entries_.end()) return;
  found->second.record->Ran(outcome);
  EndLocked(id, status, status.ok() ? &result : nullptr);
  FinishIfOver();
}

void StreamCall::End(const std::string& id, const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    found->second.caller.cancelled->store(true);
    EndLocked(id, status, nullptr);
    FinishIfOver();
  }
  context_.dispatcher->NotifyCancelled();
}

void StreamCall::EndLocked(const std::string& id, const absl::Status& status,
                           v1::StreamResult* result) {
  context_.refusals.Add(Rpc::kFactorizeStream, status, absl::Now());
  v1::StreamResponse response;
  v1::Done& done = *response.mutable_done();
  done.set_request_id(id);
  *done.mutable_status() = ToRpcStatus(status);
  if (result != nullptr) done.mutable_result()->Swap(result);
  std::shared_ptr<RequestRecord> record = std::move(entries_[id].record);
  record->status = status;
  entries_.erase(id);
  if (ended_.insert(id).second) ended_order_.push_back(id);
  if (ended_order_.size() > kEndedIdsKept) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
    ended_forgotten_ = true;
  }
  Send(response, {}, std::move(record));
}

void StreamCall::AbandonAll() {
  for (auto& [id, entry] : entries_) {
    entry.caller.cancelled->store(true);
    EndRequest(*entry.record, grpc::CANCELLED, context_);
  }
  if (!entries_.empty()) context_.dispatcher->NotifyCancelled();
  entries_.clear();
  const std::size_t keep = writing_ ? 1 : 0;
  for (std::size_t i = keep; i < outgoing_.size(); ++i) {
    if (outgoing_[i].ends) EndRequest(*outgoing_[i].ends, grpc::CANCELLED, context_);
  }
  outgoing_.resize(keep);
}

std::map<std::string, StreamCall::Entry>::iterator StreamCall::FindCurrent(const std::string& id,
                                                                           std::uint64_t serial) {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.serial == serial ? found : entries_.end();
}

// ---- writing

void StreamCall::Send(const v1::StreamResponse& response, std::span<const OutPayload> payloads,
                      std::shared_ptr<RequestRecord> ends) {
  if (fatal_ || finished_) {
    if (ends) EndRequest(*ends, grpc::CANCELLED, context_);
    return;
  }
  outgoing_.push_back({JoinBulk(response, payloads), std::move(ends)});
  if (!writing_) WriteNext();
}

void StreamCall::WriteNext() {
  writing_ = true;
  write_started_ = absl::Now();
  context_.metrics->Sent(static_cast<std::int64_t>(outgoing_.front().buffer.Length()));
  // With more to come, gRPC may wait and send them together.
  grpc::WriteOptions options;
  if (outgoing_.size() > 1) options.set_buffer_hint();
  StartWrite(&outgoing_.front().buffer, options);
}

void StreamCall::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (const auto& record = outgoing_.front().ends) {
    EndRequest(*record, ok ? static_cast<int>(record->status.code()) : grpc::CANCELLED, context_);
  }
  outgoing_.pop_front();
  if (!ok && !fatal_) {
    fatal_ = absl::CancelledError("the client is gone");
    AbandonAll();
  }
  if (!outgoing_.empty() && !fatal_) WriteNext();
  if (read_waits_) ReadNext();
  FinishIfOver();
}

// ---- ending

void StreamCall::FinishIfOver() {
  if (finished_ || writing_) return;
  const bool idle = entries_.empty() && outgoing_.empty();
  absl::Status status;
  if (fatal_) {
    status = *fatal_;
  } else if (!idle) {
    return;
  } else if (!reads_over_) {
    if (!context_.draining.load()) return;
    status =
        Overloaded("DRAINING", "the server is shutting down; try another one", absl::Seconds(1));
  }
  finished_ = true;
  stream_record_.status = status;
  Finish(ToGrpcStatus(status));
}

void StreamCall::OnCancel() {
  absl::MutexLock lock(&mutex_);
  if (!fatal_) fatal_ = absl::CancelledError("the stream was cancelled");
  AbandonAll();
  FinishIfOver();
}

void StreamCall::OnDone() {
  context_.metrics->StreamClosed();
  {
    // Nothing may be written after this, whatever still comes from lanes.
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    AbandonAll();
    EndRequest(stream_record_, static_cast<int>(stream_record_.status.code()), context_);
  }
  context_.CallEnded();
  self_.reset();
}

absl::Status StreamCall::CheckTime(const Entry& entry, absl::Time now) const {
  if (now >= entry.caller.deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat("the deadline passed ", entry.upload ? "after " + entry.upload->Progress()
                                                          : "before the results were ready"));
  }
  if (!entry.upload) return absl::OkStatus();
  if (now - entry.last_chunk >= context_.upload_timeout) {
    return absl::DeadlineExceededError(absl::StrCat("no chunk for ",
                                                    absl::FormatDuration(context_.upload_timeout),
                                                    " after ", entry.upload->Progress()));
  }
  const absl::Duration allowed =
      context_.upload_timeout +
      absl::Seconds(static_cast<double>(entry.upload->total_bytes()) / kMinUploadBytesPerSecond);
  if (now - entry.record->arrived >= allowed) {
    return absl::DeadlineExceededError(absl::StrCat("the upload took longer than ",
                                                    absl::FormatDuration(allowed), ": ",
                                                    entry.upload->Progress()));
  }
  return absl::OkStatus();
}

void StreamCall::Tick(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (finished_) return;
  std::vector<std::pair<std::string, absl::Status>> over;
  for (const auto& [id, entry] : entries_) {
    if (const absl::Status status = CheckTime(entry, now); !status.ok())
      over.emplace_back(id, status);
  }
  for (const auto& [id, status] : over) {
    context_.metrics->Rejected(Reject::kExpired);
    entries_[id].caller.cancelled->store(true);
    EndLocked(id, status, nullptr);
  }
  if (!over.empty()) context_.dispatcher->NotifyCancelled();
  if (writing_ && now - write_started_ >= context_.stall_timeout) grpc_context_->TryCancel();
  FinishIfOver();
}

}  // namespace factord

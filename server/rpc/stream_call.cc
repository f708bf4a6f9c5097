#include "server/rpc/stream_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/caller.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/refusal.h"

namespace factord {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kEndedIdsKept = 4096;
constexpr std::size_t kMaxUnfinished = 4096;
constexpr std::size_t kMaxOutgoing = 16'384;
// An upload holds budget: beyond upload_timeout it has to keep up this rate as a whole.
constexpr double kMinUploadBytesPerSecond = 128 << 10;

absl::StatusOr<DecodedRequest> DecodeOperation(const v1::Start& start,
                                               std::span<const std::int64_t> payload_sizes,
                                               const Limits& limits) {
  switch (start.operation_case()) {
    case v1::Start::kFactorize:
      return Decode(start.factorize(), DataMode::kStreamed, payload_sizes, limits);
    case v1::Start::kFormQ:
      return Decode(start.form_q(), DataMode::kStreamed, payload_sizes, limits);
    case v1::Start::kApplyQ:
      return Decode(start.apply_q(), DataMode::kStreamed, payload_sizes, limits);
    case v1::Start::kSolve:
      return Decode(start.solve(), DataMode::kStreamed, payload_sizes, limits);
    case v1::Start::OPERATION_NOT_SET:
      break;
  }
  return InvalidField("start.operation", "is not set");
}

absl::StatusOr<absl::Time> DeadlineOf(const v1::Start& start, absl::Time arrived,
                                      absl::Time stream_deadline) {
  if (!start.has_timeout()) return stream_deadline;
  const absl::Duration timeout =
      absl::Seconds(start.timeout().seconds()) + absl::Nanoseconds(start.timeout().nanos());
  if (timeout <= absl::ZeroDuration()) {
    return InvalidField("start.timeout",
                        absl::StrCat("is ", absl::FormatDuration(timeout), "; must be > 0"));
  }
  return std::min(stream_deadline, arrived + timeout);
}

}  // namespace

StreamCall::StreamCall(grpc::CallbackServerContext* grpc_context, ServiceContext& context)
    : context_(context), grpc_context_(grpc_context), stream_caller_(CallerOf(*grpc_context)) {}

StreamCall* StreamCall::Start(grpc::CallbackServerContext* grpc_context, ServiceContext& context,
                              StreamRegistry& registry) {
  std::shared_ptr<StreamCall> call(new StreamCall(grpc_context, context));
  call->self_ = call;
  registry.Add(call);
  context.CallStarted();
  context.metrics->StreamOpened();
  call->StartRead(&call->incoming_);
  return call.get();
}

// ------------------------------------------------------------------------------------------------
// reading

void StreamCall::OnReadDone(bool ok) {
  {
    // The stream may be over while this read was under way.
    absl::MutexLock lock(&mutex_);
    if (fatal_ || finished_) ok = false;
  }
  const absl::Status status = ok ? Handle(incoming_) : absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (ok && status.ok()) return ReadNext();
  reads_over_ = true;
  if (!status.ok() && !fatal_) {
    CountRefusal(status, *context_.metrics);
    fatal_ = status;
    AbandonAll();
  }
  std::vector<std::string> unfinished;
  for (const auto& [id, entry] : entries_) {
    if (entry.upload) unfinished.push_back(id);
  }
  for (const std::string& id : unfinished) {
    const std::string progress = entries_[id].upload->Progress();
    EndLocked(id, InvalidField("chunk", absl::StrCat("the stream ended after ", progress)),
              nullptr);
  }
  FinishIfOver();
}

void StreamCall::ReadNext() {
  if (fatal_ || finished_) {
    reads_over_ = true;
    return;
  }
  read_waits_ = outgoing_.size() >= kMaxOutgoing;
  if (read_waits_) return;
  incoming_.Clear();
  StartRead(&incoming_);
}

absl::Status StreamCall::Handle(const grpc::ByteBuffer& buffer) {
  context_.metrics->Received(static_cast<std::int64_t>(buffer.Length()));
  ASSIGN_OR_RETURN(const auto message,
                   DecodeMessage<v1::StreamRequest>(
                       buffer, WireLimits::ForTensors(context_.limits.max_tensors)));
  switch (message.proto.message_case()) {
    case v1::StreamRequest::kStart:
      return HandleStart(message.proto.start(), message);
    case v1::StreamRequest::kChunk:
      return HandleChunk(message.proto.chunk(), message);
    case v1::StreamRequest::kCancel:
      HandleCancel(message.proto.cancel());
      return absl::OkStatus();
    case v1::StreamRequest::MESSAGE_NOT_SET:
      break;
  }
  return InvalidField("message", "is not set; set start, chunk or cancel");
}

absl::Status StreamCall::HandleStart(const v1::Start& start,
                                     const ReceivedMessage<v1::StreamRequest>& message) {
  const std::string& id = start.request_id();
  if (id.empty() || id.size() > kMaxIdBytes) {
    return InvalidField("start.request_id",
                        absl::StrCat("has ", id.size(), " bytes; must have 1 to ", kMaxIdBytes));
  }
  Entry entry;
  entry.arrived = entry.last_chunk = absl::Now();
  entry.caller.client = stream_caller_.client;
  {
    absl::MutexLock lock(&mutex_);
    if (entries_.contains(id)) {
      return InvalidField("start.request_id",
                          absl::StrCat("\"", id, "\" is in use by an unfinished request"));
    }
    if (fatal_ || finished_) return absl::OkStatus();
    entry.serial = next_serial_++;
    entries_[id] = entry;
    context_.metrics->RequestStarted(Rpc::kFactorizeStream);
    if (entries_.size() > kMaxUnfinished) {
      EndLocked(id,
                Overloaded("STREAM_FULL",
                           absl::StrCat("the stream has ", kMaxUnfinished, " unfinished requests"),
                           absl::Milliseconds(100)),
                nullptr);
      return absl::OkStatus();
    }
  }
  if (const absl::Status status = Accept(id, entry, start, message); !status.ok()) {
    CountRefusal(status, *context_.metrics);
    End(id, status);
  }
  return absl::OkStatus();
}

absl::Status StreamCall::Accept(const std::string& id, Entry& entry, const v1::Start& start,
                                const ReceivedMessage<v1::StreamRequest>& message) {
  RETURN_IF_ERROR(CheckAccepting(context_));
  ASSIGN_OR_RETURN(entry.caller.deadline,
                   DeadlineOf(start, entry.arrived, stream_caller_.deadline));
  ASSIGN_OR_RETURN(DecodedRequest decoded,
                   DecodeOperation(start, message.payload_sizes, context_.limits));
  ASSIGN_OR_RETURN(entry.request, Request::Create(std::move(decoded), context_));
  entry.request->CopyPayloads(message.split.payloads);
  entry.upload.emplace(entry.request->decoded());
  const bool complete = entry.upload->complete();

  v1::StreamResponse response;
  response.mutable_header()->set_request_id(id);
  *response.mutable_header()->mutable_result() =
      Encode(entry.request->decoded(), nullptr, /*placeholders=*/false);
  {
    absl::MutexLock lock(&mutex_);
    if (!IsCurrent(id, entry.serial))
      return absl::OkStatus();  // the stream was cancelled meanwhile
    entries_[id] = entry;
    Send(response, {}, std::nullopt);
  }
  if (complete) RunRequest(id);
  return absl::OkStatus();
}

absl::Status StreamCall::HandleChunk(const v1::Chunk& chunk,
                                     const ReceivedMessage<v1::StreamRequest>& message) {
  const std::string& id = chunk.request_id();
  const std::int64_t payload = IndexOf(chunk.data());
  const std::int64_t size =
      payload < 0 ? 0 : message.payload_sizes[static_cast<std::size_t>(payload)];
  std::shared_ptr<Request> request;
  absl::Status status;
  bool complete = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) {
      if (ended_.contains(id) || ended_forgotten_) return absl::OkStatus();
      return InvalidField("chunk.request_id",
                          absl::StrCat("no request \"", id, "\" was started on this stream"));
    }
    Entry& entry = found->second;
    if (size > 0) entry.last_chunk = absl::Now();
    request = entry.request;
    status = entry.upload ? entry.upload->Add(chunk, size)
                          : InvalidField("chunk", "came after the last byte of its request");
    complete = status.ok() && entry.upload->complete();
  }
  if (!status.ok()) {
    CountRefusal(status, *context_.metrics);
    End(id, status);
    return absl::OkStatus();
  }
  if (size > 0) {
    const TensorSlot& slot = request->decoded().inputs[static_cast<std::size_t>(chunk.tensor())];
    message.split.payloads[static_cast<std::size_t>(payload)].CopyTo(request->input(slot) +
                                                                     chunk.offset());
  }
  if (complete) RunRequest(id);
  return absl::OkStatus();
}

void StreamCall::HandleCancel(const v1::Cancel& cancel) {
  {
    absl::MutexLock lock(&mutex_);
    if (!entries_.contains(cancel.request_id())) return;
  }
  context_.metrics->Rejected(Reject::kCancelled);
  End(cancel.request_id(), absl::CancelledError("cancelled by the client"));
}

void StreamCall::RunRequest(const std::string& id) {
  std::shared_ptr<Request> request;
  Caller caller;
  std::uint64_t serial = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(id);
    if (found == entries_.end()) return;
    Entry& entry = found->second;
    entry.upload.reset();
    request = entry.request;
    caller = entry.caller;
    serial = entry.serial;
    const absl::Duration upload_time = absl::Now() - entry.arrived;
    request->set_decode_time(upload_time);
    context_.metrics->StageEnded(Stage::kDecode, upload_time);
  }
  const auto self = self_;
  const absl::Status status = request->Run(
      caller,
      [self, id, serial](Request& from, const Job& job) { self->OnJobDone(id, serial, from, job); },
      [self, id, serial](Request& from, const absl::Status& end) {
        self->OnFinished(id, serial, from, end);
      });
  if (!status.ok()) End(id, status);
}

// ------------------------------------------------------------------------------------------------
// results

void StreamCall::OnJobDone(const std::string& id, std::uint64_t serial, Request& request,
                           const Job& job) {
  const DecodedRequest& decoded = request.decoded();
  const auto owner = request.shared_from_this();
  const absl::Time start = absl::Now();
  absl::MutexLock lock(&mutex_);
  if (!IsCurrent(id, serial)) return;
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
      Send(response, {&payload, 1}, std::nullopt);
    }
  }
  context_.metrics->StageEnded(Stage::kEncode, absl::Now() - start);
}

void StreamCall::OnFinished(const std::string& id, std::uint64_t serial, Request& request,
                            const absl::Status& status) {
  v1::StreamResult result;
  if (status.ok()) {
    const Outcome outcome = request.TakeOutcome();
    result = Encode(request.decoded(), &outcome, /*placeholders=*/false);
  }
  absl::MutexLock lock(&mutex_);
  if (!IsCurrent(id, serial)) return;
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
  v1::StreamResponse response;
  v1::Done& done = *response.mutable_done();
  done.set_request_id(id);
  *done.mutable_status() = ToRpcStatus(status);
  if (result != nullptr) done.mutable_result()->Swap(result);
  const absl::Time arrived = entries_[id].arrived;
  entries_.erase(id);
  if (ended_.insert(id).second) ended_order_.push_back(id);
  if (ended_order_.size() > kEndedIdsKept) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
    ended_forgotten_ = true;
  }
  Send(response, {}, Ending{arrived, status.code()});
}

void StreamCall::AbandonAll() {
  for (auto& [id, entry] : entries_) {
    entry.caller.cancelled->store(true);
    context_.metrics->RequestEnded(Rpc::kFactorizeStream, grpc::CANCELLED,
                                   absl::Now() - entry.arrived);
  }
  if (!entries_.empty()) context_.dispatcher->NotifyCancelled();
  entries_.clear();
  const std::size_t keep = writing_ ? 1 : 0;
  for (std::size_t i = keep; i < outgoing_.size(); ++i) {
    if (outgoing_[i].ends) {
      context_.metrics->RequestEnded(Rpc::kFactorizeStream, grpc::CANCELLED,
                                     absl::Now() - outgoing_[i].ends->arrived);
    }
  }
  outgoing_.resize(keep);
}

bool StreamCall::IsCurrent(const std::string& id, std::uint64_t serial) const {
  const auto found = entries_.find(id);
  return found != entries_.end() && found->second.serial == serial;
}

// ------------------------------------------------------------------------------------------------
// writing

void StreamCall::Send(const v1::StreamResponse& response, std::span<const OutPayload> payloads,
                      std::optional<Ending> ends) {
  if (fatal_ || finished_) {
    if (ends)
      context_.metrics->RequestEnded(Rpc::kFactorizeStream, grpc::CANCELLED,
                                     absl::Now() - ends->arrived);
    return;
  }
  outgoing_.push_back({JoinBulk(response, payloads), ends});
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
  if (outgoing_.front().ends) {
    const Ending ending = *outgoing_.front().ends;
    context_.metrics->RequestEnded(Rpc::kFactorizeStream,
                                   ok ? static_cast<int>(ending.code) : grpc::CANCELLED,
                                   absl::Now() - ending.arrived);
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

// ------------------------------------------------------------------------------------------------
// ending

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
  if (now - entry.arrived >= allowed) {
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

// The half of StreamCall that reads: starts, chunks, cancels. stream_call_results.cc answers.
#include "server/rpc/stream_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/caller.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/refusal.h"
#include "server/rpc/request_start.h"

namespace factord {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
constexpr std::size_t kMaxUnfinished = 4096;
constexpr std::size_t kMaxOutgoing = 16'384;

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
    : context_(context),
      grpc_context_(grpc_context),
      stream_record_(
          StartRecord(RecordKind::kStream, Rpc::kFactorizeStream, *grpc_context, context)),
      stream_caller_(CallerOf(*grpc_context, context.tokens.get())) {
  stream_record_.client = stream_caller_.client;
}

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
    context_.refusals.Add(Rpc::kFactorizeStream, status, absl::Now());
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
  entry.last_chunk = absl::Now();
  entry.record =
      std::make_shared<RequestRecord>(RecordWithin(stream_record_, id, entry.last_chunk));
  entry.caller.client = stream_caller_.client;
  entry.caller.traced = stream_record_.traced;
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
                   DeadlineOf(start, entry.record->arrived, stream_caller_.deadline));
  ASSIGN_OR_RETURN(DecodedRequest decoded,
                   DecodeOperation(start, message.payload_sizes, context_.limits));
  {
    absl::MutexLock lock(&mutex_);
    entry.record->Decoded(decoded);
  }
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
    if (FindCurrent(id, entry.serial) == entries_.end())
      return absl::OkStatus();  // the stream was cancelled meanwhile
    entries_[id] = entry;
    Send(response, {}, nullptr);
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
    entry.record->in_memory = absl::Now();
    const absl::Duration upload_time = *entry.record->in_memory - entry.record->arrived;
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

}  // namespace factord

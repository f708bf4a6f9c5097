#include "client/stream_call.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/grpc_status.h"
#include "client/result_assembler.h"

namespace factord::client {
namespace {

using Stream = grpc::ClientReaderWriterInterface<v1::StreamRequest, v1::StreamResponse>;
using ProgressFunction = std::function<void(int64_t, int64_t)>;

// Adds up what both directions have done, and tells.
class ProgressMeter {
 public:
  ProgressMeter(const ProgressFunction& progress, int64_t sending_bytes)
      : progress_(progress), sending_bytes_(sending_bytes) {}

  void Sent(int64_t bytes) {
    if (!progress_) return;
    absl::MutexLock lock(&mutex_);
    sent_bytes_ += bytes;
    Tell();
  }

  void Received(const ResultAssembler& assembler) {
    if (!progress_) return;
    absl::MutexLock lock(&mutex_);
    received_bytes_ = assembler.received_bytes();
    receiving_bytes_ = assembler.total_bytes();
    Tell();
  }

 private:
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    progress_(sent_bytes_ + received_bytes_, sending_bytes_ + receiving_bytes_);
  }

  const ProgressFunction& progress_;
  const int64_t sending_bytes_;
  absl::Mutex mutex_;
  int64_t sent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t received_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t receiving_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Writes the start and every chunk, then closes the sending side. Stops where a write fails: the
// reader learns why.
void SendAll(Stream* stream, const v1::Start& start, const std::vector<absl::string_view>& data,
             ProgressMeter* meter) {
  v1::StreamRequest request;
  *request.mutable_start() = start;
  if (!stream->Write(request)) return;

  v1::Chunk* chunk = request.mutable_chunk();
  chunk->set_request_id(start.request_id());
  for (size_t i = 0; i < data.size(); ++i) {
    chunk->set_tensor(static_cast<int32_t>(i));
    for (size_t offset = 0; offset < data[i].size(); offset += kChunkBytes) {
      const absl::string_view piece = data[i].substr(offset, kChunkBytes);
      chunk->set_offset(static_cast<int64_t>(offset));
      chunk->mutable_data()->assign(piece.data(), piece.size());  // reuses the last chunk's memory
      if (!stream->Write(request)) return;
      meter->Sent(static_cast<int64_t>(piece.size()));
    }
  }
  stream->WritesDone();
}

// Reads up to Done. Nothing if the stream ended before: its own status says why.
std::optional<absl::StatusOr<v1::StreamResult>> ReceiveAll(Stream* stream,
                                                           const std::string& request_id,
                                                           ProgressMeter* meter) {
  ResultAssembler assembler;
  v1::StreamResponse response;
  while (stream->Read(&response)) {
    absl::Status status;
    switch (response.message_case()) {
      case v1::StreamResponse::kHeader:
        status = assembler.AddHeader(response.mutable_header()->mutable_result());
        break;
      case v1::StreamResponse::kChunk:
        status = assembler.AddChunk(response.chunk());
        meter->Received(assembler);
        break;
      case v1::StreamResponse::kDone:
        if (response.done().request_id() != request_id) {
          return absl::InternalError(absl::StrCat("the server's stream: done for request '",
                                                  response.done().request_id(), "', not '",
                                                  request_id, "'"));
        }
        status = ToAbslStatus(response.done().status());
        if (status.ok()) return assembler.Finish(response.mutable_done()->mutable_result());
        break;
      case v1::StreamResponse::MESSAGE_NOT_SET:
        break;  // a newer server's message that this client need not understand
    }
    if (!status.ok()) return status;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<v1::StreamResult> RunStreamCall(v1::Factorization::StubInterface* stub,
                                               grpc::ClientContext* context, const v1::Start& start,
                                               const std::vector<absl::string_view>& data,
                                               const ProgressFunction& progress) {
  int64_t sending_bytes = 0;
  for (absl::string_view tensor : data) sending_bytes += static_cast<int64_t>(tensor.size());
  ProgressMeter meter(progress, sending_bytes);

  const std::unique_ptr<Stream> stream = stub->FactorizeStream(context);
  // Sending and receiving must not wait for each other: a refusal comes while chunks are still
  // going out.
  std::thread sender([&] { SendAll(stream.get(), start, data, &meter); });
  std::optional<absl::StatusOr<v1::StreamResult>> result =
      ReceiveAll(stream.get(), start.request_id(), &meter);
  // Whatever is still being sent, nobody waits for it. After a good end there is nothing left to
  // cancel.
  if (result.has_value() && !result->ok()) context->TryCancel();
  sender.join();
  if (result.has_value() && !result->ok()) {
    stream->Finish();
    return *std::move(result);
  }

  v1::StreamResponse rest;
  while (result.has_value() && stream->Read(&rest)) {
  }
  const absl::Status status = ToAbslStatus(stream->Finish());
  if (result.has_value()) return *std::move(result);
  if (!status.ok()) return status;
  return absl::InternalError("the server's stream: it ended without a done for the request");
}

}  // namespace factord::client

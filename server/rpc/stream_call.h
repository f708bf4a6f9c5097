// StreamCall: one FactorizeStream RPC: many requests in flight, in chunks both ways.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/decode_message.h"
#include "server/rpc/request.h"
#include "server/rpc/request_record.h"
#include "server/rpc/stream_registry.h"
#include "server/rpc/upload.h"

namespace factord {

// A reactor that owns itself until gRPC is done with it; lanes and the registry hold references
// while they use it.
//
// Memory: one received message; what its requests took from the byte budget; and messages to send,
// whose bulk is in those requests and whose number is bounded: no more is read while kMaxOutgoing
// wait. So a client that does not read holds budget, little else, and is cut off after
// `stall_timeout`.
//
// Thread-safety: gRPC calls OnReadDone from one thread at a time; all state that others touch is
// under mutex_.
class StreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public Ticking {
 public:
  static StreamCall* Start(grpc::CallbackServerContext* grpc_context, ServiceContext& context,
                           StreamRegistry& registry);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Ends uploads whose time is up, the stream if its client stopped reading or the server drains.
  void Tick(absl::Time now) override;

 private:
  // One unfinished request. `serial` tells it from a later one of the same id.
  struct Entry {
    std::uint64_t serial = 0;
    std::shared_ptr<RequestRecord> record;
    Caller caller;
    std::shared_ptr<Request> request;
    std::optional<Upload> upload;  // until its last byte is here
    absl::Time last_chunk;
  };
  struct Outgoing {
    grpc::ByteBuffer buffer;
    std::shared_ptr<RequestRecord> ends;  // null: it is no Done
  };

  StreamCall(grpc::CallbackServerContext* grpc_context, ServiceContext& context);

  // Each returns an error that ends the stream. An error of one request ends that request, through
  // End.
  absl::Status Handle(const grpc::ByteBuffer& buffer);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status HandleStart(const v1::Start& start,
                           const ReceivedMessage<v1::StreamRequest>& message);
  absl::Status HandleChunk(const v1::Chunk& chunk,
                           const ReceivedMessage<v1::StreamRequest>& message);
  void HandleCancel(const v1::Cancel& cancel);

  absl::Status Accept(const std::string& id, Entry& entry, const v1::Start& start,
                      const ReceivedMessage<v1::StreamRequest>& message);
  void RunRequest(const std::string& id);

  // From lanes.
  void OnJobDone(const std::string& id, std::uint64_t serial, Request& request, const Job& job);
  void OnFinished(const std::string& id, std::uint64_t serial, Request& request,
                  const absl::Status& status);

  // What time has to say against a request.
  absl::Status CheckTime(const Entry& entry, absl::Time now) const;
  void End(const std::string& id, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes `result`'s contents; null: none.
  void EndLocked(const std::string& id, const absl::Status& status, v1::StreamResult* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AbandonAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(const v1::StreamResponse& response, std::span<const OutPayload> payloads,
            std::shared_ptr<RequestRecord> ends) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // entries_.end() where that request is over.
  std::map<std::string, Entry>::iterator FindCurrent(const std::string& id, std::uint64_t serial)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServiceContext& context_;
  grpc::CallbackServerContext* const grpc_context_;
  RequestRecord stream_record_;
  const Caller stream_caller_;
  std::shared_ptr<StreamCall> self_;  // until OnDone
  grpc::ByteBuffer incoming_;         // the reading thread's

  absl::Mutex mutex_;
  // Their records are written and read under the mutex too.
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_serial_ ABSL_GUARDED_BY(mutex_) = 0;
  // The latest ids that ended: chunks that were under way then are let go. Once some are forgotten,
  // so is every chunk of an unknown id.
  std::set<std::string> ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> ended_order_ ABSL_GUARDED_BY(mutex_);
  bool ended_forgotten_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Outgoing> outgoing_
      ABSL_GUARDED_BY(mutex_);  // the front one is being written, if writing_
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time write_started_ ABSL_GUARDED_BY(mutex_);
  bool reads_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_waits_ ABSL_GUARDED_BY(mutex_) = false;  // for outgoing_ to become shorter
  std::optional<absl::Status> fatal_
      ABSL_GUARDED_BY(mutex_);  // what ends the stream before its requests are over
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace factord

// ReduceCall: one ReduceRows RPC: rows in, progress and what is left of them out.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/reduction/row_reduction.h"
#include "server/rpc/codec_reduction.h"
#include "server/rpc/decode_message.h"
#include "server/rpc/request.h"
#include "server/rpc/request_record.h"
#include "server/rpc/stream_registry.h"

namespace factord {

// A reactor that owns itself until gRPC is done with it; lanes and the registry hold references
// while they use it.
//
// Memory: one received message, and what its RowReduction took from the byte budget. No more is
// read while that has no room, and no more is written than one message: progress that the client
// does not read is replaced by later progress. A client that sends nothing, or does not read, is
// cut off after `upload_timeout` and `stall_timeout`.
//
// Thread-safety: gRPC calls OnReadDone from one thread at a time; all state that others touch is
// under mutex_, which comes before the reduction's own.
class ReduceCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                         public Ticking,
                         public std::enable_shared_from_this<ReduceCall> {
 public:
  static ReduceCall* Start(grpc::CallbackServerContext* grpc_context, ServiceContext& context,
                           StreamRegistry& registry);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Ends the stream where its time is up, its client is silent or does not read, or where it has
  // not started and the server drains.
  void Tick(absl::Time now) override;

 private:
  using Message = ReceivedMessage<v1::ReduceRowsRequest>;

  ReduceCall(grpc::CallbackServerContext* grpc_context, ServiceContext& context);

  // The reading thread's. An error ends the stream.
  absl::Status Handle(const grpc::ByteBuffer& buffer);
  absl::Status HandleStart(const v1::ReduceRowsStart& start);
  absl::Status HandleRows(const Message& message);
  absl::Status HandleReduced(const Message& message);
  absl::Status HandleEnd();

  // The reduction's: a job is to be sent, under the reduction's lock; one has ended.
  absl::Status Submit(std::unique_ptr<Job> job);
  void OnJobRan(const Job& job);
  void OnChanged();

  // Does what the reduction's state asks for: reads on, writes, ends.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::ByteBuffer EncodeResult(const Reduced& reduced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishIfOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckTime(absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ServiceContext& context_;
  grpc::CallbackServerContext* const grpc_context_;
  Caller caller_;
  std::shared_ptr<ReduceCall> self_;  // until OnDone
  grpc::ByteBuffer incoming_;         // the reading thread's

  // Written once, by the reading thread and before there are jobs.
  DecodedReduction decoded_;

  absl::Mutex mutex_;
  RequestRecord record_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<RowReduction> reduction_ ABSL_GUARDED_BY(mutex_);  // null: not started
  Outcome outcome_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_waits_ ABSL_GUARDED_BY(mutex_) = false;  // for room
  absl::Time read_started_ ABSL_GUARDED_BY(mutex_);
  std::int64_t rows_counted_ ABSL_GUARDED_BY(mutex_) = 0;  // in the metric
  std::int64_t rows_said_ ABSL_GUARDED_BY(mutex_) = 0;     // in the latest progress
  grpc::ByteBuffer outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time write_started_ ABSL_GUARDED_BY(mutex_);
  bool result_written_ ABSL_GUARDED_BY(mutex_) = false;  // or being so
  std::optional<absl::Status> fatal_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace factord

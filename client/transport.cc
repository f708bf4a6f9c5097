#include "client/transport.h"

#include <grpc/grpc.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "client/grpc_status.h"
#include "client/row_reducer_call.h"
#include "client/stream_call.h"

namespace factord::client {
namespace {

// What a request and a reply hold besides their tensors' data, generously.
constexpr double kMessageOverheadBytes = 1 << 20;

// When its last object goes, gRPC shuts its threads down, and may wait ten seconds for one that
// polls. A process that has used gRPC once may use it again: it is kept until the process ends.
void KeepGrpcRunning() {
  static const bool is_running = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(is_running);
}

std::shared_ptr<grpc::Channel> CreateChannel(const ClientOptions& options) {
  KeepGrpcRunning();
  grpc::ChannelArguments arguments;
  const int message_bytes = static_cast<int>(
      std::min<int64_t>(options.max_message_bytes, std::numeric_limits<int>::max()));
  arguments.SetMaxReceiveMessageSize(message_bytes);
  arguments.SetMaxSendMessageSize(message_bytes);
  // gRPC's own one second between connection attempts would make most of our retries fail without
  // trying.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // How long an attempt may take at least, whatever gRPC calls it: with TLS it is three round trips
  // and some arithmetic.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  if (options.own_connection) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(
      options.target,
      options.credentials != nullptr ? options.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

}  // namespace

Transport::Transport(ClientOptions options)
    : options_(std::move(options)), stub_(v1::Factorization::NewStub(CreateChannel(options_))) {}

bool Transport::NeedsStream(const std::vector<absl::string_view>& data, double result_bytes) const {
  double input_bytes = 0;
  for (absl::string_view tensor : data) input_bytes += static_cast<double>(tensor.size());
  const double limit =
      std::min(static_cast<double>(options_.stream_threshold_bytes),
               static_cast<double>(options_.max_message_bytes) - kMessageOverheadBytes);
  return input_bytes > limit || result_bytes > limit;
}

absl::StatusOr<v1::StreamResult> Transport::CallStream(const v1::Start& start,
                                                       const std::vector<absl::string_view>& data,
                                                       const CallOptions& call) {
  v1::Start named_start = start;
  named_start.set_request_id("1");  // each call has a stream of its own
  v1::StreamResult result;
  const absl::Status status = Retry(call, [&](grpc::ClientContext* context) {
    absl::StatusOr<v1::StreamResult> attempt =
        RunStreamCall(stub_.get(), context, named_start, data, call.progress);
    if (!attempt.ok()) return attempt.status();
    result = *std::move(attempt);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return result;
}

absl::Status Transport::Retry(const CallOptions& call,
                              absl::FunctionRef<absl::Status(grpc::ClientContext*)> attempt) {
  const absl::Time deadline = Deadline(call);
  return RunWithRetries(options_.retry, deadline, options_.environment, [&] {
    grpc::ClientContext context;
    const absl::Status status = Prepare(deadline, &context);
    return status.ok() ? attempt(&context) : status;
  });
}

absl::Time Transport::Deadline(const CallOptions& call) const {
  return options_.environment.now() + call.timeout.value_or(options_.timeout);
}

absl::Status Transport::Prepare(absl::Time deadline, grpc::ClientContext* context) const {
  // gRPC would start a call that is already late, and now and then finish it.
  if (options_.environment.now() >= deadline) {
    return absl::DeadlineExceededError("the deadline passed before the call");
  }
  context->set_deadline(absl::ToChronoTime(deadline));
  if (!options_.client_name.empty()) context->AddMetadata("factord-client", options_.client_name);
  if (!options_.token.empty()) context->AddMetadata("authorization", "Bearer " + options_.token);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RowReducer>> Transport::ReduceRows(const v1::ReduceRowsStart& start,
                                                                  const CallOptions& call) {
  auto started = std::make_unique<RowReducer::Call>();
  started->start = start;
  *started->start.mutable_run() = call.run;
  started->start.clear_progress_rows();  // nobody reads while rows are sent
  absl::Status status = Prepare(Deadline(call), &started->context);
  if (!status.ok()) return status;
  v1::ReduceRowsRequest request;
  *request.mutable_start() = started->start;
  started->stream = stub_->ReduceRows(&started->context);
  auto reducer = absl::WrapUnique(new RowReducer(std::move(started)));
  status = reducer->Send(request);
  if (!status.ok()) return status;
  return reducer;
}

absl::Status Transport::ToStatus(const grpc::Status& status) { return ToAbslStatus(status); }

}  // namespace factord::client

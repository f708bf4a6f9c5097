// Codec: factord.v1 messages to and from specs. ALL validation of requests lives here: what comes
// out of Decode can be computed, and has sizes that fit 64 bits and the limits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "factord/v1/factord.pb.h"
#include "server/core/job.h"
#include "server/core/spec.h"

namespace factord {

struct Limits {
  std::int64_t max_message_bytes = 64 << 20;  // of one gRPC message
  // m * n of one matrix, and rows * columns of each of its results: LAPACK's indices have 32 bits.
  std::int64_t max_matrix_elements = INT32_MAX;
  std::int64_t max_tensors = 16'384;     // in one request
  std::int64_t memory_budget_bytes = 0;  // of all requests together, so of each alone
};

// One entry of a request: a batch of equal matrices, and all operands that go with it.
struct Item {
  Spec spec;
  std::vector<std::int64_t> batch_dims;
  std::int64_t count = 0;  // product of batch_dims
  // Its tensors are outputs[first_output] and the ones after it, as many as `output_tensors`.
  std::size_t first_output = 0;
  std::size_t output_tensors = 0;
  std::int64_t input_bytes = 0;   // of all its tensors
  std::int64_t output_bytes = 0;  // likewise, and its ranks
};

// One tensor of a request or response: where its bytes are in the slab.
struct TensorSlot {
  std::size_t item = 0;
  Operand operand = Operand::kA;
  std::int64_t offset = 0;  // in the slab, aligned
  std::int64_t bytes = 0;
  std::int64_t payload = -1;  // inputs: index into SplitMessage::payloads, -1: none
};

// A validated request, before any memory is taken for it.
struct DecodedRequest {
  Op op = Op::kFactorize;
  std::vector<Item> items;
  std::vector<TensorSlot> inputs;   // in the API's tensor order
  std::vector<TensorSlot> outputs;  // likewise; the ranks, which are no tensors, come last
  std::int64_t input_bytes = 0;     // of the slabs, alignment included
  std::int64_t output_bytes = 0;

  std::optional<Backend> backend;  // empty: the server chooses
  Priority priority = Priority::kNormal;
  bool reproducible = false;

  // What the response is at most without its tensors' data: dims, statuses, ranks.
  std::int64_t response_overhead_bytes() const;

  // A tensor's path in the request, for messages: "a[2]", "problems[0].b".
  std::string PathOf(const TensorSlot& input) const;
};

// How a request's tensors carry their data.
enum class DataMode {
  kInline,     // all of it in the message
  kStreamed,   // in the message, or none of it: chunks follow
  kShapeOnly,  // none
};

// `payload_sizes`: of the received payloads, indexed as the placeholders in the data fields.
// INVALID_ARGUMENT names the field and both numbers; RESOURCE_EXHAUSTED where the request alone
// exceeds the memory budget.
absl::StatusOr<DecodedRequest> Decode(const v1::FactorizeRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits);
absl::StatusOr<DecodedRequest> Decode(const v1::FormQRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits);
absl::StatusOr<DecodedRequest> Decode(const v1::ApplyQRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits);
absl::StatusOr<DecodedRequest> Decode(const v1::SolveRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits);

// Statuses listed in one response; more are only counted, so that a response stays bounded.
inline constexpr std::int64_t kMaxStatuses = 65'536;

// How one job of a request went.
struct JobRun {
  absl::Time queued;
  StageTimes times;
  std::int64_t matrices = 0;
  std::int64_t batch_matrices = 0;
  Backend backend = Backend::kCpu;
  std::string_view path;
};

// Of these, the first so many of a request are kept.
inline constexpr std::size_t kMaxRuns = 64;

// What a finished request has to say beside its tensors' data.
struct Outcome {
  std::vector<std::vector<MatrixFailure>> failures;  // of each item, by ascending index
  std::vector<std::span<const std::int32_t>> ranks;  // of each item; kSolve
  v1::RunReport report;
  std::vector<JobRun> runs;  // where the caller asked for traces
};

// The response to `request`; `outcome` null: only the tensors' dims (a stream's header). With
// `placeholders` the i-th output tensor's data is PlaceholderOf(i), else it is empty.
v1::StreamResult Encode(const DecodedRequest& request, const Outcome* outcome, bool placeholders);

v1::Backend ToProto(Backend backend);
v1::MatrixCode ToProto(MatrixCode code);

}  // namespace factord

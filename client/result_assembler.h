#ifndef FACTORD_CLIENT_RESULT_ASSEMBLER_H_
#define FACTORD_CLIENT_RESULT_ASSEMBLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "factord/v1/factord.pb.h"

namespace factord::client {

// Puts one streamed request's reply together: its header says how large each tensor is, chunks land
// straight in their place, in any order, and Done brings the rest. Not thread-safe.
//
// Errors: INTERNAL where the messages contradict each other: the server is wrong, and so would be
// the result.
class ResultAssembler {
 public:
  absl::Status AddHeader(v1::StreamResult* header);
  absl::Status AddChunk(const v1::Chunk& chunk);

  // The whole response, the tensors' data included. The assembler is spent.
  absl::StatusOr<v1::StreamResult> Finish(v1::StreamResult* done);

  // 0 before the header.
  int64_t total_bytes() const { return total_bytes_; }
  int64_t received_bytes() const { return received_bytes_; }

 private:
  struct Target {
    std::string data;
    int64_t received_bytes = 0;
  };

  bool has_header_ = false;
  std::vector<Target> targets_;
  int64_t total_bytes_ = 0;
  int64_t received_bytes_ = 0;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_RESULT_ASSEMBLER_H_

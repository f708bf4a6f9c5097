// Upload: how much of a streamed request's data has arrived. Bookkeeping only; the bytes are the
// request's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "factord/v1/factord.pb.h"
#include "server/rpc/codec.h"

namespace factord {

class Upload {
 public:
  // Tensors whose data came with the Start are complete.
  explicit Upload(const DecodedRequest& request);

  // The next chunk, of `size` bytes. INVALID_ARGUMENT where it names no tensor, does not follow the
  // bytes before it or passes the tensor's end.
  absl::Status Add(const v1::Chunk& chunk, std::int64_t size);

  bool complete() const { return missing_ == 0; }

  std::int64_t total_bytes() const { return total_; }

  // "12 of 4096 bytes", of all tensors together.
  std::string Progress() const;

 private:
  const DecodedRequest* request_;
  std::vector<std::int64_t> received_;  // of each input tensor
  std::int64_t missing_ = 0;            // bytes
  std::int64_t total_ = 0;
};

}  // namespace factord

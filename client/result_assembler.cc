#include "client/result_assembler.h"

#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/tensor.h"
#include "client/tensor_order.h"

namespace factord::client {
namespace {

template <typename... Parts>
absl::Status Contradiction(const Parts&... parts) {
  return absl::InternalError(absl::StrCat("the server's stream: ", parts...));
}

absl::StatusOr<int64_t> BytesOf(const v1::Tensor& tensor) {
  return TensorBytes(tensor.dtype(), {tensor.dims().begin(), tensor.dims().end()});
}

}  // namespace

absl::Status ResultAssembler::AddHeader(v1::StreamResult* header) {
  if (has_header_) return Contradiction("a second header");
  has_header_ = true;
  for (const v1::Tensor* tensor : TensorsOf(header)) {
    const absl::StatusOr<int64_t> bytes = BytesOf(*tensor);
    if (!bytes.ok()) return Contradiction("header: ", bytes.status().message());
    if (*bytes > std::numeric_limits<int64_t>::max() - total_bytes_) {
      return Contradiction("header: the tensors have more than 2^63 - 1 bytes");
    }
    total_bytes_ += *bytes;
    targets_.emplace_back().data.resize(*bytes);
  }
  return absl::OkStatus();
}

absl::Status ResultAssembler::AddChunk(const v1::Chunk& chunk) {
  if (chunk.tensor() < 0 || chunk.tensor() >= static_cast<int64_t>(targets_.size())) {
    return Contradiction("a chunk of tensor ", chunk.tensor(), ", and the header has ",
                         targets_.size());
  }
  Target& target = targets_[chunk.tensor()];
  const int64_t size = static_cast<int64_t>(target.data.size());
  const int64_t bytes = static_cast<int64_t>(chunk.data().size());
  if (chunk.offset() < 0 || chunk.offset() > size || bytes > size - chunk.offset()) {
    return Contradiction("a chunk of ", bytes, " bytes at ", chunk.offset(), " of tensor ",
                         chunk.tensor(), ", which has ", size, " bytes");
  }
  if (bytes > 0) std::memcpy(target.data.data() + chunk.offset(), chunk.data().data(), bytes);
  target.received_bytes += bytes;
  received_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<v1::StreamResult> ResultAssembler::Finish(v1::StreamResult* done) {
  const std::vector<v1::Tensor*> tensors = TensorsOf(done);
  if (tensors.size() != targets_.size()) {
    return Contradiction("done lists ", tensors.size(), " tensors, the header ", targets_.size());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    Target& target = targets_[i];
    const int64_t size = static_cast<int64_t>(target.data.size());
    // Each byte comes once, so their number tells whether all have come.
    if (target.received_bytes != size) {
      return Contradiction(target.received_bytes, " bytes of tensor ", i, ", not ", size);
    }
    const absl::StatusOr<int64_t> bytes = BytesOf(*tensors[i]);
    if (!bytes.ok() || *bytes != size) {
      return Contradiction(
          size, " bytes of tensor ", i, ", and done says ",
          bytes.ok() ? absl::StrCat(*bytes) : std::string(bytes.status().message()));
    }
    *tensors[i]->mutable_data() = std::move(target.data);
  }
  targets_.clear();
  return std::move(*done);
}

}  // namespace factord::client

#include "server/rpc/upload.h"

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"

namespace factord {

Upload::Upload(const DecodedRequest& request) : request_(&request) {
  for (const TensorSlot& slot : request.inputs) {
    received_.push_back(slot.payload >= 0 ? slot.bytes : 0);
    total_ += slot.bytes;
    missing_ += slot.bytes - received_.back();
  }
}

absl::Status Upload::Add(const v1::Chunk& chunk, std::int64_t size) {
  const auto tensors = static_cast<std::int64_t>(received_.size());
  if (chunk.tensor() < 0 || chunk.tensor() >= tensors) {
    return InvalidField("chunk.tensor", absl::StrCat("is ", chunk.tensor(), "; the request has ",
                                                     tensors, " tensors"));
  }
  const auto tensor = static_cast<std::size_t>(chunk.tensor());
  const TensorSlot& slot = request_->inputs[tensor];
  if (chunk.offset() != received_[tensor]) {
    return InvalidField("chunk.offset",
                        absl::StrCat("is ", chunk.offset(), "; ", received_[tensor], " bytes of ",
                                     request_->PathOf(slot), " have arrived"));
  }
  if (size > slot.bytes - received_[tensor]) {
    return InvalidField("chunk.data",
                        absl::StrCat("ends at byte ", received_[tensor] + size, " of ",
                                     request_->PathOf(slot), ", which has ", slot.bytes));
  }
  received_[tensor] += size;
  missing_ -= size;
  return absl::OkStatus();
}

std::string Upload::Progress() const {
  return absl::StrCat(total_ - missing_, " of ", total_, " bytes");
}

}  // namespace factord

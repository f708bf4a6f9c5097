// The wire path: protobuf messages whose bulk is moved, not parsed.
//
// In factord.v1 every `bytes` field is bulk: matrices. SplitBulk takes a received message apart
// into its skeleton (the same message, each bulk field replaced by a 4-byte index) and the bulk
// itself, as ranges of the slices it arrived in; JoinBulk is the inverse, for sending. So the
// skeleton goes through protobuf, with all its rules (last one wins, unknown fields), and the bulk
// is copied once on its way in and never on its way out. What is on the wire stays ordinary
// protobuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace factord {

// The value of one received bulk field: ranges of the slices that its SplitMessage keeps alive.
class Payload {
 public:
  void Append(const std::uint8_t* data, std::size_t size);
  std::int64_t size() const { return size_; }
  std::span<const std::span<const std::uint8_t>> ranges() const { return ranges_; }
  void CopyTo(std::byte* destination) const;

 private:
  std::vector<std::span<const std::uint8_t>> ranges_;
  std::int64_t size_ = 0;
};

struct SplitMessage {
  std::string skeleton;
  std::vector<Payload> payloads;
  std::vector<grpc::Slice> slices;  // what `payloads` points into
};

// Bounds what a message may make of its bytes before anything knows what it says: protobuf's
// objects are many times larger than the few bytes that ask for them.
struct WireLimits {
  std::int64_t max_skeleton_bytes = 64 << 10;
  std::int64_t max_fields = 1024;  // known or not, at any depth

  // Enough for `tensors` tensors and all that comes with them.
  static WireLimits ForTensors(std::int64_t tensors) {
    return {(64 << 10) + 256 * tensors, 1024 + 16 * tensors};
  }
};

// INVALID_ARGUMENT where the bytes are not protobuf's wire format, or pass the limits. `descriptor`
// is the message's type.
absl::StatusOr<SplitMessage> SplitBulk(const grpc::ByteBuffer& buffer,
                                       const google::protobuf::Descriptor& descriptor,
                                       const WireLimits& limits);

// The value to put into a bulk field of a skeleton, and its inverse: the index, or -1 for an empty
// field.
std::string PlaceholderOf(std::size_t index);
std::int64_t IndexOf(const std::string& placeholder);

// Bulk to send: `size` bytes at `data`, kept alive by `owner` until gRPC is done with them.
struct OutPayload {
  const std::byte* data = nullptr;
  std::int64_t size = 0;
  std::shared_ptr<const void> owner;
};

// The bytes of `skeleton` with the placeholder in each bulk field replaced by payloads[its index].
// Large payloads become slices of their own (not copied).
grpc::ByteBuffer JoinBulk(const google::protobuf::Message& skeleton,
                          std::span<const OutPayload> payloads);

}  // namespace factord

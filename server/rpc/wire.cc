#include "server/rpc/wire.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "google/protobuf/wire_format_lite.h"

namespace factord {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using WireFormat = google::protobuf::internal::WireFormatLite;

// Below this a payload is copied beside the skeleton's bytes: a slice of its own costs more than
// the copy.
constexpr std::int64_t kCopyBelow = 4096;

// What a length-delimited field holds, as far as the bulk is concerned.
enum class FieldKind { kBulk, kMessage, kOther };

FieldKind KindOf(const FieldDescriptor* field, const Descriptor& parent) {
  if (field == nullptr) return FieldKind::kOther;
  if (field->type() == FieldDescriptor::TYPE_BYTES) return FieldKind::kBulk;
  const bool ours = field->type() == FieldDescriptor::TYPE_MESSAGE &&
                    field->message_type()->file() == parent.file();
  return ours ? FieldKind::kMessage : FieldKind::kOther;
}

void AppendVarint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// ---- Split

// Reads through consecutive slices. Every read fails (false, nullopt) rather than pass `end`.
class SliceReader {
 public:
  explicit SliceReader(std::span<const grpc::Slice> slices) : slices_(slices) {
    for (const grpc::Slice& slice : slices) remaining_ += slice.size();
    SkipEmpty();
  }

  std::size_t remaining() const { return remaining_; }

  std::optional<std::uint64_t> ReadVarint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (remaining_ == 0) return std::nullopt;
      const std::uint8_t byte = slices_.front().begin()[offset_];
      Advance(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  // Calls visit(data, size) for the consecutive ranges that make up the next `size` bytes.
  template <typename Visit>
  bool Take(std::size_t size, Visit visit) {
    if (size > remaining_) return false;
    while (size > 0) {
      const std::size_t here = std::min(size, slices_.front().size() - offset_);
      visit(slices_.front().begin() + offset_, here);
      Advance(here);
      size -= here;
    }
    return true;
  }

 private:
  void Advance(std::size_t size) {
    offset_ += size;
    remaining_ -= size;
    if (offset_ == slices_.front().size()) {
      slices_ = slices_.subspan(1);
      offset_ = 0;
      SkipEmpty();
    }
  }
  void SkipEmpty() {
    while (!slices_.empty() && slices_.front().size() == 0) slices_ = slices_.subspan(1);
  }

  std::span<const grpc::Slice> slices_;
  std::size_t offset_ = 0;  // in slices_.front()
  std::size_t remaining_ = 0;
};

class Splitter {
 public:
  Splitter(std::span<const grpc::Slice> slices, const WireLimits& limits,
           std::vector<Payload>& payloads)
      : reader_(slices), limits_(limits), payloads_(payloads) {}

  // Why Message said false, where it was a limit.
  const std::string& over_limit() const { return over_limit_; }

  bool Message(const Descriptor& descriptor, std::size_t size, std::string& out) {
    if (size > reader_.remaining()) return false;
    const std::size_t end = reader_.remaining() - size;
    while (reader_.remaining() > end) {
      if (!Field(descriptor, out)) return false;
    }
    return reader_.remaining() == end;
  }

 private:
  bool Field(const Descriptor& descriptor, std::string& out) {
    const auto tag = reader_.ReadVarint();
    if (!tag || *tag > UINT32_MAX || !Count()) return false;
    AppendVarint(*tag, out);
    switch (static_cast<WireFormat::WireType>(*tag & 7)) {
      case WireFormat::WIRETYPE_VARINT: {
        const auto value = reader_.ReadVarint();
        if (value) AppendVarint(*value, out);
        return value.has_value();
      }
      case WireFormat::WIRETYPE_FIXED64:
        return Copy(8, out);
      case WireFormat::WIRETYPE_FIXED32:
        return Copy(4, out);
      case WireFormat::WIRETYPE_LENGTH_DELIMITED:
        return LengthDelimited(descriptor, *tag >> 3, out);
      // We have no groups, so what is in one is unknown and only copied; protobuf matches its ends.
      case WireFormat::WIRETYPE_START_GROUP:
        ++groups_;
        return true;
      case WireFormat::WIRETYPE_END_GROUP:
        --groups_;
        return true;
    }
    return false;
  }

  bool LengthDelimited(const Descriptor& descriptor, std::uint64_t number, std::string& out) {
    const auto size = reader_.ReadVarint();
    if (!size || *size > reader_.remaining()) return false;
    const FieldDescriptor* field = descriptor.FindFieldByNumber(static_cast<int>(number));
    switch (groups_ > 0 ? FieldKind::kOther : KindOf(field, descriptor)) {
      case FieldKind::kBulk:
        return Bulk(*size, out);
      case FieldKind::kMessage: {
        std::string child;
        if (!Message(*field->message_type(), *size, child)) return false;
        AppendVarint(child.size(), out);
        out += child;
        return true;
      }
      case FieldKind::kOther:
        break;
    }
    AppendVarint(*size, out);
    return Copy(*size, out);
  }

  bool Bulk(std::size_t size, std::string& out) {
    if (size == 0) {
      AppendVarint(0, out);
      return true;
    }
    const std::string placeholder = PlaceholderOf(payloads_.size());
    AppendVarint(placeholder.size(), out);
    out += placeholder;
    Payload& payload = payloads_.emplace_back();
    return reader_.Take(size,
                        [&](const std::uint8_t* data, std::size_t n) { payload.Append(data, n); });
  }

  bool Count() {
    if (++fields_ <= limits_.max_fields) return true;
    over_limit_ = absl::StrCat("has more than ", limits_.max_fields, " fields");
    return false;
  }

  bool Copy(std::size_t size, std::string& out) {
    copied_ += static_cast<std::int64_t>(size);
    if (copied_ > limits_.max_skeleton_bytes) {
      over_limit_ = absl::StrCat("has more than ", limits_.max_skeleton_bytes,
                                 " bytes beside its tensors' data");
      return false;
    }
    return reader_.Take(size, [&](const std::uint8_t* data, std::size_t n) {
      out.append(reinterpret_cast<const char*>(data), n);
    });
  }

  SliceReader reader_;
  const WireLimits& limits_;
  std::vector<Payload>& payloads_;
  std::int64_t fields_ = 0;
  std::int64_t copied_ = 0;
  int groups_ = 0;  // open ones
  std::string over_limit_;
};

// ---- Join

// A message being put together: literal bytes with payloads in between.
class Joined {
 public:
  std::string& literal() { return literal_; }
  std::int64_t size() const { return sealed_size_ + static_cast<std::int64_t>(literal_.size()); }

  void Append(const OutPayload& payload) {
    if (payload.size < kCopyBelow) {
      literal_.append(reinterpret_cast<const char*>(payload.data),
                      static_cast<std::size_t>(payload.size));
      return;
    }
    SealLiteral();
    // Released by gRPC, on whatever thread drops the last reference to the slice.
    auto* owner = new std::shared_ptr<const void>(payload.owner);
    slices_.emplace_back(
        const_cast<std::byte*>(payload.data), static_cast<std::size_t>(payload.size),
        [](void* p) { delete static_cast<std::shared_ptr<const void>*>(p); }, owner);
    sealed_size_ += payload.size;
  }

  void Append(Joined&& child) {
    if (child.slices_.empty()) {
      literal_ += child.literal_;
      return;
    }
    SealLiteral();
    for (grpc::Slice& slice : child.slices_) slices_.push_back(std::move(slice));
    sealed_size_ += child.sealed_size_;
    literal_ = std::move(child.literal_);
  }

  grpc::ByteBuffer Finish() && {
    SealLiteral();
    return grpc::ByteBuffer(slices_.data(), slices_.size());
  }

 private:
  void SealLiteral() {
    if (literal_.empty()) return;
    slices_.emplace_back(literal_);
    sealed_size_ += static_cast<std::int64_t>(literal_.size());
    literal_.clear();
  }

  std::vector<grpc::Slice> slices_;
  std::int64_t sealed_size_ = 0;
  std::string literal_;
};

// Reads bytes that protobuf itself wrote, so nothing here can fail.
class Joiner {
 public:
  explicit Joiner(std::span<const OutPayload> payloads) : payloads_(payloads) {}

  Joined Message(std::string_view in, const Descriptor& descriptor) {
    Joined out;
    while (!in.empty()) Field(in, descriptor, out);
    return out;
  }

 private:
  void Field(std::string_view& in, const Descriptor& descriptor, Joined& out) {
    const std::uint64_t tag = TakeVarint(in, out.literal());
    switch (static_cast<WireFormat::WireType>(tag & 7)) {
      case WireFormat::WIRETYPE_VARINT:
        TakeVarint(in, out.literal());
        return;
      case WireFormat::WIRETYPE_FIXED64:
        out.literal() += Take(in, 8);
        return;
      case WireFormat::WIRETYPE_FIXED32:
        out.literal() += Take(in, 4);
        return;
      case WireFormat::WIRETYPE_LENGTH_DELIMITED:
        LengthDelimited(in, tag >> 3, descriptor, out);
        return;
      case WireFormat::WIRETYPE_START_GROUP:
      case WireFormat::WIRETYPE_END_GROUP:
        return;
    }
  }

  void LengthDelimited(std::string_view& in, std::uint64_t number, const Descriptor& descriptor,
                       Joined& out) {
    std::string ignored;
    const std::string_view value = Take(in, TakeVarint(in, ignored));
    const FieldDescriptor* field = descriptor.FindFieldByNumber(static_cast<int>(number));
    switch (KindOf(field, descriptor)) {
      case FieldKind::kBulk: {
        const std::int64_t index = IndexOf(std::string(value));
        const OutPayload& payload = index < 0 ? kEmpty : payloads_[static_cast<std::size_t>(index)];
        AppendVarint(static_cast<std::uint64_t>(payload.size), out.literal());
        out.Append(payload);
        return;
      }
      case FieldKind::kMessage: {
        Joined child = Message(value, *field->message_type());
        AppendVarint(static_cast<std::uint64_t>(child.size()), out.literal());
        out.Append(std::move(child));
        return;
      }
      case FieldKind::kOther:
        break;
    }
    AppendVarint(value.size(), out.literal());
    out.literal() += value;
  }

  static std::string_view Take(std::string_view& in, std::size_t size) {
    const std::string_view taken = in.substr(0, size);
    in.remove_prefix(size);
    return taken;
  }

  // Also appends the varint, as it stands, to `copy`.
  static std::uint64_t TakeVarint(std::string_view& in, std::string& copy) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<std::uint8_t>(in.front());
      in.remove_prefix(1);
      copy.push_back(static_cast<char>(byte));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }

  static const OutPayload kEmpty;
  std::span<const OutPayload> payloads_;
};

const OutPayload Joiner::kEmpty;

}  // namespace

void Payload::Append(const std::uint8_t* data, std::size_t size) {
  ranges_.emplace_back(data, size);
  size_ += static_cast<std::int64_t>(size);
}

void Payload::CopyTo(std::byte* destination) const {
  for (const auto& range : ranges_) {
    std::memcpy(destination, range.data(), range.size());
    destination += range.size();
  }
}

absl::StatusOr<SplitMessage> SplitBulk(const grpc::ByteBuffer& buffer, const Descriptor& descriptor,
                                       const WireLimits& limits) {
  SplitMessage split;
  // Dump fails where a compressed message does not decompress.
  if (buffer.Dump(&split.slices).ok()) {
    Splitter splitter(split.slices, limits, split.payloads);
    if (splitter.Message(descriptor, buffer.Length(), split.skeleton)) return split;
    if (!splitter.over_limit().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the ", descriptor.full_name(), " message ", splitter.over_limit()));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the request is not a valid ", descriptor.full_name(), " message"));
}

std::string PlaceholderOf(std::size_t index) {
  const auto value = static_cast<std::uint32_t>(index);
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::int64_t IndexOf(const std::string& placeholder) {
  std::uint32_t value = 0;
  if (placeholder.size() != sizeof(value)) return -1;
  std::memcpy(&value, placeholder.data(), sizeof(value));
  return value;
}

grpc::ByteBuffer JoinBulk(const google::protobuf::Message& skeleton,
                          std::span<const OutPayload> payloads) {
  return Joiner(payloads).Message(skeleton.SerializeAsString(), *skeleton.GetDescriptor()).Finish();
}

}  // namespace factord

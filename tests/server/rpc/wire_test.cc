#include "server/rpc/wire.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "factord/v1/factord.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using google::protobuf::util::MessageDifferencer;

const WireLimits kLimits = WireLimits::ForTensors(16);

grpc::ByteBuffer BufferOf(const std::string& bytes, std::size_t slice_bytes = SIZE_MAX) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += slice_bytes)
    slices.emplace_back(bytes.substr(at, slice_bytes));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

std::string TextOf(const Payload& payload) {
  std::string text(static_cast<std::size_t>(payload.size()), '\0');
  payload.CopyTo(reinterpret_cast<std::byte*>(text.data()));
  return text;
}

v1::Tensor TensorOf(const std::string& data) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.add_dims(3);
  tensor.add_dims(7);
  tensor.set_data(data);
  return tensor;
}

// The message with its placeholders resolved: what a stock parser would have made of the bytes.
void Resolve(const SplitMessage& split, v1::FactorizeRequest& request) {
  for (v1::Tensor& tensor : *request.mutable_a()) {
    if (const auto index = IndexOf(tensor.data()); index >= 0) {
      tensor.set_data(TextOf(split.payloads[static_cast<std::size_t>(index)]));
    }
  }
}

TEST(SplitBulk, SetsBulkAsideAndKeepsTheRest) {
  v1::FactorizeRequest request;
  *request.add_a() = TensorOf("first matrix");
  *request.add_a() = TensorOf("");
  *request.add_a() = TensorOf(std::string(100'000, 'x'));
  request.mutable_qr()->set_r(true);

  const auto split = SplitBulk(BufferOf(request.SerializeAsString()),
                               *v1::FactorizeRequest::descriptor(), kLimits);

  ASSERT_TRUE(split.ok()) << split.status();
  ASSERT_EQ(split->payloads.size(), 2);
  EXPECT_EQ(TextOf(split->payloads[0]), "first matrix");
  EXPECT_EQ(split->payloads[1].size(), 100'000);
  EXPECT_LT(split->skeleton.size(), 100);
}

TEST(SplitBulk, AgreesWithProtobufWhereverSlicesEnd) {
  v1::FactorizeRequest request;
  *request.add_a() = TensorOf("some bytes of a matrix");
  *request.add_a() = TensorOf("more");
  request.mutable_run()->set_reproducible(true);
  const std::string bytes = request.SerializeAsString();

  for (std::size_t slice_bytes = 1; slice_bytes <= bytes.size(); ++slice_bytes) {
    const auto split =
        SplitBulk(BufferOf(bytes, slice_bytes), *v1::FactorizeRequest::descriptor(), kLimits);
    ASSERT_TRUE(split.ok());
    v1::FactorizeRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(split->skeleton));
    Resolve(*split, parsed);
    ASSERT_TRUE(MessageDifferencer::Equals(parsed, request)) << "slices of " << slice_bytes;
  }
}

TEST(SplitBulk, RepeatedSingularField_LastOneWins) {
  // Two serializations one after the other are a merge, by protobuf's rules.
  v1::StreamRequest first, second;
  first.mutable_chunk()->set_data("old");
  second.mutable_chunk()->set_data("new");

  const auto split = SplitBulk(BufferOf(first.SerializeAsString() + second.SerializeAsString()),
                               *v1::StreamRequest::descriptor(), kLimits);

  ASSERT_TRUE(split.ok());
  v1::StreamRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(split->skeleton));
  EXPECT_EQ(TextOf(split->payloads[static_cast<std::size_t>(IndexOf(parsed.chunk().data()))]),
            "new");
}

TEST(SplitBulk, UnknownFieldsPass) {
  v1::StreamRequest request;
  request.mutable_chunk()->set_request_id("id");
  std::string bytes = request.SerializeAsString();
  bytes += std::string("\xa2\x06\x03", 3) + "abc";             // field 100, bytes
  bytes += std::string("\xa8\x06\x96\x01", 4);                 // field 101, varint
  bytes += std::string("\xab\x06\x08\x01\xac\x06", 6);         // field 101, a group
  bytes += std::string("\xb1\x06", 2) + std::string(8, '\1');  // field 102, fixed64

  const auto split = SplitBulk(BufferOf(bytes), *v1::StreamRequest::descriptor(), kLimits);

  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->skeleton, bytes);
}

TEST(SplitBulk, TruncatedMessage_IsRefusedOrWhatProtobufMakesOfIt) {
  v1::FactorizeRequest request;
  *request.add_a() = TensorOf("some bytes of a matrix");
  request.mutable_qr()->set_q(v1::Q_MODE_REDUCED);
  const std::string bytes = request.SerializeAsString();

  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    const auto split = SplitBulk(BufferOf(cut), *v1::FactorizeRequest::descriptor(), kLimits);
    v1::FactorizeRequest stock, ours;
    const bool stock_parses = stock.ParseFromString(cut);
    ASSERT_EQ(split.ok() && ours.ParseFromString(split->skeleton), stock_parses)
        << "cut at " << size;
    if (!stock_parses) continue;
    Resolve(*split, ours);
    EXPECT_TRUE(MessageDifferencer::Equals(ours, stock));
  }
}

TEST(SplitBulk, RandomBytes_AgreeWithProtobuf) {
  const unsigned seed = 20261130;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  v1::FactorizeRequest request;
  *request.add_a() = TensorOf("some bytes of a matrix");
  *request.add_a() = TensorOf("other");
  request.mutable_qr()->set_r(true);
  const std::string good = request.SerializeAsString();
  int parsed = 0;

  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (unsigned flips = 1 + random() % 3; flips > 0; --flips)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto split =
        SplitBulk(BufferOf(bytes, 1 + random() % 20), *v1::FactorizeRequest::descriptor(), kLimits);
    v1::FactorizeRequest stock, ours;
    const bool stock_parses = stock.ParseFromString(bytes);
    ASSERT_EQ(split.ok() && ours.ParseFromString(split->skeleton), stock_parses)
        << "round " << round;
    if (!stock_parses) continue;
    ++parsed;
    Resolve(*split, ours);
    ASSERT_TRUE(MessageDifferencer::Equals(ours, stock)) << "round " << round;
  }
  EXPECT_GT(parsed, 1000);
}

TEST(SplitBulk, FieldInsideAnUnknownGroup_IsNotOurs) {
  // Group 1000 holding a field 1 that would be no valid Tensor.
  const std::string bytes("\xc3\x3e\x0a\x01\xff\xc4\x3e", 7);

  const auto split = SplitBulk(BufferOf(bytes), *v1::FactorizeRequest::descriptor(), kLimits);

  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->skeleton, bytes);
  EXPECT_TRUE(v1::FactorizeRequest().ParseFromString(split->skeleton));
}

TEST(SplitBulk, MoreFieldsThanTheLimit_AreRefusedUnparsed) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += std::string("\x0a\x00", 2);  // empty tensors

  const auto split =
      SplitBulk(BufferOf(bytes), *v1::FactorizeRequest::descriptor(), {.max_fields = 4999});

  EXPECT_THAT(std::string(split.status().message()), testing::HasSubstr("more than 4999 fields"));
  EXPECT_TRUE(
      SplitBulk(BufferOf(bytes), *v1::FactorizeRequest::descriptor(), {.max_fields = 5000}).ok());
}

TEST(SplitBulk, MoreBytesBesideTheData_AreRefusedUnparsed) {
  v1::FactorizeRequest request;
  for (int i = 0; i < 100'000; ++i) request.add_a()->add_dims(1);
  request.mutable_a(0)->mutable_dims()->Resize(100'000, 1);

  const auto split =
      SplitBulk(BufferOf(request.SerializeAsString()), *v1::FactorizeRequest::descriptor(),
                {.max_skeleton_bytes = 1000, .max_fields = 1'000'000});

  EXPECT_THAT(std::string(split.status().message()),
              testing::HasSubstr("more than 1000 bytes beside"));
}

TEST(JoinBulk, GivesTheBytesProtobufWouldWrite) {
  const std::string small = "small", large(1 << 20, 'y');
  v1::FactorizeResponse expected, skeleton;
  for (v1::FactorizeResponse* response : {&expected, &skeleton}) {
    const bool real = response == &expected;
    v1::QrFactors& factors = *response->add_qr();
    *factors.mutable_q() = TensorOf(real ? large : PlaceholderOf(0));
    *factors.mutable_r() = TensorOf(real ? small : PlaceholderOf(1));
    *factors.mutable_tau() = TensorOf("");
    factors.add_statuses()->set_index(77);
    response->mutable_report()->set_path("lapack");
  }
  const auto at = [](const std::string& s) { return reinterpret_cast<const std::byte*>(s.data()); };
  const std::vector<OutPayload> payloads = {
      {at(large), static_cast<std::int64_t>(large.size()), nullptr},
      {at(small), static_cast<std::int64_t>(small.size()), nullptr}};

  EXPECT_EQ(BytesOf(JoinBulk(skeleton, payloads)), expected.SerializeAsString());
}

TEST(JoinBulk, LargePayloadIsNotCopied_AndReleasedWithTheBuffer) {
  auto owner = std::make_shared<std::string>(1 << 20, 'z');
  v1::StreamResponse skeleton;
  skeleton.mutable_chunk()->set_data(PlaceholderOf(0));
  const OutPayload payload{reinterpret_cast<const std::byte*>(owner->data()), 1 << 20, owner};
  {
    grpc::ByteBuffer buffer = JoinBulk(skeleton, {&payload, 1});
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer.Dump(&slices).ok());
    EXPECT_TRUE(std::any_of(slices.begin(), slices.end(), [&](const grpc::Slice& slice) {
      return slice.begin() == reinterpret_cast<const std::uint8_t*>(owner->data());
    }));
    EXPECT_EQ(owner.use_count(), 3);
  }
  EXPECT_EQ(owner.use_count(), 2);
}

}  // namespace
}  // namespace factord

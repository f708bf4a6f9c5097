#include "server/rpc/upload.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"

namespace factord {
namespace {

using testing::HasSubstr;

// Two tensors of 48 and 16 bytes; the first one's data came with the Start if `first_inline`.
DecodedRequest TwoTensors(bool first_inline = false) {
  DecodedRequest request;
  request.items.resize(2);
  request.inputs = {{.item = 0, .bytes = 48, .payload = first_inline ? 0 : -1},
                    {.item = 1, .bytes = 16}};
  return request;
}

v1::Chunk ChunkAt(int tensor, std::int64_t offset) {
  v1::Chunk chunk;
  chunk.set_tensor(tensor);
  chunk.set_offset(offset);
  return chunk;
}

void ExpectInvalid(const absl::Status& status, const std::string& field, const std::string& text) {
  EXPECT_EQ(FieldOf(status).value_or("none"), field);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(Upload, CompleteWhenEveryByteIsHere_TensorsInAnyOrder) {
  const DecodedRequest request = TwoTensors();
  Upload upload(request);
  EXPECT_TRUE(upload.Add(ChunkAt(1, 0), 16).ok());
  EXPECT_TRUE(upload.Add(ChunkAt(0, 0), 40).ok());
  EXPECT_FALSE(upload.complete());
  EXPECT_EQ(upload.Progress(), "56 of 64 bytes");
  EXPECT_TRUE(upload.Add(ChunkAt(0, 40), 8).ok());
  EXPECT_TRUE(upload.complete());
}

TEST(Upload, InlineDataCounts) {
  const DecodedRequest request = TwoTensors(/*first_inline=*/true);
  Upload upload(request);
  ExpectInvalid(upload.Add(ChunkAt(0, 0), 8), "chunk.offset",
                "is 0; 48 bytes of a[0] have arrived");
  EXPECT_TRUE(upload.Add(ChunkAt(1, 0), 16).ok());
  EXPECT_TRUE(upload.complete());
}

TEST(Upload, ChunksThatDoNotFit_AreRefused) {
  const DecodedRequest request = TwoTensors();
  Upload upload(request);
  ASSERT_TRUE(upload.Add(ChunkAt(0, 0), 8).ok());
  ExpectInvalid(upload.Add(ChunkAt(0, 0), 8), "chunk.offset", "is 0; 8 bytes");    // duplicated
  ExpectInvalid(upload.Add(ChunkAt(0, 16), 8), "chunk.offset", "is 16; 8 bytes");  // out of order
  ExpectInvalid(upload.Add(ChunkAt(0, 8), 41), "chunk.data", "ends at byte 49");   // too long
  ExpectInvalid(upload.Add(ChunkAt(2, 0), 8), "chunk.tensor", "is 2; the request has 2");
  ExpectInvalid(upload.Add(ChunkAt(-1, 0), 8), "chunk.tensor", "is -1");
  EXPECT_EQ(upload.Progress(), "8 of 64 bytes");
}

TEST(Upload, NothingToUpload_IsCompleteAtOnce) {
  const DecodedRequest request;
  EXPECT_TRUE(Upload(request).complete());
}

}  // namespace
}  // namespace factord

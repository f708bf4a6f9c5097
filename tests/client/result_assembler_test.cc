#include "client/result_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/tensor.h"

namespace factord::client {
namespace {

using ::testing::HasSubstr;

// A response of one R with 2x2 floats.
v1::StreamResult Header() {
  v1::StreamResult header;
  SetTensorShape({v1::DTYPE_F32, {2, 2}, v1::LAYOUT_ROW_MAJOR, {}},
                 header.mutable_factorize()->add_qr()->mutable_r());
  return header;
}

v1::Chunk MakeChunk(int tensor, int64_t offset, const std::string& data) {
  v1::Chunk chunk;
  chunk.set_tensor(tensor);
  chunk.set_offset(offset);
  chunk.set_data(data);
  return chunk;
}

// One that has its header.
ResultAssembler Started() {
  ResultAssembler assembler;
  v1::StreamResult header = Header();
  EXPECT_TRUE(assembler.AddHeader(&header).ok());
  return assembler;
}

void ExpectContradiction(const absl::Status& status, const std::string& part) {
  EXPECT_TRUE(absl::IsInternal(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(ResultAssembler, PutsChunksInPlaceInAnyOrder) {
  ResultAssembler assembler = Started();
  ASSERT_TRUE(assembler.AddChunk(MakeChunk(0, 10, "klmnop")).ok());
  ASSERT_TRUE(assembler.AddChunk(MakeChunk(0, 0, "abcdefghij")).ok());

  v1::StreamResult done = Header();
  const absl::StatusOr<v1::StreamResult> result = assembler.Finish(&done);

  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->factorize().qr(0).r().data(), "abcdefghijklmnop");
}

TEST(ResultAssembler, CountsBytes) {
  ResultAssembler assembler = Started();
  ASSERT_TRUE(assembler.AddChunk(MakeChunk(0, 3, "abc")).ok());
  EXPECT_EQ(assembler.total_bytes(), 16);
  EXPECT_EQ(assembler.received_bytes(), 3);
}

TEST(ResultAssembler, MissingBytes_NamesBothNumbers) {
  ResultAssembler assembler = Started();
  ASSERT_TRUE(assembler.AddChunk(MakeChunk(0, 0, "abc")).ok());
  v1::StreamResult done = Header();
  ExpectContradiction(assembler.Finish(&done).status(), "3 bytes of tensor 0, not 16");
}

TEST(ResultAssembler, ChunkPastTheEnd_IsRefused) {
  ResultAssembler assembler = Started();
  ExpectContradiction(assembler.AddChunk(MakeChunk(0, 14, "abc")),
                      "a chunk of 3 bytes at 14 of tensor 0, which has 16 bytes");
}

TEST(ResultAssembler, HugeOffset_IsRefused) {
  ResultAssembler assembler = Started();
  ExpectContradiction(assembler.AddChunk(MakeChunk(0, INT64_MAX, "abc")), "a chunk of 3 bytes");
}

TEST(ResultAssembler, NegativeOffset_IsRefused) {
  ResultAssembler assembler = Started();
  ExpectContradiction(assembler.AddChunk(MakeChunk(0, -1, "abc")), "at -1 of tensor 0");
}

TEST(ResultAssembler, UnknownTensor_IsRefused) {
  ResultAssembler assembler = Started();
  ExpectContradiction(assembler.AddChunk(MakeChunk(1, 0, "abc")),
                      "a chunk of tensor 1, and the header has 1");
}

TEST(ResultAssembler, ChunkBeforeHeader_IsRefused) {
  ResultAssembler assembler;
  ExpectContradiction(assembler.AddChunk(MakeChunk(0, 0, "abc")), "the header has 0");
}

TEST(ResultAssembler, SecondHeader_IsRefused) {
  ResultAssembler assembler = Started();
  v1::StreamResult header = Header();
  ExpectContradiction(assembler.AddHeader(&header), "a second header");
}

TEST(ResultAssembler, DoneWithOtherTensors_IsRefused) {
  ResultAssembler assembler = Started();
  v1::StreamResult done;
  ExpectContradiction(assembler.Finish(&done).status(), "done lists 0 tensors, the header 1");
}

TEST(ResultAssembler, DoneWithOtherDims_IsRefused) {
  ResultAssembler assembler = Started();
  ASSERT_TRUE(assembler.AddChunk(MakeChunk(0, 0, "abcdefghijklmnop")).ok());
  v1::StreamResult done = Header();
  done.mutable_factorize()->mutable_qr(0)->mutable_r()->set_dims(0, 3);
  ExpectContradiction(assembler.Finish(&done).status(), "16 bytes of tensor 0, and done says 24");
}

}  // namespace
}  // namespace factord::client

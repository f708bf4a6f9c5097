#include "client/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/client/test_matrices.h"
#include "tests/support/temporary_folder.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of the given version with this header text and data.
std::string Npy(int version, const std::string& header, const std::string& data) {
  std::string file = absl::StrCat(std::string("\x93NUMPY", 6),
                                  std::string(1, static_cast<char>(version)), std::string(1, '\0'));
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) {
    file.push_back(static_cast<char>(header.size() >> (8 * i)));
  }
  return absl::StrCat(file, header, data);
}

std::string Header(const std::string& descr, const std::string& order, const std::string& shape) {
  return absl::StrCat("{'descr': '", descr, "', 'fortran_order': ", order, ", 'shape': ", shape,
                      ", }\n");
}

std::string Message(const absl::StatusOr<Matrices>& result) {
  return std::string(result.status().message());
}

class NpyRoundTrip : public ::testing::TestWithParam<v1::DType> {};

TEST_P(NpyRoundTrip, KeepsRowMajorBatch) {
  const Matrices original = RandomMatrices(GetParam(), {3, 4, 2}, /*seed=*/1);

  const absl::StatusOr<Matrices> read = ParseNpy("a.npy", FormatNpy(original));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dtype, original.dtype);
  EXPECT_EQ(read->dims, original.dims);
  EXPECT_EQ(read->layout, v1::LAYOUT_ROW_MAJOR);
  EXPECT_EQ(read->data, original.data);
}

TEST_P(NpyRoundTrip, KeepsColumnMajorMatrix) {
  const Matrices original = RandomMatrices(GetParam(), {4, 3}, /*seed=*/2, v1::LAYOUT_COLUMN_MAJOR);

  const absl::StatusOr<Matrices> read = ParseNpy("a.npy", FormatNpy(original));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->layout, v1::LAYOUT_COLUMN_MAJOR);
  EXPECT_EQ(read->data, original.data);
}

INSTANTIATE_TEST_SUITE_P(AllTypes, NpyRoundTrip,
                         ::testing::Values(v1::DTYPE_F32, v1::DTYPE_F64, v1::DTYPE_C64,
                                           v1::DTYPE_C128),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

TEST(Npy, WritesTheBytesThatNumPyWrites) {
  const std::string file = FormatNpy(MakeMatrices(v1::DTYPE_F32, {1, 2}, {1, 2}));

  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
  EXPECT_EQ(file.size(), 128u + 8u);
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(file.substr(10, header.size()), header);
  EXPECT_EQ(file[127], '\n');
}

TEST(Npy, WritesOneDimAsATuple) {
  EXPECT_THAT(FormatNpy(MakeMatrices(v1::DTYPE_F64, {2}, {1, 2})), HasSubstr("'shape': (2,), }"));
}

TEST(Npy, WritesColumnMajorBatchInCOrder) {
  // Two 2x2 matrices, [1 3; 2 4] and [5 7; 6 8].
  const Matrices batch =
      MakeMatrices(v1::DTYPE_F64, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, v1::LAYOUT_COLUMN_MAJOR);

  const absl::StatusOr<Matrices> read = ParseNpy("a.npy", FormatNpy(batch));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(ValuesOf(*read), ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
}

TEST(Npy, ReadsFortranOrderedBatchAsRowMajor) {
  // numpy.asfortranarray(numpy.arange(12).reshape(2, 2, 3)) in memory.
  const Matrices in_memory =
      MakeMatrices(v1::DTYPE_F64, {12}, {0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11});

  const absl::StatusOr<Matrices> read =
      ParseNpy("a.npy", Npy(1, Header("<f8", "True", "(2, 2, 3)"), in_memory.data));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->layout, v1::LAYOUT_ROW_MAJOR);
  EXPECT_THAT(ValuesOf(*read), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(Npy, ReadsVersion2) {
  EXPECT_TRUE(ParseNpy("a", Npy(2, Header("<f8", "False", "(1, 1)"), std::string(8, '\0'))).ok());
}

TEST(Npy, ReadsVersion3) {
  EXPECT_TRUE(ParseNpy("a", Npy(3, Header("<f8", "False", "(1, 1)"), std::string(8, '\0'))).ok());
}

TEST(Npy, ReadsKeysInAnyOrder) {
  const std::string header = "{\"shape\": (1L, 1L), \"fortran_order\": False, \"descr\": \"<f8\"}";
  EXPECT_TRUE(ParseNpy("a", Npy(1, header, std::string(8, '\0'))).ok());
}

TEST(Npy, PromotesIntegersToF64) {
  const std::string data("\xff\xff\x02\x00", 4);

  const absl::StatusOr<Matrices> read =
      ParseNpy("a", Npy(1, Header("<i2", "False", "(1, 2)"), data));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->dtype, v1::DTYPE_F64);
  EXPECT_THAT(ValuesOf(*read), ElementsAre(-1, 2));
}

TEST(Npy, PromotesBooleansToF64) {
  const absl::StatusOr<Matrices> read =
      ParseNpy("a", Npy(1, Header("|b1", "False", "(1, 2)"), std::string("\x00\x01", 2)));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(ValuesOf(*read), ElementsAre(0, 1));
}

TEST(Npy, ReadsEmptyArray) {
  const absl::StatusOr<Matrices> read = ParseNpy("a", Npy(1, Header("<f4", "False", "(0, 5)"), ""));

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->dims, ElementsAre(0, 5));
}

TEST(Npy, OtherFile_NamesMagic) {
  EXPECT_EQ(Message(ParseNpy("a.npy", "PK zip")),
            "a.npy: byte 0: expected \\x93NUMPY, an .npy file's first bytes");
}

TEST(Npy, Version4_NamesByteAndVersion) {
  EXPECT_EQ(Message(ParseNpy("a.npy", Npy(4, "{}", ""))),
            "a.npy: byte 6: expected version 1, 2 or 3, not 4");
}

TEST(Npy, TruncatedHeader_NamesBothLengths) {
  const std::string file = Npy(1, Header("<f8", "False", "(1, 1)"), "").substr(0, 20);
  EXPECT_EQ(Message(ParseNpy("a.npy", file)),
            "a.npy: byte 8: expected a header of 60 bytes, but the file ends at 20");
}

TEST(Npy, TruncatedInTheLength_IsAnError) {
  const std::string file = Npy(1, Header("<f8", "False", "(1, 1)"), "").substr(0, 9);
  EXPECT_THAT(Message(ParseNpy("a.npy", file)), HasSubstr("the file ends at 9"));
}

TEST(Npy, MissingKey_IsNamed) {
  EXPECT_EQ(Message(ParseNpy("a.npy", Npy(1, "{'descr': '<f8'}", ""))),
            "a.npy: byte 26: expected a header with descr, fortran_order and shape");
}

TEST(Npy, UnknownKey_IsNamed) {
  EXPECT_THAT(Message(ParseNpy("a.npy", Npy(1, "{'order': 1}", ""))),
              HasSubstr("descr, fortran_order or shape before this, not 'order'"));
}

TEST(Npy, Records_AreRefused) {
  EXPECT_THAT(Message(ParseNpy("a.npy", Npy(1, "{'descr': [('x', '<f8')]}", ""))),
              HasSubstr("byte 20: expected a simple type such as '<f8'"));
}

TEST(Npy, BigEndian_NamesTheType) {
  EXPECT_THAT(
      Message(ParseNpy("a.npy", Npy(1, Header(">f8", "False", "(1,)"), std::string(8, '\0')))),
      HasSubstr("a.npy: the type is '>f8', expected '<f4'"));
}

TEST(Npy, HalfPrecision_NamesTheType) {
  EXPECT_THAT(Message(ParseNpy("a.npy", Npy(1, Header("<f2", "False", "(1,)"), "xx"))),
              HasSubstr("the type is '<f2'"));
}

TEST(Npy, TooFewBytes_NamesBothNumbers) {
  EXPECT_EQ(Message(ParseNpy("a.npy", Npy(1, Header("<f8", "False", "(2, 3)"), "12345"))),
            "a.npy: byte 70: expected 48 bytes for 2x3 of '<f8', but 5 follow");
}

TEST(Npy, TooManyBytes_IsAnError) {
  EXPECT_THAT(Message(ParseNpy("a.npy", Npy(1, Header("<f4", "False", "(1,)"), "12345"))),
              HasSubstr("expected 4 bytes"));
}

TEST(Npy, OverflowingShape_IsAnError) {
  const std::string shape = "(4294967296, 4294967296)";
  EXPECT_THAT(Message(ParseNpy("a.npy", Npy(1, Header("<f8", "False", shape), ""))),
              HasSubstr("more than 2^63 - 1 bytes"));
}

TEST(Npy, DimAbove63Bits_IsAnError) {
  EXPECT_THAT(
      Message(ParseNpy("a.npy", Npy(1, Header("<f8", "False", "(9223372036854775808,)"), ""))),
      HasSubstr("expected a tuple of sizes"));
}

TEST(Npy, MissingFile_NamesThePath) {
  const absl::StatusOr<Matrices> read = ReadNpy("/nowhere/a.npy");
  EXPECT_TRUE(absl::IsNotFound(read.status()));
  EXPECT_THAT(Message(read), HasSubstr("/nowhere/a.npy: can not be opened"));
}

TEST(Npy, FileRoundTrip_KeepsData) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "matrices.npy";
  const Matrices original = RandomMatrices(v1::DTYPE_C128, {200, 100}, /*seed=*/3);

  ASSERT_TRUE(WriteNpy(path, original).ok());
  const absl::StatusOr<Matrices> read = ReadNpy(path);

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->data, original.data);
}

}  // namespace
}  // namespace factord::client

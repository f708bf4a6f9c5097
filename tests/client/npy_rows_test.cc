#include "client/npy_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "client/file_io.h"
#include "client/npy.h"
#include "tests/client/test_matrices.h"
#include "tests/support/temporary_folder.h"

namespace factord::client {
namespace {

using ::testing::HasSubstr;

class NpyRowsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& contents) {
    EXPECT_TRUE(WriteFile(folder_ / "a.npy", contents).ok());
    return folder_ / "a.npy";
  }

  std::unique_ptr<NpyRows> Open(const std::string& path) {
    absl::StatusOr<std::unique_ptr<NpyRows>> rows = NpyRows::Open(path);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return *std::move(rows);
  }

  std::string ErrorOf(const std::string& contents) {
    return std::string(NpyRows::Open(Write(contents)).status().message());
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(NpyRowsTest, Pieces_AreTheRowsOfBothOrders) {
  for (v1::Layout layout : {v1::LAYOUT_ROW_MAJOR, v1::LAYOUT_COLUMN_MAJOR}) {
    const Matrices a = RandomMatrices(v1::DTYPE_C64, {5, 3}, /*seed=*/1, layout);
    const std::unique_ptr<NpyRows> rows = Open(Write(FormatNpy(a)));

    EXPECT_EQ(rows->dtype(), v1::DTYPE_C64);
    EXPECT_EQ(rows->rows(), 5);
    EXPECT_EQ(rows->columns(), 3);
    for (int64_t first : {3, 0}) {  // in any order
      const absl::StatusOr<Matrices> block = rows->Read(first, 2);
      ASSERT_TRUE(block.ok()) << block.status();
      for (int64_t i = 0; i < 2; ++i) {
        for (int64_t j = 0; j < 3; ++j) {
          EXPECT_EQ(GetElement(block->dtype, i * 3 + j, block->data),
                    GetElement(a.dtype, ElementIndex(layout, {1, 5, 3}, 0, first + i, j), a.data));
        }
      }
    }
  }
}

TEST_F(NpyRowsTest, Integers_BecomeF64) {
  Matrices a = MakeMatrices(v1::DTYPE_F32, {1, 2}, {0, 0});
  a.data = std::string("\x01\0\0\0\xfe\xff\xff\xff", 8);
  std::string contents = FormatNpy(a);
  contents.replace(contents.find("<f4"), 3, "<i4");
  const std::unique_ptr<NpyRows> rows = Open(Write(contents));

  const absl::StatusOr<Matrices> block = rows->Read(0, 1);

  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ(block->dtype, v1::DTYPE_F64);
  EXPECT_EQ(ValuesOf(*block), (std::vector<std::complex<double>>{1, -2}));
}

TEST_F(NpyRowsTest, NoRows_AreRead) {
  const std::unique_ptr<NpyRows> rows =
      Open(Write(FormatNpy(MakeMatrices(v1::DTYPE_F64, {0, 4}, {}))));
  EXPECT_EQ(rows->rows(), 0);
  EXPECT_TRUE(rows->Read(0, 0).ok());
}

TEST_F(NpyRowsTest, WhatIsNoSuchFile_IsNamed) {
  const std::string good = FormatNpy(RandomMatrices(v1::DTYPE_F64, {2, 2}, /*seed=*/2));
  EXPECT_THAT(ErrorOf(good.substr(0, good.size() - 1)), HasSubstr("expected 32 bytes for 2x2"));
  EXPECT_THAT(ErrorOf("text"), HasSubstr("expected \\x93NUMPY"));
  EXPECT_THAT(ErrorOf(FormatNpy(RandomMatrices(v1::DTYPE_F64, {1, 2, 2}, /*seed=*/3))),
              HasSubstr("1x2x2 has 3 dims, expected 2"));
  std::string big_endian = good;
  big_endian.replace(big_endian.find("<f8"), 3, ">f8");
  EXPECT_THAT(ErrorOf(big_endian), HasSubstr("the type is '>f8'"));
}

TEST_F(NpyRowsTest, MissingFile_IsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(NpyRows::Open(folder_ / "none.npy").status()));
}

}  // namespace
}  // namespace factord::client

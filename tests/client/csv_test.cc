#include "client/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/test_matrices.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;

std::string Error(const std::string& contents) {
  return std::string(ParseCsv("t.csv", contents).status().message());
}

TEST(Csv, ReadsRowsWithoutHeader) {
  const absl::StatusOr<CsvTable> table = ParseCsv("t.csv", "1,2\n3,-4.5e1\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->names.empty());
  EXPECT_THAT(table->values, ElementsAre(1, 2, 3, -45));
}

TEST(Csv, ReadsHeaderByItself) {
  const absl::StatusOr<CsvTable> table = ParseCsv("t.csv", "price,area\n1,2\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names, ElementsAre("price", "area"));
  EXPECT_EQ(table->row_count, 1);
}

TEST(Csv, ReadsQuotedNames) {
  const absl::StatusOr<CsvTable> table = ParseCsv("t.csv", "\"a, \"\"b\"\"\" , c\n\"1\",2\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->names, ElementsAre("a, \"b\"", "c"));
  EXPECT_THAT(table->values, ElementsAre(1, 2));
}

TEST(Csv, SkipsByteOrderMarkEmptyLinesAndCrLf) {
  const absl::StatusOr<CsvTable> table = ParseCsv("t.csv",
                                                  "\xef\xbb\xbf"
                                                  "1,2\r\n\r\n3,4");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->values, ElementsAre(1, 2, 3, 4));
}

TEST(Csv, RaggedRow_NamesLineAndCounts) {
  EXPECT_EQ(Error("a,b\n1,2\n3\n"),
            "t.csv: line 3: expected 2 fields, as in the first line, not 1");
}

TEST(Csv, EmptyField_NamesLineAndColumn) {
  EXPECT_EQ(Error("1,2\n3,\n"), "t.csv: line 2: expected a number in column 1, not ''");
}

TEST(Csv, OpenQuote_NamesLine) {
  EXPECT_EQ(Error("1,\"2\n"), "t.csv: line 1: expected every quote closed before the next comma");
}

TEST(Csv, HeaderOnly_IsAnError) {
  EXPECT_EQ(Error("a,b\n"), "t.csv: line 1: expected at least one row of numbers");
}

TEST(Csv, FindsColumnByName) { EXPECT_EQ(*FindColumn(*ParseCsv("t.csv", "a,b\n1,2\n"), "b"), 1); }

TEST(Csv, FindsColumnByNumber) { EXPECT_EQ(*FindColumn(*ParseCsv("t.csv", "1,2\n"), "1"), 1); }

TEST(Csv, NameWinsOverNumber) { EXPECT_EQ(*FindColumn(*ParseCsv("t.csv", "x,0\n1,2\n"), "0"), 1); }

TEST(Csv, UnknownColumn_ListsThoseThereAre) {
  EXPECT_EQ(FindColumn(*ParseCsv("t.csv", "a,b\n1,2\n"), "c").status().message(),
            "t.csv: no column 'c', expected 0..1 (a, b)");
}

TEST(Csv, SelectsRows) {
  EXPECT_THAT(SelectRows(*ParseCsv("t.csv", "1\n2\n3\n4\n"), 1, 3)->values, ElementsAre(2, 3));
}

TEST(Csv, RowsOutOfRange_NamesBothRanges) {
  EXPECT_EQ(SelectRows(*ParseCsv("t.csv", "1\n2\n"), 1, 3).status().message(),
            "t.csv: no rows 1:3, expected some of 0:2");
}

TEST(Csv, ColumnsBecomeARowMajorMatrix) {
  const Matrices matrix =
      ColumnsToMatrix(*ParseCsv("t.csv", "1,2,3\n4,5,6\n"), {2, 0}, /*intercept=*/false);
  EXPECT_THAT(matrix.dims, ElementsAre(2, 2));
  EXPECT_THAT(ValuesOf(matrix), ElementsAre(3, 1, 6, 4));
}

TEST(Csv, InterceptComesFirst) {
  EXPECT_THAT(ValuesOf(ColumnsToMatrix(*ParseCsv("t.csv", "7\n8\n"), {0}, /*intercept=*/true)),
              ElementsAre(1, 7, 1, 8));
}

}  // namespace
}  // namespace factord::client

#include "client/matrix_market.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <limits>
#include <string>

#include "tests/client/test_matrices.h"

namespace factord::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Complex = std::complex<double>;

absl::StatusOr<Matrices> Parse(const std::string& kind, const std::string& rest) {
  return ParseMatrixMarket("a.mtx", "%%MatrixMarket matrix " + kind + "\n" + rest);
}

// Column by column; empty after an error.
std::vector<Complex> Values(const std::string& kind, const std::string& rest) {
  const absl::StatusOr<Matrices> matrix = Parse(kind, rest);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return matrix.ok() ? ValuesOf(*matrix) : std::vector<Complex>();
}

std::string Error(const std::string& kind, const std::string& rest) {
  return std::string(Parse(kind, rest).status().message());
}

TEST(MatrixMarket, ReadsCoordinateReal) {
  EXPECT_THAT(Values("coordinate real general", "2 2 2\n1 1 1.5\n2 1 -2e3\n"),
              ElementsAre(1.5, -2000, 0, 0));
}

TEST(MatrixMarket, ResultIsColumnMajorF64) {
  const absl::StatusOr<Matrices> matrix = Parse("array integer general", "2 1\n3\n4\n");
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_EQ(matrix->dtype, v1::DTYPE_F64);
  EXPECT_EQ(matrix->layout, v1::LAYOUT_COLUMN_MAJOR);
  EXPECT_THAT(matrix->dims, ElementsAre(2, 1));
}

TEST(MatrixMarket, ReadsArrayByColumns) {
  EXPECT_THAT(Values("array real general", "2 2\n1\n2\n3\n4\n"), ElementsAre(1, 2, 3, 4));
}

TEST(MatrixMarket, ReadsPatternAsOnes) {
  EXPECT_THAT(Values("coordinate pattern general", "2 2 1\n2 1\n"), ElementsAre(0, 1, 0, 0));
}

TEST(MatrixMarket, ReadsComplex) {
  EXPECT_THAT(Values("coordinate complex general", "1 2 1\n1 2 3 -4\n"),
              ElementsAre(Complex(0, 0), Complex(3, -4)));
}

TEST(MatrixMarket, MirrorsSymmetric) {
  EXPECT_THAT(Values("coordinate real symmetric", "2 2 2\n1 1 5\n2 1 7\n"),
              ElementsAre(5, 7, 7, 0));
}

TEST(MatrixMarket, MirrorsSkewSymmetricWithMinus) {
  EXPECT_THAT(Values("coordinate real skew-symmetric", "2 2 1\n2 1 7\n"), ElementsAre(0, 7, -7, 0));
}

TEST(MatrixMarket, MirrorsHermitianWithConjugate) {
  EXPECT_THAT(Values("coordinate complex hermitian", "2 2 1\n2 1 1 2\n"),
              ElementsAre(Complex(0), Complex(1, 2), Complex(1, -2), Complex(0)));
}

TEST(MatrixMarket, SymmetricArrayHoldsTheLowerTriangle) {
  EXPECT_THAT(Values("array real symmetric", "2 2\n1\n2\n3\n"), ElementsAre(1, 2, 2, 3));
}

TEST(MatrixMarket, SkewSymmetricArrayHasNoDiagonal) {
  EXPECT_THAT(Values("array real skew-symmetric", "2 2\n5\n"), ElementsAre(0, 5, -5, 0));
}

TEST(MatrixMarket, AcceptsExplicitZeros) {
  EXPECT_THAT(Values("coordinate real general", "1 2 2\n1 1 0\n1 2 0.0\n"), ElementsAre(0, 0));
}

TEST(MatrixMarket, AddsUpEntriesGivenTwice) {
  EXPECT_THAT(Values("coordinate real general", "1 1 2\n1 1 2\n1 1 3\n"), ElementsAre(5));
}

TEST(MatrixMarket, SkipsCommentsAndEmptyLines) {
  EXPECT_THAT(Values("coordinate real general", "% a comment\n\n1 1 1\n\n% one more\n1 1 4\n\n"),
              ElementsAre(4));
}

TEST(MatrixMarket, AcceptsAnyCaseAndCrLf) {
  const absl::StatusOr<Matrices> matrix =
      ParseMatrixMarket("a.mtx", "%%matrixmarket MATRIX Array Real General\r\n1 1\r\n2\r\n");
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_THAT(ValuesOf(*matrix), ElementsAre(2));
}

TEST(MatrixMarket, ReadsEmptyMatrix) {
  const absl::StatusOr<Matrices> matrix = Parse("coordinate real general", "0 3 0\n");
  ASSERT_TRUE(matrix.ok()) << matrix.status();
  EXPECT_THAT(matrix->dims, ElementsAre(0, 3));
}

TEST(MatrixMarket, RoundTrip_KeepsExtremeNumbers) {
  const Matrices original = MakeMatrices(v1::DTYPE_C128, {1, 2},
                                         {Complex(0.1, std::numeric_limits<double>::denorm_min()),
                                          Complex(std::numeric_limits<double>::max(), -0.0)});

  const absl::StatusOr<std::string> text = FormatMatrixMarket(original);
  ASSERT_TRUE(text.ok()) << text.status();
  const absl::StatusOr<Matrices> read = ParseMatrixMarket("a.mtx", *text);

  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(ValuesOf(*read), ValuesOf(original));
}

TEST(MatrixMarket, WritesRowMajorByColumns) {
  EXPECT_EQ(*FormatMatrixMarket(MakeMatrices(v1::DTYPE_F32, {2, 2}, {1, 2, 3, 4.5})),
            "%%MatrixMarket matrix array real general\n2 2\n1\n3\n2\n4.5\n");
}

TEST(MatrixMarket, BatchCanNotBeWritten) {
  const absl::Status status =
      WriteMatrixMarket("a.mtx", MakeMatrices(v1::DTYPE_F32, {2, 1, 1}, {1, 2}));
  EXPECT_EQ(status.message(), "a.mtx: a Matrix Market file holds one matrix, and there are 2");
}

TEST(MatrixMarket, NoBanner_NamesLine1) {
  EXPECT_EQ(ParseMatrixMarket("a.mtx", "1 1\n2\n").status().message(),
            "a.mtx: line 1: expected '%%MatrixMarket matrix FORMAT FIELD SYMMETRY'");
}

TEST(MatrixMarket, UnknownFormat_IsNamed) {
  EXPECT_EQ(Error("sparse real general", ""),
            "a.mtx: line 1: expected coordinate or array, not 'sparse'");
}

TEST(MatrixMarket, PatternArray_IsRefused) {
  EXPECT_THAT(Error("array pattern general", "1 1\n"), HasSubstr("not 'pattern'"));
}

TEST(MatrixMarket, RealHermitian_IsRefused) {
  EXPECT_THAT(Error("array real hermitian", "1 1\n1\n"), HasSubstr("not 'hermitian'"));
}

TEST(MatrixMarket, BadSizes_NamesWhatIsMissing) {
  EXPECT_EQ(Error("coordinate real general", "2 2\n"),
            "a.mtx: line 2: expected rows, columns and entries");
}

TEST(MatrixMarket, NonSquareSymmetric_NamesTheSize) {
  EXPECT_EQ(Error("array real symmetric", "2 3\n"),
            "a.mtx: line 2: expected a square matrix, not 2x3");
}

TEST(MatrixMarket, RowOutOfRange_NamesLineAndBounds) {
  EXPECT_EQ(Error("coordinate real general", "2 3 1\n% comment\n3 1 1\n"),
            "a.mtx: line 4: expected a row in 1..2 and a column in 1..3, not 3 1");
}

TEST(MatrixMarket, ZeroIndex_IsRefused) {
  EXPECT_THAT(Error("coordinate real general", "2 3 1\n0 1 1\n"), HasSubstr("line 3"));
}

TEST(MatrixMarket, UpperTriangleOfSymmetric_IsRefused) {
  EXPECT_THAT(Error("coordinate real symmetric", "2 2 1\n1 2 1\n"),
              HasSubstr("line 3: expected only the lower triangle"));
}

TEST(MatrixMarket, NonzeroSkewDiagonal_IsRefused) {
  EXPECT_THAT(Error("coordinate real skew-symmetric", "2 2 1\n1 1 1\n"),
              HasSubstr("line 3: expected a zero diagonal"));
}

TEST(MatrixMarket, NotANumber_IsQuoted) {
  EXPECT_EQ(Error("coordinate real general", "1 1 1\n1 1 1,5\n"),
            "a.mtx: line 3: expected a number, not '1,5'");
}

TEST(MatrixMarket, MissingImaginaryPart_NamesBothCounts) {
  EXPECT_EQ(Error("array complex general", "1 1\n1\n"), "a.mtx: line 3: expected 2 numbers, not 1");
}

TEST(MatrixMarket, TooFewEntries_NamesBothCounts) {
  EXPECT_EQ(Error("coordinate real general", "2 2 3\n1 1 1\n"),
            "a.mtx: line 3: expected 3 entries, but the file ends after 1");
}

TEST(MatrixMarket, TooFewArrayEntries_NamesTheFirstMissing) {
  EXPECT_EQ(Error("array real general", "2 2\n1\n2\n3\n"),
            "a.mtx: line 5: expected an entry for row 2, column 2, but the file ends");
}

TEST(MatrixMarket, TooManyEntries_NamesTheLine) {
  EXPECT_EQ(Error("array real general", "1 1\n1\n2\n"), "a.mtx: line 4: expected the file's end");
}

TEST(MatrixMarket, HugeDenseSize_IsRefusedBeforeItIsAllocated) {
  EXPECT_THAT(Error("coordinate real general", "1000000000 1000000000 1\n1 1 1\n"),
              HasSubstr("elements as a dense matrix, not 1000000000x1000000000"));
}

}  // namespace
}  // namespace factord::client

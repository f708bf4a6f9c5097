#include "server/batching/bucket.h"

#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

Spec Factorize(std::int64_t m, std::int64_t n) {
  Spec spec;
  spec.m = m;
  spec.n = n;
  spec.q = QMode::kReduced;
  spec.r = true;
  return spec;
}

TEST(BucketOf, IsItsOwnRepresentative) {
  std::mt19937_64 random(1);
  const auto pick = [&random](std::uint64_t below) { return random() % below; };
  for (int i = 0; i < 20'000; ++i) {
    Spec spec;
    spec.op = static_cast<Op>(pick(kOps));
    spec.dtype = static_cast<DType>(pick(kDTypes));
    spec.layout = static_cast<Layout>(pick(2));
    spec.rhs_layout = static_cast<Layout>(pick(2));
    spec.m = static_cast<std::int64_t>(pick(70));
    spec.n = static_cast<std::int64_t>(pick(70));
    spec.p = static_cast<std::int64_t>(pick(20));
    spec.q = static_cast<QMode>(pick(3));
    spec.r = pick(2) != 0;
    spec.reflectors = pick(2) != 0;
    spec.side = static_cast<Side>(pick(2));

    const Bucket bucket = BucketOf(spec);

    ASSERT_EQ(BucketOf(bucket.spec()), bucket) << bucket.Name();
  }
}

TEST(BucketOf, PutsNearShapesTogetherAndFarOnesApart) {
  EXPECT_EQ(BucketOf(Factorize(29, 32)), BucketOf(Factorize(32, 30)));
  EXPECT_NE(BucketOf(Factorize(28, 32)), BucketOf(Factorize(32, 32)));
  EXPECT_NE(BucketOf(Factorize(0, 32)), BucketOf(Factorize(1, 32)));
  EXPECT_NE(BucketOf(Factorize(7, 7)), BucketOf(Factorize(8, 8)));
}

TEST(BucketOf, SeparatesWhateverSelectsAKernel) {
  const Spec base = Factorize(32, 32);
  std::vector<Spec> specs(9, base);
  specs[1].dtype = DType::kC64;
  specs[2].q = QMode::kComplete;
  specs[3].r = false;
  specs[4].reflectors = true;
  specs[5].sign = Sign::kNonnegative;
  specs[6].layout = Layout::kColumnMajor;
  specs[7].fast = true;
  specs[8].op = Op::kFormQ;

  std::set<Bucket> buckets;
  for (const Spec& spec : specs) buckets.insert(BucketOf(spec));

  EXPECT_EQ(buckets.size(), specs.size());
}

TEST(BucketOf, IgnoresRcond) {
  Spec solve = Factorize(32, 32);
  solve.op = Op::kSolve;
  solve.p = 1;
  Spec strict = solve;
  strict.rcond = 1e-3;

  EXPECT_EQ(BucketOf(solve), BucketOf(strict));
}

TEST(BucketOf, IgnoresTheOrderOfVectors) {
  Spec column = Factorize(500, 1);
  Spec column_major = column;
  column_major.layout = Layout::kColumnMajor;
  EXPECT_EQ(BucketOf(column), BucketOf(column_major));

  // The complete Q of a column is a matrix again.
  column.q = column_major.q = QMode::kComplete;
  EXPECT_NE(BucketOf(column), BucketOf(column_major));

  Spec solve = Factorize(500, 20);
  solve.op = Op::kSolve;
  solve.p = 1;
  Spec rhs_column_major = solve;
  rhs_column_major.rhs_layout = Layout::kColumnMajor;
  EXPECT_EQ(BucketOf(solve), BucketOf(rhs_column_major));

  solve.p = rhs_column_major.p = 2;
  EXPECT_NE(BucketOf(solve), BucketOf(rhs_column_major));
}

TEST(Bucket, HashAgreesWithEquality) {
  std::vector<Bucket> buckets;
  for (std::int64_t m : {0, 1, 9, 10, 31, 32, 33}) buckets.push_back(BucketOf(Factorize(m, 8)));

  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(buckets));
}

TEST(Bucket, NameIsForPeople) {
  EXPECT_EQ(BucketOf(Factorize(30, 32)).Name(), "factorize f32 32x32 qr");

  Spec solve = Factorize(600, 20);
  solve.op = Op::kSolve;
  solve.dtype = DType::kF64;
  solve.q = QMode::kNone;
  solve.r = false;
  solve.p = 1;
  EXPECT_EQ(BucketOf(solve).Name(), "solve f64 640x20 p1");
}

TEST(Bucket, NameIsBounded) {
  Spec longest;
  longest.op = Op::kApplyQ;
  longest.dtype = DType::kC128;
  longest.layout = longest.rhs_layout = Layout::kColumnMajor;
  longest.m = longest.n = longest.p = kMax;
  longest.side = Side::kRight;
  longest.q_op = QOp::kAdjoint;
  longest.fast = true;
  EXPECT_LE(BucketOf(longest).Name().size(), 128u);

  longest.op = Op::kFactorize;
  longest.q = QMode::kComplete;
  longest.r = longest.reflectors = true;
  longest.sign = Sign::kSpecialOrthogonal;
  longest.side = Side::kLeft;
  longest.q_op = QOp::kPlain;
  EXPECT_LE(BucketOf(longest).Name().size(), 128u);
}

}  // namespace
}  // namespace factord

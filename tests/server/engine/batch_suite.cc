// What a batch may not change: a matrix's bits depend on itself alone.
#include <cmath>
#include <complex>
#include <limits>

#include "server/core/shape_class.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"

namespace factord::testing {
namespace {

template <class T>
std::vector<std::byte> Alone(Factorizer& factorizer, const Spec& spec,
                             const std::vector<std::vector<T>>& inputs) {
  TestJob job(spec, 1);
  for (std::size_t o = 0; o < inputs.size(); ++o) job.Set(InputsOf(spec)[o], 0, inputs[o]);
  RunBatch(factorizer, {&job});
  return job.OutputBytes(0);
}

template <class T>
std::vector<std::vector<T>> RandomInputs(const Spec& spec, std::uint64_t seed) {
  std::vector<std::vector<T>> inputs;
  for (Operand operand : InputsOf(spec)) {
    const Extent extent = ExtentOf(spec, operand);
    inputs.push_back(Normal<T>(extent.rows, extent.cols, seed++));
  }
  return inputs;
}

template <class T>
std::vector<Spec> SpecsOf(std::int64_t m, std::int64_t n) {
  Spec factorize = FactorizeSpec<T>(m, n);
  Spec form = factorize;
  form.op = Op::kFormQ;
  Spec apply = factorize;
  apply.op = Op::kApplyQ;
  apply.p = 3;
  Spec solve = factorize;
  solve.op = Op::kSolve;
  solve.p = 2;
  return {factorize, form, apply, solve};
}

// Another size of the same class, where it has one: the sizes of a bucket-mate.
std::int64_t ClassMate(std::int64_t size) {
  const std::int64_t largest = RoundUpDimension(size);
  if (size < largest) return largest;
  return RoundUpDimension(size - 1) == largest ? size - 1 : size;
}

template <class T>
void CheckBatchInvariance(Factorizer& factorizer, const Spec& spec, std::int64_t count) {
  SCOPED_TRACE(::testing::Message() << Name(spec.op) << ' ' << Name(spec.dtype) << ' ' << spec.m
                                    << 'x' << spec.n << " batch " << count);
  Spec mate = spec;
  mate.m = ClassMate(spec.m);
  mate.n = ClassMate(spec.n);
  TestJob job(spec, count), other(mate, 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    const auto inputs = RandomInputs<T>(mate, 1);
    for (std::size_t o = 0; o < inputs.size(); ++o) other.Set(InputsOf(mate)[o], i, inputs[o]);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const auto inputs = RandomInputs<T>(spec, static_cast<std::uint64_t>(100 * i));
    for (std::size_t o = 0; o < inputs.size(); ++o) job.Set(InputsOf(spec)[o], i, inputs[o]);
  }
  RunBatch(factorizer, {&other, &job});
  for (std::int64_t i : {std::int64_t{0}, count / 2, count - 1}) {
    EXPECT_EQ(job.OutputBytes(i),
              Alone(factorizer, spec, RandomInputs<T>(spec, static_cast<std::uint64_t>(100 * i))))
        << i;
  }
}

TEST_P(FactorizerSuite, MatrixInABatchHasTheBitsItHasAlone) {
  for (auto [m, n] :
       {std::pair<std::int64_t, std::int64_t>{8, 8}, {7, 3}, {3, 40}, {33, 33}, {64, 20}}) {
    for (std::int64_t count :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, GetParam().many}) {
      for (const Spec& spec : SpecsOf<float>(m, n))
        CheckBatchInvariance<float>(factorizer(), spec, count);
    }
    for (const Spec& spec : SpecsOf<std::complex<double>>(m, n)) {
      CheckBatchInvariance<std::complex<double>>(factorizer(), spec, 7);
    }
  }
  // Large enough to be worked on by the whole pool when alone.
  for (const Spec& spec : SpecsOf<float>(260, 250))
    CheckBatchInvariance<float>(factorizer(), spec, 8);
}

template <class T>
void CheckIsolation(Factorizer& factorizer, const Spec& spec, T poison) {
  constexpr std::int64_t kCount = 5;
  for (std::size_t o = 0; o < InputsOf(spec).size(); ++o) {
    const Operand operand = InputsOf(spec)[o];
    const Extent extent = ExtentOf(spec, operand);
    SCOPED_TRACE(::testing::Message() << Name(spec.op) << " operand " << o);
    TestJob job(spec, kCount);
    for (std::int64_t i = 0; i < kCount; ++i) {
      auto inputs = RandomInputs<T>(spec, static_cast<std::uint64_t>(i));
      // The last entry of the first column: below the diagonal.
      if (i == 2) inputs[o][static_cast<std::size_t>(extent.rows - 1)] = poison;
      for (std::size_t p = 0; p < inputs.size(); ++p) job.Set(InputsOf(spec)[p], i, inputs[p]);
    }
    RunBatch(factorizer, {&job});
    EXPECT_EQ(job.failures(), (std::vector<MatrixFailure>{{2, MatrixCode::kNonfiniteInput}}));
    for (std::int64_t i = 0; i < kCount; ++i) {
      if (i == 2) continue;
      EXPECT_EQ(job.OutputBytes(i),
                Alone(factorizer, spec, RandomInputs<T>(spec, static_cast<std::uint64_t>(i))))
          << i;
    }
    for (Operand output : OutputsOf(spec)) {
      if (output == Operand::kRank) {
        EXPECT_EQ(job.Rank(2), -1);
      } else if (output == Operand::kResidualNorm) {
        for (auto x : job.Get<decltype(std::abs(T{}))>(output, 2)) EXPECT_TRUE(std::isnan(x));
      } else {
        for (T x : job.Get<T>(output, 2)) EXPECT_TRUE(std::isnan(std::real(x)));
      }
    }
  }
}

TEST_P(FactorizerSuite, NonfiniteMatrixFailsAloneWithNanOutputs) {
  using C = std::complex<float>;
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{6, 4}, {4, 6}, {36, 33}}) {
    for (const Spec& spec : SpecsOf<float>(m, n)) {
      CheckIsolation<float>(factorizer(), spec, std::numeric_limits<float>::quiet_NaN());
      CheckIsolation<float>(factorizer(), spec, -std::numeric_limits<float>::infinity());
    }
    for (const Spec& spec : SpecsOf<C>(m, n)) {
      CheckIsolation<C>(factorizer(), spec, C(0, std::numeric_limits<float>::quiet_NaN()));
      CheckIsolation<C>(factorizer(), spec, C(std::numeric_limits<float>::infinity(), 0));
    }
    for (const Spec& spec : SpecsOf<double>(m, n)) {
      CheckIsolation<double>(factorizer(), spec, std::numeric_limits<double>::signaling_NaN());
    }
  }
}

// Every place an entry can have, both layouts.
TEST_P(FactorizerSuite, NanIsFoundWhereverItIs) {
  for (Layout layout : {Layout::kRowMajor, Layout::kColumnMajor}) {
    Spec spec = FactorizeSpec<float>(19, 21);
    spec.layout = layout;
    const std::int64_t count = spec.m * spec.n;
    TestJob job(spec, count);
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<float> A = Normal<float>(spec.m, spec.n, 1);
      A[static_cast<std::size_t>(i)] = i % 2 == 0 ? NAN : INFINITY;
      job.Set(Operand::kA, i, A);
    }
    RunBatch(factorizer(), {&job});
    EXPECT_EQ(job.failures().size(), static_cast<std::size_t>(count));
  }
}

TEST_P(FactorizerSuite, FailuresAreListedByIndexOfTheTensor) {
  constexpr std::int64_t kCount = 1000;
  TestJob job(FactorizeSpec<double>(4, 4), kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    job.Set(Operand::kA, i, i % 3 == 0 ? std::vector<double>(16, NAN) : Normal<double>(4, 4, 1));
  }
  RunBatch(factorizer(), {&job});
  ASSERT_EQ(job.failures().size(), 334u);
  for (std::size_t f = 0; f < job.failures().size(); ++f)
    EXPECT_EQ(job.failures()[f].index, static_cast<std::int64_t>(3 * f));
}

TEST_P(FactorizerSuite, EmptyBatchOfMatricesIsFine) {
  TestJob none(FactorizeSpec<float>(2, 2), 0), one(FactorizeSpec<float>(2, 2), 1);
  one.Set<float>(Operand::kA, 0, {1, 2, 3, 4});
  RunBatch(factorizer(), {&none, &one});
  EXPECT_TRUE(none.failures().empty() && one.failures().empty());
}

TEST_P(FactorizerSuite, TimesAndPathAreReported) {
  TestJob job(FactorizeSpec<float>(32, 32), 20);
  for (std::int64_t i = 0; i < 20; ++i) job.Set(Operand::kA, i, Normal<float>(32, 32, 1));
  RunBatch(factorizer(), {&job});
  EXPECT_GT(job.job().times.compute, absl::ZeroDuration());
  EXPECT_EQ(job.job().times.pack > absl::ZeroDuration(), GetParam().copies);
  EXPECT_EQ(job.job().times.unpack > absl::ZeroDuration(), GetParam().copies);
  EXPECT_EQ(job.job().path, factorizer().PathOf(job.spec()));
}

}  // namespace
}  // namespace factord::testing

// FormQ and ApplyQ: against reflectors applied in long double, and against each other.
#include <cmath>
#include <complex>

#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"
#include "tests/support/residuals.h"

namespace factord::testing {
namespace {

template <class T>
Factors<T> Reflect(Factorizer& factorizer, std::int64_t m, std::int64_t n, std::uint64_t seed) {
  return Factorize(factorizer, FactorizeSpec<T>(m, n, QMode::kComplete), Normal<T>(m, n, seed));
}

template <class T>
Spec FormSpec(std::int64_t m, std::int64_t n, QMode q, Layout layout) {
  Spec spec;
  spec.op = Op::kFormQ;
  spec.dtype = DTypeOf<T>();
  spec.layout = layout;
  spec.m = m;
  spec.n = n;
  spec.q = q;
  return spec;
}

template <class T>
double Difference(const std::vector<T>& a, const std::vector<T>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(a[i] - b[i])));
  }
  return worst;
}

template <class T>
constexpr double kUnit = sizeof(decltype(std::abs(T{}))) == 4 ? 0x1p-24 : 0x1p-53;

// op(Q) C or C op(Q), in plain loops.
template <class T>
std::vector<T> Product(const std::vector<T>& Q, std::int64_t m, bool adjoint, bool left,
                       const std::vector<T>& C, std::int64_t p) {
  const auto q = [&](std::int64_t i, std::int64_t j) {
    if (!adjoint) return Q[static_cast<std::size_t>(i + j * m)];
    const T x = Q[static_cast<std::size_t>(j + i * m)];
    if constexpr (std::is_floating_point_v<T>) {
      return x;
    } else {
      return std::conj(x);
    }
  };
  std::vector<T> result(C.size());
  const std::int64_t rows = left ? m : p, cols = left ? p : m;
  for (std::int64_t j = 0; j < cols; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      T sum(0);
      for (std::int64_t l = 0; l < m; ++l) {
        sum += left ? q(i, l) * C[static_cast<std::size_t>(l + j * m)]
                    : C[static_cast<std::size_t>(i + l * p)] * q(l, j);
      }
      result[static_cast<std::size_t>(i + j * rows)] = sum;
    }
  }
  return result;
}

template <class T>
void CheckForm(Factorizer& factorizer, std::int64_t m, std::int64_t n) {
  const Factors<T> f = Reflect<T>(factorizer, m, n, 20);
  for (QMode q : {QMode::kReduced, QMode::kComplete}) {
    for (Layout layout : {Layout::kRowMajor, Layout::kColumnMajor}) {
      SCOPED_TRACE(::testing::Message() << Name(DTypeOf<T>()) << ' ' << m << 'x' << n);
      const Spec spec = FormSpec<T>(m, n, q, layout);
      TestJob job(spec, 1);
      // Only what lies below the diagonal of the first k columns may be read.
      std::vector<T> packed = f.packed;
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t i = 0; i < (j < spec.k() ? j + 1 : m); ++i) {
          packed[static_cast<std::size_t>(i + j * m)] = T(std::numeric_limits<float>::quiet_NaN());
        }
      }
      job.Set(Operand::kReflectors, 0, packed);
      job.Set(Operand::kTau, 0, f.tau);
      RunBatch(factorizer, {&job});
      const std::vector<T> Q = job.Get<T>(Operand::kQ, 0);
      const std::vector<T> exact =
          QFromReflectors(f.packed, f.tau, m, ExtentOf(spec, Operand::kQ).cols);
      EXPECT_LE(Difference(Q, exact), 30 * static_cast<double>(m) * kUnit<T>);
      EXPECT_TRUE(job.failures().empty());
    }
  }
}

template <class T>
void CheckApply(Factorizer& factorizer, std::int64_t m, std::int64_t n, std::int64_t p) {
  const Factors<T> f = Reflect<T>(factorizer, m, n, 21);
  for (int bits = 0; bits < 8; ++bits) {
    const bool left = bits & 1, adjoint = bits & 2;
    SCOPED_TRACE(::testing::Message()
                 << Name(DTypeOf<T>()) << ' ' << m << 'x' << n << " p " << p
                 << (left ? " left" : " right") << (adjoint ? " adjoint" : " plain")
                 << (bits & 4 ? " columns" : " rows"));
    Spec spec =
        FormSpec<T>(m, n, QMode::kNone, bits & 4 ? Layout::kRowMajor : Layout::kColumnMajor);
    spec.op = Op::kApplyQ;
    spec.side = left ? Side::kLeft : Side::kRight;
    spec.q_op = adjoint ? QOp::kAdjoint : QOp::kPlain;
    spec.p = p;
    spec.rhs_layout = bits & 4 ? Layout::kColumnMajor : Layout::kRowMajor;
    const std::vector<T> C = Normal<T>(left ? m : p, left ? p : m, 22);
    TestJob job(spec, 1);
    job.Set(Operand::kReflectors, 0, f.packed);
    job.Set(Operand::kTau, 0, f.tau);
    job.Set(Operand::kRhs, 0, C);
    RunBatch(factorizer, {&job});
    const double size = std::sqrt(static_cast<double>(m)) * 4;
    EXPECT_LE(Difference(job.Get<T>(Operand::kResult, 0), Product(f.Q, m, adjoint, left, C, p)),
              60 * static_cast<double>(m) * kUnit<T> * size);
    EXPECT_TRUE(job.failures().empty());
  }
}

template <class F>
void ForTypes(F&& f) {
  f(float{});
  f(double{});
  f(std::complex<float>{});
  f(std::complex<double>{});
}

TEST_P(FactorizerSuite, FormQReturnsTheProductOfTheReflectors) {
  ForTypes([&]<class T>(T) {
    for (std::int64_t m = 1; m <= 7; ++m) {
      for (std::int64_t n = 1; n <= 7; ++n) CheckForm<T>(factorizer(), m, n);
    }
    CheckForm<T>(factorizer(), 40, 31);
    CheckForm<T>(factorizer(), 50, 33);
    CheckForm<T>(factorizer(), 33, 50);
    CheckForm<T>(factorizer(), 140, 40);
  });
}

TEST_P(FactorizerSuite, ApplyQEqualsMultiplicationByQ) {
  ForTypes([&]<class T>(T) {
    for (std::int64_t p : {1, 3}) {
      CheckApply<T>(factorizer(), 1, 1, p);
      CheckApply<T>(factorizer(), 5, 5, p);
      CheckApply<T>(factorizer(), 7, 3, p);
      CheckApply<T>(factorizer(), 3, 7, p);
    }
    CheckApply<T>(factorizer(), 45, 36, 150);
    CheckApply<T>(factorizer(), 0, 0, 2);
    CheckApply<T>(factorizer(), 4, 0, 2);
    CheckApply<T>(factorizer(), 4, 3, 0);
  });
}

TEST_P(FactorizerSuite, ZeroTauMeansIdentity) {
  for (std::int64_t n : {3, 40}) {
    const std::vector<double> packed = Normal<double>(n + 5, n, 23);
    TestJob job(FormSpec<double>(n + 5, n, QMode::kReduced, Layout::kRowMajor), 1);
    job.Set(Operand::kReflectors, 0, packed);
    job.Set(Operand::kTau, 0, std::vector<double>(static_cast<std::size_t>(n)));
    RunBatch(factorizer(), {&job});
    EXPECT_EQ(job.Get<double>(Operand::kQ, 0), Generate<double>(Kind::kIdentity, n + 5, n, 0));
  }
}

// C's columns (left) and rows (right) are scaled one by one: neither huge nor subnormal ones lose
// digits.
TEST_P(FactorizerSuite, ApplyQKeepsDigitsOverTheWholeRange) {
  const Factors<float> f = Reflect<float>(factorizer(), 9, 5, 24);
  const std::vector<float> C = Normal<float>(9, 3, 25);
  for (Side side : {Side::kLeft, Side::kRight}) {
    Spec spec = FormSpec<float>(9, 5, QMode::kNone, Layout::kColumnMajor);
    spec.op = Op::kApplyQ;
    spec.side = side;
    spec.p = 3;
    spec.rhs_layout = side == Side::kLeft ? Layout::kColumnMajor : Layout::kRowMajor;
    TestJob plain(spec, 1), scaled(spec, 1);
    const int e[] = {-110, 0, 124};
    std::vector<float> wide = C;
    for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = std::ldexp(wide[i], e[i / 9]);
    for (auto [job, c] :
         {std::pair<TestJob*, const std::vector<float>*>{&plain, &C}, {&scaled, &wide}}) {
      job->Set(Operand::kReflectors, 0, f.packed);
      job->Set(Operand::kTau, 0, f.tau);
      job->Set(Operand::kRhs, 0, side == Side::kLeft ? *c : Transposed(*c, 9, 3));
      RunBatch(factorizer(), {job});
    }
    auto expected = plain.Get<float>(Operand::kResult, 0),
         got = scaled.Get<float>(Operand::kResult, 0);
    if (side == Side::kRight) expected = Transposed(expected, 3, 9), got = Transposed(got, 3, 9);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], std::ldexp(expected[i], e[i / 9])) << i;
  }
}

TEST_P(FactorizerSuite, ApplyQMarksOverflow) {
  Spec spec = FormSpec<float>(2, 1, QMode::kNone, Layout::kRowMajor);
  spec.op = Op::kApplyQ;
  spec.p = 1;
  TestJob job(spec, 2);
  for (int i : {0, 1}) {
    // H turns (1, 1) / sqrt 2 into -(1, 0).
    const float v = 1 / (1 + std::sqrt(2.0f));
    job.Set<float>(Operand::kReflectors, i, {0, v});
    job.Set<float>(Operand::kTau, i, {2 / (1 + v * v)});
    const float c = i == 0 ? 1 : std::numeric_limits<float>::max();
    job.Set<float>(Operand::kRhs, i, {c, c});
  }
  RunBatch(factorizer(), {&job});
  EXPECT_EQ(job.failures(), (std::vector<MatrixFailure>{{1, MatrixCode::kResultOutOfRange}}));
  EXPECT_TRUE(std::isinf(job.Get<float>(Operand::kResult, 1)[0]));
}

}  // namespace
}  // namespace factord::testing

// Solve: known answers, minimum norm in the caller's units, rank, empty cases.
#include <cmath>
#include <complex>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>

#include "tests/server/engine/engine_harness.h"
#include "tests/server/engine/factorizer_suite.h"

namespace factord::testing {
namespace {

template <class T>
struct Solution {
  std::vector<T> x;
  std::vector<decltype(std::abs(T{}))> residual_norm;
  std::int32_t rank = 0;
  std::vector<MatrixFailure> failures;
};

template <class T>
Spec SolveSpec(std::int64_t m, std::int64_t n, std::int64_t p) {
  Spec spec;
  spec.op = Op::kSolve;
  spec.dtype = DTypeOf<T>();
  spec.m = m;
  spec.n = n;
  spec.p = p;
  // A and B in different orders, so that mixing them up shows.
  spec.layout = (m + n) % 2 == 0 ? Layout::kRowMajor : Layout::kColumnMajor;
  spec.rhs_layout = (m + n) % 2 == 0 ? Layout::kColumnMajor : Layout::kRowMajor;
  return spec;
}

template <class T>
Solution<T> Solve(Factorizer& factorizer, const Spec& spec, const std::vector<T>& A,
                  const std::vector<T>& B) {
  TestJob job(spec, 1);
  job.Set(Operand::kA, 0, A);
  job.Set(Operand::kRhs, 0, B);
  RunBatch(factorizer, {&job});
  return {job.Get<T>(Operand::kResult, 0),
          job.Get<decltype(std::abs(T{}))>(Operand::kResidualNorm, 0), job.Rank(0), job.failures()};
}

template <class T>
constexpr double kUnit = sizeof(decltype(std::abs(T{}))) == 4 ? 0x1p-24 : 0x1p-53;

template <class T>
double Norm(const std::vector<T>& x) {
  double sum = 0;
  for (const T& value : x) sum += std::norm(std::complex<double>(value));
  return std::sqrt(sum);
}

// A (m x l) times B (l x n).
template <class T>
std::vector<T> Multiply(const std::vector<T>& A, const std::vector<T>& B, std::int64_t m,
                        std::int64_t l, std::int64_t n) {
  std::vector<T> C(static_cast<std::size_t>(m * n));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t k = 0; k < l; ++k) {
        C[static_cast<std::size_t>(i + j * m)] +=
            A[static_cast<std::size_t>(i + k * m)] * B[static_cast<std::size_t>(k + j * l)];
      }
    }
  }
  return C;
}

template <class T>
std::vector<T> Minus(std::vector<T> a, const std::vector<T>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

std::vector<double> Numbers(const std::string& line) {
  std::vector<double> numbers;
  std::istringstream words(line);
  for (std::string word; std::getline(words, word, ',');)
    numbers.push_back(std::strtod(word.c_str(), nullptr));
  return numbers;
}

const std::string kOwnData = FACTORD_TEST_SOURCE_DIR "/server/engine/data";
const std::string kNistData = FACTORD_TEST_SOURCE_DIR "/data/nist/csv";

struct Problem {
  std::int64_t m = 0, n = 0;
  std::vector<double> A, b, x;
  double residual_norm = 0;
};

// y and the columns of A from <folder>/<set>.csv, the exact answer from this folder's
// solutions.csv.
Problem Read(const std::string& folder, const std::string& set) {
  Problem problem;
  std::vector<std::vector<double>> rows;
  std::ifstream file(folder + "/" + set + ".csv");
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) rows.push_back(Numbers(line));
  EXPECT_FALSE(rows.empty()) << set;
  problem.m = static_cast<std::int64_t>(rows.size());
  problem.n = static_cast<std::int64_t>(rows.at(0).size()) - 1;
  for (std::size_t j = 0; j < rows[0].size(); ++j) {
    for (const auto& row : rows) (j == 0 ? problem.b : problem.A).push_back(row[j]);
  }
  std::ifstream solutions(kOwnData + "/solutions.csv");
  while (std::getline(solutions, line)) {
    if (line.rfind(set + ",", 0) != 0) continue;
    const std::vector<double> numbers = Numbers(line);
    problem.residual_norm = numbers.at(1);
    problem.x.assign(numbers.begin() + 2, numbers.end());
  }
  EXPECT_EQ(problem.x.size(), static_cast<std::size_t>(problem.n)) << set;
  return problem;
}

double Digits(const std::vector<double>& x, const std::vector<double>& exact) {
  double digits = 16;
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double error = std::abs(x[j] - exact[j]) / std::abs(exact[j]);
    if (error > 0) digits = std::min(digits, -std::log10(error));
  }
  return digits;
}

// What a backward stable solution may change of the residual: eps times the terms that cancel in b
// - A x, which for Filip are 1e5 times b.
double ResidualTerms(const Problem& problem) {
  double terms = Norm(problem.b);
  for (std::size_t j = 0; j < problem.x.size(); ++j) {
    const auto first = problem.A.begin() + static_cast<std::ptrdiff_t>(j) * problem.m;
    terms += std::abs(problem.x[j]) * Norm(std::vector<double>(first, first + problem.m));
  }
  return terms;
}

// All of full rank, with the digits that a Householder QR gets (NumPy's rank calls Filip rank 10 of
// 11).
TEST_P(FactorizerSuite, NistDataSetsAreSolved) {
  const std::map<std::string, double> kDigits = {
      {"Norris", 12},  {"Pontius", 11.5}, {"NoInt1", 14},   {"NoInt2", 14.5},
      {"Filip", 7},    {"Longley", 10.5}, {"Wampler1", 9},  {"Wampler2", 12},
      {"Wampler3", 9}, {"Wampler4", 7.5}, {"Wampler5", 5.5}};
  for (const auto& [set, digits] : kDigits) {
    SCOPED_TRACE(set);
    const Problem problem = Read(kNistData, set);
    const Solution<double> s =
        Solve(factorizer(), SolveSpec<double>(problem.m, problem.n, 1), problem.A, problem.b);
    EXPECT_EQ(s.rank, problem.n);
    EXPECT_TRUE(s.failures.empty());
    EXPECT_GE(Digits(s.x, problem.x), digits);
    EXPECT_NEAR(
        s.residual_norm[0], problem.residual_norm,
        1e-9 * problem.residual_norm + 1e-13 * Norm(problem.b) + 0x1p-53 * ResidualTerms(problem));
  }
}

TEST_P(FactorizerSuite, Maragal1HasRankTen) {
  const Problem problem = Read(kOwnData, "Maragal_1");
  const Solution<double> s =
      Solve(factorizer(), SolveSpec<double>(problem.m, problem.n, 1), problem.A, problem.b);
  EXPECT_EQ(s.rank, 10);
  EXPECT_EQ(s.failures, (std::vector<MatrixFailure>{{0, MatrixCode::kRankDeficient}}));
  EXPECT_LT(Norm(Minus(s.x, problem.x)), 1e-10 * Norm(problem.x));
  EXPECT_NEAR(s.residual_norm[0], problem.residual_norm, 1e-12);
}

template <class F>
void ForTypes(F&& f) {
  f(float{});
  f(double{});
  f(std::complex<float>{});
  f(std::complex<double>{});
}

// The residual is orthogonal to A's columns, and its norm is as reported.
template <class T>
void CheckTall(Factorizer& factorizer, std::int64_t m, std::int64_t n, std::int64_t p) {
  SCOPED_TRACE(::testing::Message() << Name(DTypeOf<T>()) << ' ' << m << 'x' << n);
  const std::vector<T> A = Normal<T>(m, n, 30), B = Normal<T>(m, p, 31);
  const Solution<T> s = Solve(factorizer, SolveSpec<T>(m, n, p), A, B);
  EXPECT_EQ(s.rank, n);
  EXPECT_TRUE(s.failures.empty());
  const std::vector<T> residual = Minus(B, Multiply(A, s.x, m, n, p));
  const double scale = static_cast<double>(m * n) * kUnit<T>;
  EXPECT_LE(Norm(Multiply(Adjoint(A, m, n), residual, n, m, p)),
            30 * scale * Norm(A) * (Norm(B) + Norm(A) * Norm(s.x)));
  for (std::int64_t c = 0; c < p; ++c) {
    const std::vector<T> column(residual.begin() + c * m, residual.begin() + (c + 1) * m);
    EXPECT_NEAR(s.residual_norm[static_cast<std::size_t>(c)], Norm(column),
                30 * scale * (Norm(B) + Norm(A) * Norm(s.x)));
  }
}

TEST_P(FactorizerSuite, TallSystemsAreSolved) {
  ForTypes([&]<class T>(T) {
    for (std::int64_t p : {1, 3}) {
      CheckTall<T>(factorizer(), 1, 1, p);
      CheckTall<T>(factorizer(), 5, 5, p);
      CheckTall<T>(factorizer(), 20, 6, p);
      CheckTall<T>(factorizer(), 90, 40, p);
    }
  });
}

// x is the shortest solution if and only if it lies in the range of A^H: then A^H y = x has no
// residual.
template <class T>
void CheckWide(Factorizer& factorizer, std::int64_t m, std::int64_t n, std::int64_t p,
               bool uniform) {
  SCOPED_TRACE(::testing::Message() << Name(DTypeOf<T>()) << ' ' << m << 'x' << n << " nrhs " << p
                                    << (uniform ? " uniform" : ""));
  std::vector<T> A = Normal<T>(m, n, 32);
  if (uniform) {
    for (T& a : A)
      a /= decltype(std::abs(a))(4 *
                                 std::abs(a));  // modulus 1/4: every column of one exponent, or two
    if constexpr (!std::is_floating_point_v<T>) {
      for (T& a : A) a = T(a.real() < 0 ? -0.25f : 0.25f, a.imag());
    }
  }
  const std::vector<T> B = Normal<T>(m, p, 33);
  const Solution<T> s = Solve(factorizer, SolveSpec<T>(m, n, p), A, B);
  EXPECT_EQ(s.rank, m);
  EXPECT_TRUE(s.failures.empty());
  const double accuracy = 100 * static_cast<double>(n) * kUnit<T>;
  const std::vector<T> residual = Minus(B, Multiply(A, s.x, m, n, p));
  EXPECT_LE(Norm(residual), accuracy * (Norm(B) + Norm(A) * Norm(s.x)));
  for (auto r : s.residual_norm) EXPECT_LE(r, accuracy * (Norm(B) + Norm(A) * Norm(s.x)));
  const Solution<T> range = Solve(factorizer, SolveSpec<T>(n, m, p), Adjoint(A, m, n), s.x);
  for (auto r : range.residual_norm) EXPECT_LE(r, accuracy * 10 * Norm(s.x));
}

TEST_P(FactorizerSuite, WideSystemsGiveTheShortestSolution) {
  ForTypes([&]<class T>(T) {
    for (std::int64_t p : {1, 3}) {
      for (bool uniform : {false, true}) {
        CheckWide<T>(factorizer(), 1, 4, p, uniform);
        CheckWide<T>(factorizer(), 2, 5, p, uniform);
        CheckWide<T>(factorizer(), 3, 40, p, uniform);
      }
      CheckWide<T>(factorizer(), 7, 8, p, false);
      CheckWide<T>(factorizer(), 31, 64, p, false);
      CheckWide<T>(factorizer(), 40, 50, p, false);
    }
  });
}

// A = u w^H has x = w (u^H b) / (||u||^2 ||w||^2), whatever the scales of its columns.
template <class T>
void CheckRankOne(Factorizer& factorizer, std::int64_t m, std::int64_t n, int span) {
  SCOPED_TRACE(::testing::Message()
               << Name(DTypeOf<T>()) << ' ' << m << 'x' << n << " span " << span);
  const std::vector<T> u = Normal<T>(m, 1, 34), b = Normal<T>(m, 1, 35);
  std::vector<T> w = Normal<T>(n, 1, 36);
  for (std::int64_t j = 0; j < n; ++j) {
    w[static_cast<std::size_t>(j)] *= static_cast<decltype(std::abs(T{}))>(
        std::ldexp(1.0, static_cast<int>(span * j / std::max<std::int64_t>(1, n - 1)) - span / 2));
  }
  const Solution<T> s =
      Solve(factorizer, SolveSpec<T>(m, n, 1), Multiply(u, Adjoint(w, n, 1), m, 1, n), b);
  EXPECT_EQ(s.rank, 1);
  EXPECT_EQ(s.failures.empty(), std::min(m, n) == 1);
  const T dot = Multiply(Adjoint(u, m, 1), b, 1, m, 1)[0];
  const double uu = Norm(u) * Norm(u), ww = Norm(w) * Norm(w);
  std::vector<T> x = w;
  double left = 0;
  for (T& value : x)
    value = T(std::complex<double>(value).real() / ww / uu) * dot +
            (value - T(std::real(value))) * T(1 / ww / uu) * dot;
  left = Norm(Minus(s.x, x));
  EXPECT_LE(left, 100 * static_cast<double>(m + n) * kUnit<T> * Norm(x));
  std::vector<T> rest = b;
  for (std::size_t i = 0; i < rest.size(); ++i)
    rest[i] -= u[i] * dot / static_cast<decltype(std::abs(T{}))>(uu);
  EXPECT_NEAR(s.residual_norm[0], Norm(rest),
              200 * static_cast<double>(m + n) * kUnit<T> * Norm(b));
}

TEST_P(FactorizerSuite, RankOneSystemsGiveTheShortestSolutionInTheCallersUnits) {
  ForTypes([&]<class T>(T) {
    for (int span : {0, 20, 100}) {
      CheckRankOne<T>(factorizer(), 8, 2, span);   // null form
      CheckRankOne<T>(factorizer(), 20, 6, span);  // range form
      CheckRankOne<T>(factorizer(), 2, 9, span);   // wide
      CheckRankOne<T>(factorizer(), 1, 5, span);
      CheckRankOne<T>(factorizer(), 60, 40, span);
    }
  });
}

// A = U W^H of rank r, its columns scaled apart: the shortest x lies in the range of A^H, and the
// residual is orthogonal to A's columns.
TEST_P(FactorizerSuite, DeficientSystemsGiveTheShortestLeastSquaresSolution) {
  struct Case {
    std::int64_t m, n, r;
  };
  for (Case c : {Case{30, 10, 7},
                 {30, 10, 3},
                 {10, 10, 9},
                 {12, 40, 8},
                 {12, 14, 9},
                 {60, 45, 40},
                 {40, 60, 35}}) {
    SCOPED_TRACE(::testing::Message() << c.m << 'x' << c.n << " rank " << c.r);
    std::vector<double> A =
        Multiply(Normal<double>(c.m, c.r, 37), Normal<double>(c.r, c.n, 38), c.m, c.r, c.n);
    for (std::int64_t j = 0; j < c.n; ++j) {
      for (std::int64_t i = 0; i < c.m; ++i)
        A[static_cast<std::size_t>(i + j * c.m)] *= std::ldexp(1.0, static_cast<int>(j % 9) - 4);
    }
    const std::vector<double> b = Normal<double>(c.m, 2, 39);
    const Solution<double> s = Solve(factorizer(), SolveSpec<double>(c.m, c.n, 2), A, b);
    EXPECT_EQ(s.rank, c.r);
    EXPECT_EQ(s.failures, (std::vector<MatrixFailure>{{0, MatrixCode::kRankDeficient}}));
    const std::vector<double> residual = Minus(b, Multiply(A, s.x, c.m, c.n, 2));
    EXPECT_LE(Norm(Multiply(Adjoint(A, c.m, c.n), residual, c.n, c.m, 2)),
              1e-11 * Norm(A) * (Norm(b) + Norm(A) * Norm(s.x)));
    Spec adjoint = SolveSpec<double>(c.n, c.m, 2);
    const Solution<double> range = Solve(factorizer(), adjoint, Adjoint(A, c.m, c.n), s.x);
    EXPECT_LE(range.residual_norm[0] + range.residual_norm[1], 1e-11 * Norm(s.x));
    for (int column : {0, 1}) {
      const std::vector<double> r(residual.begin() + column * c.m,
                                  residual.begin() + (column + 1) * c.m);
      EXPECT_NEAR(s.residual_norm[static_cast<std::size_t>(column)], Norm(r),
                  1e-12 * (Norm(b) + Norm(A) * Norm(s.x)));
    }
  }
}

TEST_P(FactorizerSuite, OneToNineIsFoundDeficient) {
  const std::vector<float> A = Transposed<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, 3, 3);
  const Solution<float> s = Solve(factorizer(), SolveSpec<float>(3, 3, 3), A, A);
  EXPECT_EQ(s.rank, 2);
  EXPECT_EQ(s.failures, (std::vector<MatrixFailure>{{0, MatrixCode::kRankDeficient}}));
  EXPECT_NEAR(s.x[0], 0.8333f, 1e-4);
  EXPECT_NEAR(s.x[3], 0.3333f, 1e-4);
  EXPECT_NEAR(s.x[6], -0.1667f, 1e-4);
}

TEST_P(FactorizerSuite, UnusedUnknownIsZeroAndReported) {
  std::vector<double> A = Normal<double>(50, 8, 40);
  std::fill(A.begin() + 5 * 50, A.begin() + 6 * 50, 0.0);
  const Solution<double> s =
      Solve(factorizer(), SolveSpec<double>(50, 8, 1), A, Normal<double>(50, 1, 41));
  EXPECT_EQ(s.rank, 7);
  EXPECT_EQ(s.failures, (std::vector<MatrixFailure>{{0, MatrixCode::kRankDeficient}}));
  EXPECT_NEAR(s.x[5], 0, 1e-15);
}

TEST_P(FactorizerSuite, EqualColumnsHaveTheSameStatusAloneAndAmongOthers) {
  std::vector<double> A = Normal<double>(5, 3, 42);
  std::copy(A.begin(), A.begin() + 5, A.begin() + 10);
  TestJob alone(SolveSpec<double>(5, 3, 1), 1), crowd(SolveSpec<double>(5, 3, 1), 100);
  alone.Set(Operand::kA, 0, A);
  alone.Set(Operand::kRhs, 0, Normal<double>(5, 1, 43));
  for (std::int64_t i = 0; i < 100; ++i) {
    crowd.Set(Operand::kA, i, i == 50 ? A : Normal<double>(5, 3, static_cast<std::uint64_t>(i)));
    crowd.Set(Operand::kRhs, i, Normal<double>(5, 1, 43));
  }
  RunBatch(factorizer(), {&alone});
  RunBatch(factorizer(), {&crowd});
  EXPECT_EQ(alone.failures(), (std::vector<MatrixFailure>{{0, MatrixCode::kRankDeficient}}));
  EXPECT_EQ(crowd.failures(), (std::vector<MatrixFailure>{{50, MatrixCode::kRankDeficient}}));
  EXPECT_EQ(crowd.OutputBytes(50), alone.OutputBytes(0));
}

// Inputs on which a singular value decomposition may never end.
TEST_P(FactorizerSuite, InfinitiesNeverReachTheSvd) {
  const float inf = INFINITY;
  for (const std::vector<float>& A :
       {std::vector<float>{1, 1, 1, 1, inf, 1, 1, 1, 1}, {550, inf, 1, inf}, {0, NAN, NAN, inf}}) {
    const auto n = static_cast<std::int64_t>(std::sqrt(A.size()));
    const Solution<float> s = Solve(factorizer(), SolveSpec<float>(n, n, 1), A,
                                    std::vector<float>(static_cast<std::size_t>(n), 1));
    EXPECT_EQ(s.failures, (std::vector<MatrixFailure>{{0, MatrixCode::kNonfiniteInput}}));
    EXPECT_EQ(s.rank, -1);
  }
}

// kappa up to 1e9 with a consistent b: the residual is near zero whatever x is.
TEST_P(FactorizerSuite, IllConditionedConsistentSystemsHaveSmallResiduals) {
  for (double decades : {3, 6, 9}) {
    const std::vector<double> U = Normal<double>(100, 20, 44), V = Normal<double>(20, 20, 45);
    std::vector<double> S = U;
    for (std::size_t i = 0; i < S.size(); ++i)
      S[i] *= std::pow(10.0, -decades * static_cast<double>(i / 100) / 19);
    const std::vector<double> A = Multiply(S, V, 100, 20, 20);
    const std::vector<double> b = Multiply(A, Normal<double>(20, 1, 46), 100, 20, 1);
    const Solution<double> s = Solve(factorizer(), SolveSpec<double>(100, 20, 1), A, b);
    EXPECT_EQ(s.rank, 20);
    EXPECT_LE(Norm(Minus(b, Multiply(A, s.x, 100, 20, 1))), 1e-12 * Norm(A) * (1 + Norm(s.x)));
    // The same in f32: deficient once kappa eps is near 1, still a small residual.
    const Solution<float> f = Solve<float>(factorizer(), SolveSpec<float>(100, 20, 1),
                                           std::vector<float>(A.begin(), A.end()),
                                           std::vector<float>(b.begin(), b.end()));
    EXPECT_EQ(f.rank<20, decades> 5) << f.rank;
    EXPECT_LE(f.residual_norm[0], 1e-4 * Norm(b));
  }
}

// x(A D) = D^-1 x(A), bit by bit, D powers of two, where A has full rank.
TEST_P(FactorizerSuite, PowerOfTwoScalingScalesTheSolutionExactly) {
  const std::vector<float> A = Normal<float>(40, 9, 47), b = Normal<float>(40, 1, 48);
  std::vector<float> scaled = A;
  const auto e = [](std::size_t j) { return static_cast<int>(j * 53 % 180) - 90; };
  for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = std::ldexp(scaled[i], e(i / 40));
  const Solution<float> plain = Solve(factorizer(), SolveSpec<float>(40, 9, 1), A, b);
  const Solution<float> s = Solve(factorizer(), SolveSpec<float>(40, 9, 1), scaled, b);
  EXPECT_EQ(s.rank, 9);
  EXPECT_EQ(s.residual_norm, plain.residual_norm);
  for (std::size_t j = 0; j < 9; ++j) EXPECT_EQ(s.x[j], std::ldexp(plain.x[j], -e(j)));
}

TEST_P(FactorizerSuite, UnrepresentableSolutionIsMarked) {
  const Solution<float> s =
      Solve<float>(factorizer(), SolveSpec<float>(2, 2, 1), {1e-38f, 0, 0, 1}, {1e38f, 3});
  EXPECT_EQ(s.failures, (std::vector<MatrixFailure>{{0, MatrixCode::kResultOutOfRange}}));
  EXPECT_EQ(s.x, (std::vector<float>{INFINITY, 3}));
  EXPECT_EQ(s.rank, 2);
}

TEST_P(FactorizerSuite, ZeroMatrixHasRankZero) {
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{4, 3}, {3, 3}, {3, 4}, {50, 40}}) {
    const std::vector<double> b = Normal<double>(m, 1, 49);
    const Solution<double> s = Solve(factorizer(), SolveSpec<double>(m, n, 1),
                                     std::vector<double>(static_cast<std::size_t>(m * n)), b);
    EXPECT_EQ(s.rank, 0);
    EXPECT_EQ(s.x, std::vector<double>(static_cast<std::size_t>(n)));
    EXPECT_NEAR(s.residual_norm[0], Norm(b), 1e-14 * Norm(b));
  }
}

TEST_P(FactorizerSuite, EmptySystemsAreSolved) {
  const Solution<double> no_rows = Solve<double>(factorizer(), SolveSpec<double>(0, 3, 2), {}, {});
  EXPECT_EQ(no_rows.x, std::vector<double>(6));
  EXPECT_EQ(no_rows.residual_norm, std::vector<double>(2));
  EXPECT_EQ(no_rows.rank, 0);
  EXPECT_TRUE(no_rows.failures.empty());
  const Solution<double> no_columns =
      Solve<double>(factorizer(), SolveSpec<double>(2, 0, 1), {}, {3, 4});
  EXPECT_DOUBLE_EQ(no_columns.residual_norm[0], 5);
  EXPECT_TRUE(no_columns.failures.empty());
  for (auto [m, n] : {std::pair<std::int64_t, std::int64_t>{4, 3}, {3, 4}, {40, 50}}) {
    const Solution<double> no_rhs =
        Solve<double>(factorizer(), SolveSpec<double>(m, n, 0), Normal<double>(m, n, 50), {});
    EXPECT_EQ(no_rhs.rank, std::min(m, n));
    const Solution<double> deficient =
        Solve<double>(factorizer(), SolveSpec<double>(m, n, 0),
                      std::vector<double>(static_cast<std::size_t>(m * n), 1), {});
    EXPECT_EQ(deficient.rank, 1);
  }
}

TEST_P(FactorizerSuite, RcondDecidesTheRank) {
  Spec spec = SolveSpec<double>(3, 2, 1);
  const std::vector<double> A = {1, 0, 0, 1, 1e-5, 0};
  EXPECT_EQ(Solve<double>(factorizer(), spec, A, {1, 1, 1}).rank, 2);
  spec.rcond = 1e-3;
  EXPECT_EQ(Solve<double>(factorizer(), spec, A, {1, 1, 1}).rank, 1);
  spec.rcond = 0;
  EXPECT_EQ(Solve<double>(factorizer(), spec, {1, 1, 1, 0, 0, 0}, {1, 1, 1}).rank, 1);
}

}  // namespace
}  // namespace factord::testing

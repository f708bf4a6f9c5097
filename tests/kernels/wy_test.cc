// Compact WY against long double: T, and I - V op(T) V^T times a matrix; what they leave alone, and
// the bits that they promise.
#include "kernels/wy/wy.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/device_array.h"
#include "tests/support/generators.h"
#include "tests/support/residuals.h"

namespace factord::kernels {
namespace {

using factord::testing::DeviceArray;
using factord::testing::Generate;
using factord::testing::Kind;
using factord::testing::kKinds;
using factord::testing::Normal;
using factord::testing::OrthogonalityRatio;

// Largest errors allowed, in units of roundoff (2^-24 or 2^-53) relative to the column's norm. What
// was seen is at most a third of it.
constexpr double kLarfbError = 40;
constexpr double kLarftError = 15;

template <class T>
constexpr double kRoundoff = std::numeric_limits<T>::epsilon() / 2;
template <class T>
constexpr T kNaN = std::numeric_limits<T>::quiet_NaN();

// So many matrices that no cluster shares one.
constexpr std::size_t kMany = 65;

// Of a device that every launch fills, and of one that few matrices do not.
constexpr int kNoMultiprocessors = 0;
constexpr int kMultiprocessors = 132;

// ---- matrices

// Row-major.
template <class T>
struct Matrix {
  int rows = 0, cols = 0;
  std::vector<T> data;

  Matrix(int rows, int cols, T value = T(0))
      : rows(rows),
        cols(cols),
        data(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols), value) {}
  T& operator()(int r, int c) {
    return data[static_cast<std::size_t>(r) * static_cast<std::size_t>(cols) +
                static_cast<std::size_t>(c)];
  }
  const T& operator()(int r, int c) const { return const_cast<Matrix&>(*this)(r, c); }
};

using Exact = Matrix<long double>;

template <class T>
Matrix<T> RandomMatrix(int rows, int cols, std::uint64_t seed) {
  Matrix<T> matrix(rows, cols);
  matrix.data = Normal<T>(rows, cols, seed);
  return matrix;
}

template <class T>
Exact Widened(const Matrix<T>& a) {
  Exact result(a.rows, a.cols);
  std::copy(a.data.begin(), a.data.end(), result.data.begin());
  return result;
}

Exact Times(const Exact& a, bool transpose_a, const Exact& b) {
  const int rows = transpose_a ? a.cols : a.rows, terms = transpose_a ? a.rows : a.cols;
  Exact result(rows, b.cols);
  for (int i = 0; i < rows; ++i) {
    for (int k = 0; k < terms; ++k) {
      const long double x = transpose_a ? a(k, i) : a(i, k);
      for (int c = 0; c < b.cols; ++c) result(i, c) += x * b(k, c);
    }
  }
  return result;
}

// ---- reflectors

// V, unit lower trapezoidal and explicit, and tau of the QR of a matrix of this kind.
template <class T>
struct Reflectors {
  Matrix<T> v;
  std::vector<T> tau;
};

template <class T>
Reflectors<T> MakeReflectors(Kind kind, int rows, int nb, std::uint64_t seed) {
  Matrix<T> generated(nb, rows);  // row-major, so this is the transpose of a column-major matrix
  generated.data = Generate<T>(kind, rows, nb, seed);
  Exact a(rows, nb);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < nb; ++c) a(r, c) = generated(c, r);
  }
  Reflectors<T> result{Matrix<T>(rows, nb), std::vector<T>(static_cast<std::size_t>(nb))};
  for (int c = 0; c < std::min(rows, nb); ++c) {
    long double tail = 0;
    for (int r = c + 1; r < rows; ++r) tail += a(r, c) * a(r, c);
    result.v(c, c) = 1;
    if (tail == 0) continue;
    const long double alpha = a(c, c);
    const long double beta = -std::copysign(std::sqrt(alpha * alpha + tail), alpha);
    const long double tau = (beta - alpha) / beta;
    result.tau[static_cast<std::size_t>(c)] = static_cast<T>(tau);
    for (int r = c + 1; r < rows; ++r) a(r, c) /= alpha - beta;
    for (int r = c + 1; r < rows; ++r) result.v(r, c) = static_cast<T>(a(r, c));
    for (int k = c + 1; k < nb; ++k) {
      long double dot = a(c, k);
      for (int r = c + 1; r < rows; ++r) dot += a(r, c) * a(r, k);
      a(c, k) -= tau * dot;
      for (int r = c + 1; r < rows; ++r) a(r, k) -= tau * dot * a(r, c);
    }
  }
  return result;
}

// LAPACK's larft.
template <class T>
Exact ReferenceT(const Reflectors<T>& reflectors) {
  const Exact v = Widened(reflectors.v), gram = Times(v, true, v);
  const int nb = v.cols;
  Exact t(nb, nb);
  for (int c = 0; c < nb; ++c) {
    const long double tau = reflectors.tau[static_cast<std::size_t>(c)];
    t(c, c) = tau;
    for (int r = 0; r < c; ++r) {
      long double sum = 0;
      for (int k = r; k < c; ++k) sum += t(r, k) * gram(k, c);
      t(r, c) = -tau * sum;
    }
  }
  return t;
}

template <class T>
Matrix<T> Rounded(const Exact& a) {
  Matrix<T> result(a.rows, a.cols);
  std::transform(a.data.begin(), a.data.end(), result.data.begin(),
                 [](long double x) { return static_cast<T>(x); });
  return result;
}

// ---- on the device

// A batch in one array: rows longer than the columns, matrices further apart than their rows. All
// that no matrix fills is NaN.
template <class T>
class WorkArray {
 public:
  WorkArray(int rows, int cols, int count)
      : work_{nullptr, 0, rows, cols, cols + kColumnUnit, count},
        host_(Size(), kNaN<T>),
        device_(0) {
    work_.stride = Stride();
  }

  // Entry (r, c) of matrix i to be uploaded; after Download as it has become.
  T& operator()(int i, int r, int c) {
    return host_[static_cast<std::size_t>(i * Stride() + static_cast<std::int64_t>(r) * work_.ld +
                                          c)];
  }
  void Set(int i, int row, int col, const Matrix<T>& block) {
    for (int r = 0; r < block.rows; ++r) {
      for (int c = 0; c < block.cols; ++c) (*this)(i, row + r, col + c) = block(r, c);
    }
  }
  Matrix<T> Get(int i, int row, int col, int rows, int cols) {
    Matrix<T> block(rows, cols);
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c) block(r, c) = (*this)(i, row + r, col + c);
    }
    return block;
  }

  Work<T> Upload() {
    device_ = DeviceArray<T>(host_);
    work_.data = device_.data();
    return work_;
  }
  // Whether nothing outside rows row ... and columns c0 ... c1 - 1 of the matrices changed.
  bool Download(int row, int c0, int c1) {
    std::vector<T> now = device_.Download();
    std::swap(now, host_);
    for (std::int64_t at = 0; at < static_cast<std::int64_t>(now.size()); ++at) {
      const std::int64_t inside = at % Stride(), r = inside / work_.ld, c = inside % work_.ld;
      const bool written = r >= row && r < work_.rows && c >= c0 && c < c1;
      const auto i = static_cast<std::size_t>(at);
      if (!written && std::memcmp(&now[i], &host_[i], sizeof(T)) != 0) return false;
    }
    return device_.GuardsIntact();
  }

 private:
  std::int64_t Stride() const {
    return static_cast<std::int64_t>(work_.rows) * work_.ld + 3 * kColumnUnit;
  }
  std::size_t Size() const { return static_cast<std::size_t>(work_.count * Stride()); }

  Work<T> work_;
  std::vector<T> host_;
  DeviceArray<T> device_;
};

// V at row and column j, and above its diagonal what no kernel may use.
template <class T>
void PlantV(WorkArray<T>& a, int i, int j, const Matrix<T>& v) {
  a.Set(i, j, j, v);
  for (int r = 0; r < std::min(v.rows, v.cols); ++r) {
    for (int c = r; c < v.cols; ++c) a(i, j + r, j + c) = kNaN<T>;
  }
}

// The vectors of `count` matrices, one after the other with a gap of NaN.
template <class T>
class VectorArray {
 public:
  VectorArray(int length, int count)
      : stride_(length + 8),
        host_(static_cast<std::size_t>(stride_) * static_cast<std::size_t>(count), kNaN<T>),
        device_(0) {}

  void Set(int i, int at, const std::vector<T>& values) {
    std::copy(values.begin(), values.end(), host_.begin() + i * stride_ + at);
  }
  WorkVectors<T> Upload() {
    device_ = DeviceArray<T>(host_);
    return {device_.data(), stride_};
  }
  void Download() { host_ = device_.Download(); }
  Matrix<T> Get(int i, int at, int rows, int cols) const {
    Matrix<T> result(rows, cols);
    std::copy_n(host_.begin() + i * stride_ + at, result.data.size(), result.data.begin());
    return result;
  }
  // Nothing was written behind the first `length` of each vector.
  bool GapsIntact(int length) const {
    for (std::size_t at = 0; at < host_.size(); ++at) {
      if (static_cast<int>(at) % stride_ >= length && !std::isnan(host_[at])) return false;
    }
    return device_.GuardsIntact();
  }

 private:
  int stride_;
  std::vector<T> host_;
  DeviceArray<T> device_;
};

struct Shape {
  int rows, j, nb;  // rows: of all of the matrix
};

// T of each block of columns of each of a batch of reflectors, by one call.
template <class T>
std::vector<std::vector<Matrix<T>>> RunLarftOfBlocks(const Shape& shape,
                                                     const std::vector<Reflectors<T>>& batch) {
  const int count = static_cast<int>(batch.size()), cols = shape.j + shape.nb;
  const int last = (shape.nb - 1) / kMaxBlock, last_nb = shape.nb - last * kMaxBlock;
  const int length = last * kMaxBlock * kMaxBlock + last_nb * last_nb;
  WorkArray<T> a(shape.rows, cols, count);
  VectorArray<T> tau(cols, count), t(length, count);
  for (int i = 0; i < count; ++i) {
    PlantV(a, i, shape.j, batch[static_cast<std::size_t>(i)].v);
    tau.Set(i, shape.j, batch[static_cast<std::size_t>(i)].tau);
  }
  const cudaError_t error =
      Larft<T>(a.Upload(), shape.j, shape.nb, tau.Upload(), t.Upload(), nullptr);
  EXPECT_EQ(error, cudaSuccess);
  EXPECT_TRUE(a.Download(0, 0, 0));
  t.Download();
  EXPECT_TRUE(t.GapsIntact(length));
  std::vector<std::vector<Matrix<T>>> result(batch.size());
  for (int i = 0; i < count; ++i) {
    for (int b = 0; b <= last; ++b) {
      const int nb = b < last ? kMaxBlock : last_nb;
      result[static_cast<std::size_t>(i)].push_back(t.Get(i, b * kMaxBlock * kMaxBlock, nb, nb));
    }
  }
  return result;
}

// Of one block.
template <class T>
std::vector<Matrix<T>> RunLarft(const Shape& shape, const std::vector<Reflectors<T>>& batch) {
  std::vector<Matrix<T>> result;
  for (std::vector<Matrix<T>>& t : RunLarftOfBlocks(shape, batch)) {
    result.push_back(std::move(t[0]));
  }
  return result;
}

// One matrix of a call of Larfb. C's rows are those from row j; its columns are c0 ... c1 - 1.
template <class T>
struct Update {
  Matrix<T> v, t, c;
};

// The updated C of each. With `in_place` C stands in the array of V, right of it, at c0.
template <class T>
std::vector<Matrix<T>> RunLarfb(const Shape& shape, bool transpose, int c0, bool in_place,
                                const std::vector<Update<T>>& batch,
                                int multiprocessors = kNoMultiprocessors) {
  const int count = static_cast<int>(batch.size()), c1 = c0 + batch[0].c.cols;
  const int a_cols = shape.j + shape.nb;
  WorkArray<T> a(shape.rows, in_place ? c1 + kColumnUnit : a_cols, count);
  WorkArray<T> separate(shape.rows, c1 + kColumnUnit, in_place ? 0 : count);
  WorkArray<T>& c = in_place ? a : separate;
  VectorArray<T> t(shape.nb * shape.nb, count);
  for (int i = 0; i < count; ++i) {
    const Update<T>& update = batch[static_cast<std::size_t>(i)];
    PlantV(a, i, shape.j, update.v);
    c.Set(i, shape.j, c0, update.c);
    t.Set(i, 0, update.t.data);
  }
  const Work<T> work = a.Upload();
  const Work<T> target = in_place ? work : c.Upload();
  const cudaError_t error = Larfb<T>(work, shape.j, shape.nb, t.Upload(), transpose, target, c0, c1,
                                     multiprocessors, nullptr);
  EXPECT_EQ(error, cudaSuccess);
  EXPECT_TRUE(c.Download(shape.j, c0, c1)) << "written outside of C";
  EXPECT_TRUE(in_place || a.Download(0, 0, 0)) << "written to V";
  std::vector<Matrix<T>> result;
  for (int i = 0; i < count; ++i) {
    result.push_back(c.Get(i, shape.j, c0, shape.rows - shape.j, c1 - c0));
  }
  return result;
}

template <class T>
Update<T> RandomUpdate(const Shape& shape, int cols, std::uint64_t seed) {
  const int rows = shape.rows - shape.j;
  const Reflectors<T> reflectors = MakeReflectors<T>(Kind::kNormal, rows, shape.nb, seed);
  return {reflectors.v, Rounded<T>(ReferenceT(reflectors)),
          RandomMatrix<T>(rows, cols, seed + 1000)};
}

// The largest of || (actual - exact)_c || / || before_c || over the columns, in roundoffs.
template <class T>
double ColumnError(const Matrix<T>& actual, const Exact& exact, const Matrix<T>& before) {
  double worst = 0;
  for (int c = 0; c < exact.cols; ++c) {
    long double error = 0, norm = 0;
    for (int r = 0; r < exact.rows; ++r) {
      const long double difference = actual(r, c) - exact(r, c), x = before(r, c);
      error += difference * difference;
      norm += x * x;
    }
    const double ratio = static_cast<double>(std::sqrt(error / norm)) / kRoundoff<T>;
    if (!(ratio <= worst)) worst = ratio;  // NaN too
    if (std::isnan(ratio)) return ratio;
  }
  return worst;
}

template <class T>
double UpdateError(const Update<T>& update, bool transpose, const Matrix<T>& actual) {
  const Exact v = Widened(update.v), c = Widened(update.c);
  const Exact product = Times(v, false, Times(Widened(update.t), transpose, Times(v, true, c)));
  Exact exact(c.rows, c.cols);
  for (std::size_t i = 0; i < exact.data.size(); ++i) {
    exact.data[i] = c.data[i] - product.data[i];
  }
  return ColumnError(actual, exact, update.c);
}

template <class T>
bool SameBits(const Matrix<T>& a, const Matrix<T>& b) {
  return a.rows == b.rows && a.cols == b.cols &&
         std::memcmp(a.data.data(), b.data.data(), a.data.size() * sizeof(T)) == 0;
}

// The top left corner.
template <class T>
Matrix<T> Corner(const Matrix<T>& a, int rows, int cols) {
  Matrix<T> result(rows, cols);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) result(r, c) = a(r, c);
  }
  return result;
}
// With zeros below and to the right.
template <class T>
Matrix<T> Padded(const Matrix<T>& a, int rows, int cols) {
  Matrix<T> result(rows, cols);
  for (int r = 0; r < a.rows; ++r) {
    for (int c = 0; c < a.cols; ++c) result(r, c) = a(r, c);
  }
  return result;
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes = {{8, 0, 8},     {5, 0, 8},    {63, 0, 16},   {64, 0, 64},
                               {65, 0, 24},   {96, 8, 32},  {104, 40, 64}, {129, 0, 40},
                               {160, 32, 32}, {200, 8, 64}, {255, 0, 8},   {257, 64, 56},
                               {40, 0, 40},   {71, 64, 8},  {320, 0, 64}};
#ifndef FACTORD_EMULATED
  for (const Shape& shape : std::vector<Shape>{
           {512, 0, 64}, {1000, 192, 64}, {4096, 64, 32}, {20000, 0, 64}, {1025, 8, 48}}) {
    shapes.push_back(shape);
  }
#endif
  return shapes;
}

std::string Describe(const Shape& shape) {
  return "rows " + std::to_string(shape.rows) + " j " + std::to_string(shape.j) + " nb " +
         std::to_string(shape.nb);
}

template <class T>
class WyTest : public ::testing::Test {};
struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return sizeof(T) == 4 ? "F32" : "F64";
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(WyTest, Types, TypeNames);

// ---- accuracy

TYPED_TEST(WyTest, LarftIsThatOfLapack) {
  using T = TypeParam;
  double worst = 0;
  for (const Shape& shape : Shapes()) {
    std::vector<Reflectors<T>> batch;
    for (const std::uint64_t seed : {1, 2}) {
      batch.push_back(MakeReflectors<T>(Kind::kNormal, shape.rows - shape.j, shape.nb, seed));
    }
    const std::vector<Matrix<T>> t = RunLarft(shape, batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Exact exact = ReferenceT(batch[i]);
      const double error = ColumnError(t[i], exact, Matrix<T>(shape.nb, shape.nb, T(1)));
      EXPECT_LE(error, kLarftError) << Describe(shape);
      worst = std::max(worst, error);
      for (int r = 0; r < shape.nb; ++r) {
        for (int c = 0; c < r; ++c) EXPECT_EQ(t[i](r, c), T(0)) << Describe(shape);
      }
    }
  }
  std::printf("worst %.2f roundoffs\n", worst);
}

// However the columns are shared out, the bits are the same.
TYPED_TEST(WyTest, LarfbIsTheProduct) {
  using T = TypeParam;
  double worst = 0;
  int cols = 0;
  for (const Shape& shape : Shapes()) {
    cols = cols % 136 + 24;
    const bool transpose = cols % 16 == 0;
    const int c0 = cols / 3 / kColumnUnit * kColumnUnit;
    const std::vector<Update<T>> batch = {RandomUpdate<T>(shape, cols, 3),
                                          RandomUpdate<T>(shape, cols, 4)};
    const std::vector<Matrix<T>> result = RunLarfb<T>(shape, transpose, c0, false, batch);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const double error = UpdateError(batch[i], transpose, result[i]);
      EXPECT_LE(error, kLarfbError) << Describe(shape) << " columns " << cols << " from " << c0
                                    << " transpose " << transpose << " matrix " << i;
      worst = std::max(worst, error);
    }
    for (const int width : {32, 64}) {  // just as many tiles as multiprocessors
      const int tiles = static_cast<int>(batch.size()) * ((cols + width - 1) / width);
      const auto shared_out = RunLarfb<T>(shape, transpose, c0, false, batch, tiles);
      for (std::size_t i = 0; i < batch.size(); ++i) {
        EXPECT_TRUE(SameBits(shared_out[i], result[i]))
            << Describe(shape) << " columns " << cols << " tiles of " << width << " matrix " << i;
      }
    }
  }
  std::printf("worst %.2f roundoffs\n", worst);
}

// Every kind of reflectors, H = I among them: what is applied to the identity is orthogonal.
TYPED_TEST(WyTest, QIsOrthogonal) {
  using T = TypeParam;
  double worst = 0;
  for (const Shape& shape : {Shape{100, 0, 40}, Shape{72, 0, 64}, Shape{30, 0, 16}}) {
    std::vector<Reflectors<T>> reflectors;
    for (const Kind kind : kKinds) {
      reflectors.push_back(MakeReflectors<T>(kind, shape.rows, shape.nb, 5));
    }
    const std::vector<Matrix<T>> t = RunLarft(shape, reflectors);
    Matrix<T> identity(shape.rows, RoundUp(shape.rows, kColumnUnit));
    for (int i = 0; i < shape.rows; ++i) identity(i, i) = 1;
    std::vector<Update<T>> batch;
    for (std::size_t i = 0; i < t.size(); ++i) batch.push_back({reflectors[i].v, t[i], identity});
    const std::vector<Matrix<T>> q = RunLarfb<T>(shape, false, 0, false, batch);
    for (std::size_t i = 0; i < q.size(); ++i) {
      // The rows of Q; orthogonal as its columns.
      const double ratio =
          OrthogonalityRatio(Corner(q[i], shape.rows, shape.rows).data, shape.rows, shape.rows);
      EXPECT_LE(ratio, 1) << Name(kKinds[i]) << ' ' << Describe(shape);
      worst = std::max(worst, ratio);
    }
  }
  std::printf("worst ratio %.3f\n", worst);
}

TYPED_TEST(WyTest, ZeroTauGivesZeroRowAndColumn) {
  using T = TypeParam;
  const Shape shape = {90, 0, 64};
  std::vector<Reflectors<T>> batch = {MakeReflectors<T>(Kind::kNormal, 90, 64, 6)};
  for (const std::size_t c : {0u, 5u, 31u, 32u, 50u, 63u}) batch[0].tau[c] = 0;
  const Matrix<T> t = RunLarft(shape, batch)[0];
  for (const int c : {0, 5, 31, 32, 50, 63}) {
    for (int r = 0; r < 64; ++r) {
      EXPECT_EQ(t(r, c), T(0)) << r << ',' << c;
      EXPECT_EQ(t(c, r), T(0)) << c << ',' << r;
    }
  }
  EXPECT_LE(ColumnError(t, ReferenceT(batch[0]), Matrix<T>(64, 64, T(1))), kLarftError);
}

// ---- bits

// In the array of V itself, and in narrow tiles; and nothing but C changes there.
TYPED_TEST(WyTest, LarfbInPlaceHasTheSameBits) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{150, 16, 48}, Shape{97, 0, 16}}) {
    const std::vector<Update<T>> batch = {RandomUpdate<T>(shape, 72, 7),
                                          RandomUpdate<T>(shape, 72, 8)};
    const auto apart = RunLarfb<T>(shape, true, 0, false, batch);
    const auto in_place =
        RunLarfb<T>(shape, true, shape.j + shape.nb, true, batch, kMultiprocessors);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_TRUE(SameBits(apart[i], in_place[i])) << Describe(shape);
    }
  }
}

// A column's bits are the same at any place among any others.
TYPED_TEST(WyTest, ColumnsDoNotDependOnTheirPlace) {
  using T = TypeParam;
  for (const bool transpose : {false, true}) {
    const Shape shape = {140, 0, 56};
    Update<T> all = RandomUpdate<T>(shape, 136, 9);
    const Matrix<T> expected = RunLarfb<T>(shape, transpose, 0, false, {all})[0];
    for (const auto& [first, last] : {std::pair{8, 136}, {56, 72}, {128, 136}, {24, 112}}) {
      Matrix<T> part(all.c.rows, last - first);
      for (int r = 0; r < part.rows; ++r) {
        for (int c = 0; c < part.cols; ++c) part(r, c) = all.c(r, first + c);
      }
      const Matrix<T> result =
          RunLarfb<T>(shape, transpose, first, false, {{all.v, all.t, part}})[0];
      for (int r = 0; r < part.rows; ++r) {
        for (int c = 0; c < part.cols; ++c) {
          ASSERT_EQ(result(r, c), expected(r, first + c)) << r << ',' << first + c;
        }
      }
    }
  }
}

// Zero rows below, and columns of V that are zero with tau = 0, change nothing.
TYPED_TEST(WyTest, PaddingDoesNotChangeBits) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{70, 0, 24}, Shape{200, 0, 40}, Shape{300, 0, 8}}) {
    const int rows = shape.rows;
    const Reflectors<T> reflectors = MakeReflectors<T>(Kind::kNormal, rows, shape.nb, 10);
    const Matrix<T> c = RandomMatrix<T>(rows, 64, 11);
    const Matrix<T> t = RunLarft(shape, std::vector{reflectors})[0];
    const Matrix<T> expected = RunLarfb<T>(shape, true, 0, false, {{reflectors.v, t, c}})[0];
    for (const auto& [more_rows, more_cols] : {std::pair{1, 0}, {133, 0}, {0, 8}, {77, 24}}) {
      const Shape larger = {rows + more_rows, 0, shape.nb + more_cols};
      Reflectors<T> padded = {Padded(reflectors.v, larger.rows, larger.nb), reflectors.tau};
      padded.tau.resize(static_cast<std::size_t>(larger.nb), T(0));
      const Matrix<T> larger_t = RunLarft(larger, std::vector{padded})[0];
      EXPECT_TRUE(SameBits(Corner(larger_t, shape.nb, shape.nb), t)) << Describe(larger);
      const Matrix<T> result = RunLarfb<T>(larger, true, 0, false,
                                           {{padded.v, larger_t, Padded(c, larger.rows, 64)}})[0];
      EXPECT_TRUE(SameBits(Corner(result, rows, 64), expected)) << Describe(larger);
      for (int r = rows; r < larger.rows; ++r) {
        for (int k = 0; k < 64; ++k) EXPECT_EQ(result(r, k), T(0));
      }
    }
  }
}

// A cluster shares a tall matrix where there are few; in a large batch one block has it alone.
TYPED_TEST(WyTest, LarftOfManyHasTheBitsOfOne) {
  using T = TypeParam;
  for (const Shape& shape : {Shape{600, 0, 8}, Shape{257, 0, 40}, Shape{2100, 8, 16}}) {
    const std::vector<Reflectors<T>> one = {
        MakeReflectors<T>(Kind::kNormal, shape.rows - shape.j, shape.nb, 20)};
    const std::vector<Reflectors<T>> many(kMany, one[0]);
    const Matrix<T> expected = RunLarft(shape, one)[0];
    EXPECT_LE(ColumnError(expected, ReferenceT(one[0]), Matrix<T>(shape.nb, shape.nb, T(1))),
              kLarftError);
    for (const Matrix<T>& t : RunLarft(shape, many)) {
      ASSERT_TRUE(SameBits(t, expected)) << Describe(shape);
    }
  }
}

// The blocks of columns of one call, with a cluster for each and without: each has the T that it
// has alone.
TYPED_TEST(WyTest, LarftOfBlocksHasTheBitsOfEach) {
  using T = TypeParam;
  const Shape all = {280, 8, 152};
  const Reflectors<T> reflectors = MakeReflectors<T>(Kind::kNormal, all.rows - all.j, all.nb, 21);
  std::vector<Matrix<T>> expected;
  for (int c = 0; c < all.nb; c += kMaxBlock) {
    const Shape block = {all.rows, all.j + c, std::min(kMaxBlock, all.nb - c)};
    Reflectors<T> own = {Matrix<T>(block.rows - block.j, block.nb), {}};
    for (int r = 0; r < own.v.rows; ++r) {
      for (int k = 0; k < block.nb; ++k) own.v(r, k) = reflectors.v(c + r, c + k);
    }
    own.tau.assign(reflectors.tau.begin() + c, reflectors.tau.begin() + c + block.nb);
    expected.push_back(RunLarft(block, std::vector{own})[0]);
  }
  for (const std::size_t count : {std::size_t{1}, kMany / expected.size() + 1}) {
    for (const auto& t : RunLarftOfBlocks(all, std::vector(count, reflectors))) {
      ASSERT_EQ(t.size(), expected.size());
      for (std::size_t b = 0; b < t.size(); ++b) {
        ASSERT_TRUE(SameBits(t[b], expected[b])) << "block " << b << " of " << count;
      }
    }
  }
}

// A matrix of NaN in the middle of a batch: the others' bits are those they have alone.
TYPED_TEST(WyTest, MatricesDoNotMeet) {
  using T = TypeParam;
  const Shape shape = {100, 8, 64};
  std::vector<Reflectors<T>> reflectors;
  std::vector<Update<T>> updates;
  for (int i = 0; i < 5; ++i) {
    reflectors.push_back(MakeReflectors<T>(Kind::kNormal, 92, 64, 12 + i));
    updates.push_back(RandomUpdate<T>(shape, 80, 12 + i));
  }
  std::fill(reflectors[2].v.data.begin(), reflectors[2].v.data.end(), kNaN<T>);
  std::fill(reflectors[2].tau.begin(), reflectors[2].tau.end(), kNaN<T>);
  updates[2].v = reflectors[2].v;
  std::fill(updates[2].c.data.begin(), updates[2].c.data.end(), kNaN<T>);
  const std::vector<Matrix<T>> t = RunLarft(shape, reflectors);
  const std::vector<Matrix<T>> c = RunLarfb<T>(shape, true, 8, false, updates);
  for (const std::size_t i : {0u, 1u, 3u, 4u}) {
    EXPECT_TRUE(SameBits(t[i], RunLarft(shape, std::vector{reflectors[i]})[0])) << i;
    EXPECT_TRUE(SameBits(c[i], RunLarfb<T>(shape, true, 8, false, {updates[i]})[0])) << i;
    EXPECT_LE(UpdateError(updates[i], true, c[i]), kLarfbError);
  }
  EXPECT_TRUE(std::isnan(t[2](0, 0)));
  EXPECT_TRUE(std::isnan(c[2](0, 0)));
}

TYPED_TEST(WyTest, NothingToDo) {
  using T = TypeParam;
  WorkArray<T> a(16, 8, 1);
  const Work<T> work = a.Upload();
  EXPECT_EQ(Larfb<T>(work, 0, 8, {}, false, work, 8, 8, kMultiprocessors, nullptr), cudaSuccess);
  Work<T> none = work;
  none.count = 0;
  EXPECT_EQ(Larfb<T>(none, 0, 8, {}, false, none, 0, 8, kMultiprocessors, nullptr), cudaSuccess);
  EXPECT_EQ(Larft<T>(none, 0, 8, {}, WorkVectors<T>{}, nullptr), cudaSuccess);
}

}  // namespace
}  // namespace factord::kernels

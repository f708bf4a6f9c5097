#ifndef FACTORD_CLIENT_EXAMPLES_CPP_MATRIX_H_
#define FACTORD_CLIENT_EXAMPLES_CPP_MATRIX_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

// What these examples need of row-major matrices: their bytes, and whether A = QR.
namespace factord::examples {

// Seeded normal numbers.
template <typename T>
std::vector<T> Normal(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<T> distribution;
  std::vector<T> values(count);
  for (T& value : values) value = distribution(generator);
  return values;
}

// The bytes of a tensor, which are little-endian: as in the memory of every machine that this is
// likely to run on. The vector must outlive the view.
template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> ValuesOf(absl::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

struct Residuals {
  double residual = 0;       // |A-QR| / |A|
  double orthogonality = 0;  // |Q'Q-I|
};

// Frobenius norms, of one m x n matrix, m >= n.
template <typename T>
Residuals ResidualsOf(const T* a, const T* q, const T* r, int m, int n) {
  double difference = 0, norm = 0, orthogonality = 0;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = a[i * n + j];
      norm += sum * sum;
      for (int k = 0; k <= j; ++k) sum -= static_cast<double>(q[i * n + k]) * r[k * n + j];
      difference += sum * sum;
    }
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = i == j ? -1 : 0;
      for (int k = 0; k < m; ++k) sum += static_cast<double>(q[k * n + i]) * q[k * n + j];
      orthogonality += sum * sum;
    }
  }
  return {std::sqrt(difference / norm), std::sqrt(orthogonality)};
}

inline std::vector<double> Times(const std::vector<double>& a, const std::vector<double>& x) {
  std::vector<double> y(a.size() / x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    for (size_t j = 0; j < x.size(); ++j) y[i] += a[i * x.size() + j] * x[j];
  }
  return y;
}

inline std::vector<double> TransposedTimes(const std::vector<double>& a,
                                           const std::vector<double>& x) {
  std::vector<double> y(a.size() / x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t j = 0; j < y.size(); ++j) y[j] += a[i * y.size() + j] * x[i];
  }
  return y;
}

// |x - from| / |from|.
inline double Distance(const std::vector<double>& x, const std::vector<double>& from) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - from[i]) * (x[i] - from[i]);
    norm += from[i] * from[i];
  }
  return std::sqrt(difference / norm);
}

// The same for one large matrix of n columns: |Ax-Q(Rx)| / |Ax| and |Q'(Qx)-x| / |x|, x random.
inline Residuals ResidualsOnVector(const std::vector<double>& a, const std::vector<double>& q,
                                   const std::vector<double>& r, int n) {
  const std::vector<double> x = Normal<double>(n, 99);
  return {Distance(Times(q, Times(r, x)), Times(a, x)),
          Distance(TransposedTimes(q, Times(q, x)), x)};
}

}  // namespace factord::examples

#endif  // FACTORD_CLIENT_EXAMPLES_CPP_MATRIX_H_

#include "tests/support/generators.h"

#include <cmath>
#include <limits>

namespace factord::testing {
namespace {

template <class T>
struct Parts {
  using Real = T;
  static T Make(Real re, Real) { return re; }
};
template <class R>
struct Parts<std::complex<R>> {
  using Real = R;
  static std::complex<R> Make(R re, R im) { return {re, im}; }
};
template <class T>
using Real = typename Parts<T>::Real;

template <class R>
std::complex<R> Times(std::complex<R> x, R scale) {
  return {x.real() * scale, x.imag() * scale};
}
template <class R>
R Times(R x, R scale) {
  return x * scale;
}
template <class R>
std::complex<R> Ldexp(std::complex<R> x, int e) {
  return {std::ldexp(x.real(), e), std::ldexp(x.imag(), e)};
}
template <class R>
R Ldexp(R x, int e) {
  return std::ldexp(x, e);
}

}  // namespace

std::string_view Name(Kind kind) {
  switch (kind) {
    case Kind::kNormal:
      return "normal";
    case Kind::kIdentity:
      return "identity";
    case Kind::kZero:
      return "zero";
    case Kind::kZeroColumn:
      return "zero column";
    case Kind::kRankOne:
      return "rank one";
    case Kind::kEqualColumns:
      return "equal columns";
    case Kind::kNearlyDependent:
      return "nearly dependent";
    case Kind::kGradedColumns:
      return "graded columns";
    case Kind::kGradedRows:
      return "graded rows";
    case Kind::kHilbert:
      return "Hilbert";
    case Kind::kUpper:
      return "upper";
    case Kind::kNearOverflow:
      return "near overflow";
    case Kind::kSmallestNormal:
      return "smallest normal";
    case Kind::kSubnormal:
      return "subnormal";
    case Kind::kPermutation:
      return "permutation";
    case Kind::kLastUnit:
      return "last unit";
    case Kind::kZeroDiagonal:
      return "zero diagonal";
    case Kind::kTinyTails:
      return "tiny tails";
    case Kind::kNegativeIdentity:
      return "negative identity";
    case Kind::kTinyBlock:
      return "tiny block";
  }
  return "";
}

template <class T>
std::vector<T> Normal(std::int64_t m, std::int64_t n, std::uint64_t seed) {
  using R = Real<T>;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> A(static_cast<std::size_t>(m * n));
  for (T& a : A) {
    const R re = static_cast<R>(normal(random));
    a = Parts<T>::Make(re, static_cast<R>(normal(random)));
  }
  return A;
}

template <class T>
std::vector<T> Generate(Kind kind, std::int64_t m, std::int64_t n, std::uint64_t seed) {
  using R = Real<T>;
  using Limits = std::numeric_limits<R>;
  std::vector<T> A = Normal<T>(m, n, seed);
  const auto at = [&A, m](std::int64_t i, std::int64_t j) -> T& {
    return A[static_cast<std::size_t>(i + j * m)];
  };
  const auto each = [m, n](auto&& f) {
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < m; ++i) f(i, j);
    }
  };
  // j / (n - 1) in [0, 1].
  const auto part = [](std::int64_t j, std::int64_t count) {
    return count > 1 ? double(j) / double(count - 1) : 0.5;
  };
  switch (kind) {
    case Kind::kNormal:
      break;
    case Kind::kIdentity:
      each([&](auto i, auto j) { at(i, j) = T(i == j ? 1 : 0); });
      break;
    case Kind::kZero:
      each([&](auto i, auto j) { at(i, j) = T(0); });
      break;
    case Kind::kZeroColumn:
      each([&](auto i, auto j) {
        if (j == n / 2) at(i, j) = T(0);
      });
      break;
    case Kind::kRankOne: {
      const std::vector<T> row = Normal<T>(1, n, seed + 1);
      each([&](auto i, auto j) {
        if (j > 0) at(i, j) = at(i, 0) * row[static_cast<std::size_t>(j)];
      });
      break;
    }
    case Kind::kEqualColumns:
      each([&](auto i, auto j) {
        if (j > 0) at(i, j) = at(i, 0);
      });
      break;
    case Kind::kNearlyDependent: {
      const double digits = sizeof(R) == 4 ? 5 : 13;
      each([&](auto i, auto j) {
        if (j > 0)
          at(i, j) =
              at(i, 0) + Times(at(i, j), static_cast<R>(std::pow(10.0, -3 - digits * part(j, n))));
      });
      break;
    }
    case Kind::kGradedColumns: {
      const double decades = sizeof(R) == 4 ? 30 : 300;
      each([&](auto i, auto j) {
        at(i, j) = Times(at(i, j), static_cast<R>(std::pow(10.0, decades * (1 - 2 * part(j, n)))));
      });
      break;
    }
    case Kind::kGradedRows: {
      const int low = Limits::min_exponent - Limits::digits, high = Limits::max_exponent - 4;
      each([&](auto i, auto j) {
        at(i, j) = Ldexp(at(i, j), static_cast<int>(low + (high - low) * part(i, m)));
      });
      break;
    }
    case Kind::kHilbert:
      each([&](auto i, auto j) { at(i, j) = T(R(1) / static_cast<R>(i + j + 1)); });
      break;
    case Kind::kUpper:
      each([&](auto i, auto j) {
        if (i > j) at(i, j) = T(0);
      });
      break;
    case Kind::kNearOverflow:
      // Columns of norm below the largest finite number: R is representable.
      each([&](auto i, auto j) {
        at(i, j) = Times(at(i, j),
                         static_cast<R>(Limits::max() / (16 * std::sqrt(static_cast<R>(m + 1)))));
      });
      break;
    case Kind::kSmallestNormal:
      each([&](auto i, auto j) { at(i, j) = Times(at(i, j), Limits::min()); });
      break;
    case Kind::kSubnormal:
      each([&](auto i, auto j) { at(i, j) = Times(at(i, j), Limits::denorm_min() * R(5)); });
      break;
    case Kind::kPermutation:
      each([&](auto i, auto j) { at(i, j) = T((i * 7 + 3) % (m > 7 ? m : 7) == j ? 1 : 0); });
      break;
    case Kind::kLastUnit:
      each([&](auto i, auto j) { at(i, j) = T(i == m - 1 ? 1 : 0); });
      break;
    case Kind::kZeroDiagonal:
      each([&](auto i, auto j) {
        if (i == j) at(i, j) = (j % 2 == 0) ? T(0) : at(i, j) - T(std::real(at(i, j)));
      });
      break;
    case Kind::kTinyTails: {
      const int low = Limits::min_exponent - Limits::digits;
      each([&](auto i, auto j) {
        if (i > j)
          at(i, j) = Ldexp(at(i, j), j % 3 == 0   ? low + 2
                                     : j % 3 == 1 ? low / 2
                                                  : -2 * Limits::digits);
      });
      break;
    }
    case Kind::kTinyBlock: {
      const int low = Limits::min_exponent - Limits::digits;
      each([&](auto i, auto j) {
        at(i, j) =
            i == 0 ? at(0, 0) : Ldexp(at(i, j), low + 3 + static_cast<int>((i * 5 + j * 3) % 20));
      });
      break;
    }
    case Kind::kNegativeIdentity:
      each([&](auto i, auto j) { at(i, j) = i == j ? T(R(-3.09e12)) : Times(at(i, j), R(1e5)); });
      break;
  }
  return A;
}

#define FACTORD_INSTANTIATE(T)                                                       \
  template std::vector<T> Generate(Kind, std::int64_t, std::int64_t, std::uint64_t); \
  template std::vector<T> Normal(std::int64_t, std::int64_t, std::uint64_t);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::testing

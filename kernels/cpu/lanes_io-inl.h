// Matrices of a run into the lanes of vectors, and back.
#if defined(FACTORD_KERNELS_CPU_LANES_IO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef FACTORD_KERNELS_CPU_LANES_IO_INL_H_
#undef FACTORD_KERNELS_CPU_LANES_IO_INL_H_
#else
#define FACTORD_KERNELS_CPU_LANES_IO_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/cpu/operands.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {

// rows x cols numbers of all lanes' matrices, column-major: entry (i, j) is one vector, or two.
template <class T>
struct LanesBlock {
  using R = Real<T>;
  using A = Numbers<T, Full<R>>;
  using N = typename A::N;
  static constexpr int kNumber = A::kParts * kLanes<R>;

  R* data = nullptr;
  int rows = 0, cols = 0;
  int ld = 0;  // numbers from one column to the next

  HWY_INLINE R* at(std::int64_t i, std::int64_t j) const { return data + (i + j * ld) * kNumber; }
  HWY_INLINE N Get(int i, int j) const { return A::Load(at(i, j), kLanes<R>); }
  HWY_INLINE void Put(int i, int j, N x) const { A::Store(x, at(i, j), kLanes<R>); }
  HWY_INLINE LanesBlock block(int i, int j, int block_rows, int block_cols) const {
    return {at(i, j), block_rows, block_cols, ld};
  }
  HWY_INLINE LanesBlock column(int j) const { return block(0, j, rows, cols - j); }

  static LanesBlock Take(Scratch& scratch, int rows, int cols) {
    return {scratch.Take<R>(std::int64_t{rows} * cols * kNumber), rows, cols, rows};
  }
};

// Walks the entries of a dense matrix in the order of its memory.
struct Cursor {
  int i = 0, j = 0;
  template <class T>
  Cursor(const Dense<T>& dense, std::int64_t entry) {
    const int inner = dense.column_major ? dense.rows : dense.cols;
    const int outer_index = static_cast<int>(entry / inner);
    const int inner_index = static_cast<int>(entry % inner);
    i = dense.column_major ? inner_index : outer_index;
    j = dense.column_major ? outer_index : inner_index;
  }
  template <class T>
  HWY_INLINE void Step(const Dense<T>& dense) {
    if (dense.column_major) {
      if (++i == dense.rows) {
        i = 0;
        ++j;
      }
    } else if (++j == dense.cols) {
      j = 0;
      ++i;
    }
  }
};

template <class T>
struct LanesIo {
  using R = Real<T>;
  using D = Full<R>;
  using A = Numbers<T, D>;
  using N = typename A::N;
  using V = typename A::V;
  using I = hn::Vec<hn::RebindToSigned<D>>;
  using Block = LanesBlock<T>;
  static constexpr int kL = kLanes<R>;
  static constexpr int kParts = A::kParts;

  // Lane l of block := matrix min(l, count - 1) of those from `src` on. Blocks of kL parts of each
  // matrix are transposed in registers; a matrix's last block overlaps the one before it, or where
  // the matrix is smaller than a block, the next matrix.
  static void Gather(const Dense<const T>& src, int count, Block block) {
    const auto* base = reinterpret_cast<const R*>(src.data);
    const std::int64_t size = src.size() * kParts, end = size * count;
    for (std::int64_t p0 = 0; p0 < size; p0 += kL) {
      const std::int64_t p = std::max<std::int64_t>(std::min(p0, size - kL), 0);
      V x[kL];
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        x[l] = LoadUpTo(base, std::min(l, count - 1) * size + p, end);
      }
      Transpose<D>(x);
      PutParts(src, p, size, x, block);
    }
  }
  // kL parts from `at` on, of which those behind `end` do not matter and are not read.
  static HWY_INLINE V LoadUpTo(const R* base, std::int64_t at, std::int64_t end) {
    if (at + kL <= end) return hn::LoadU(D(), base + at);
    return LoadFirst(D(), base + at, static_cast<int>(end - at));
  }
  static HWY_INLINE void PutParts(const Dense<const T>& src, std::int64_t p, std::int64_t size,
                                  const V (&x)[kL], Block block) {
    Cursor cursor(src, p / kParts);
    FACTORD_UNROLL
    for (int q = 0; q < kL; ++q) {
      if (p + q >= size) return;
      R* const to = block.at(cursor.i, cursor.j);
      const int part = PartOf(p, q);
      if (part == 0) {
        hn::StoreU(x[q], D(), to);
      } else {
        hn::StoreU(src.conjugate ? hn::Neg(x[q]) : x[q], D(), to + kL);
      }
      if (part == kParts - 1) cursor.Step(src);
    }
  }
  // Which part of its number the q-th after part p is. Only a scalar is shorter than a number.
  static HWY_INLINE int PartOf(std::int64_t p, int q) {
    return kL % kParts == 0 ? q % kParts : static_cast<int>((p + q) % kParts);
  }

  // The first `count` matrices from `dst` on := lanes of what source(i, j) gives.
  template <class Source>
  static void Scatter(const Source& source, const Dense<T>& dst, int count) {
    if (dst.data == nullptr) return;
    auto* base = reinterpret_cast<R*>(dst.data);
    const std::int64_t size = dst.size() * kParts, end = size * count;
    if (count == kL && ScatterFew(source, dst, base)) return;
    for (std::int64_t p0 = 0; p0 < size; p0 += kL) {
      const std::int64_t p = std::max<std::int64_t>(std::min(p0, size - kL), 0);
      V x[kL];
      GetParts(source, dst, p, size, x);
      Transpose<D>(x);
      // In ascending order: what a small matrix's block leaves in the next matrix is overwritten.
      FACTORD_UNROLL
      for (int l = 0; l < kL; ++l) {
        if (l < count) StoreUpTo(x[l], base, l * size + p, end);
      }
    }
  }
  // Two to four numbers a matrix, as tau of tiny ones: there are instructions for that.
  template <class Source>
  static HWY_INLINE bool ScatterFew(const Source& source, const Dense<T>& dst, R* base) {
    if constexpr (kParts == 1) {
      const auto get = [&](int p) HWY_ATTR {
        return dst.column_major ? source(p % dst.rows, p / dst.rows).re
                                : source(p / dst.cols, p % dst.cols).re;
      };
      switch (dst.size()) {
        case 2:
          hn::StoreInterleaved2(get(0), get(1), D(), base);
          return true;
        case 3:
          hn::StoreInterleaved3(get(0), get(1), get(2), D(), base);
          return true;
        case 4:
          hn::StoreInterleaved4(get(0), get(1), get(2), get(3), D(), base);
          return true;
        default:
          return false;
      }
    }
    return false;
  }
  static HWY_INLINE void StoreUpTo(V x, R* base, std::int64_t at, std::int64_t end) {
    if (at + kL <= end) {
      hn::StoreU(x, D(), base + at);
    } else {
      StoreFirst(x, D(), base + at, static_cast<int>(end - at));
    }
  }
  template <class Source>
  static HWY_INLINE void GetParts(const Source& source, const Dense<T>& dst, std::int64_t p,
                                  std::int64_t size, V (&x)[kL]) {
    Cursor cursor(dst, p / kParts);
    N number = A::Zero();
    FACTORD_UNROLL
    for (int q = 0; q < kL; ++q) {
      x[q] = hn::Zero(D());
      if (p + q >= size) continue;
      const int part = PartOf(p, q);
      if (part == 0 || q == 0) number = source(cursor.i, cursor.j);
      x[q] = part == 0 ? number.re : ImaginaryOf(number, dst.conjugate);
      if (part == kParts - 1) cursor.Step(dst);
    }
  }
  static HWY_INLINE V ImaginaryOf(N x, bool conjugate) {
    if constexpr (kParts == 1) return x.re;
    if constexpr (kParts == 2) return conjugate ? hn::Neg(x.im) : x.im;
  }

  static HWY_INLINE I Larger(I a, I b) { return hn::Max(a, b); }
  static HWY_INLINE I None() { return hn::Zero(hn::RebindToSigned<D>()); }

  // Columns of a times powers of two, those into power[j]; returns the magnitude of the largest
  // part of all.
  static I Scale(Block a, V* power) {
    I all = None();
    for (int j = 0; j < a.cols; ++j) {
      I largest = None();
      for (int i = 0; i < a.rows; ++i) largest = Larger(largest, A::Magnitude(a.Get(i, j)));
      all = Larger(all, largest);
      power[j] = Fields<D>::Scale(largest);
      for (int i = 0; i < a.rows; ++i) a.Put(i, j, A::Times(a.Get(i, j), power[j]));
    }
    return all;
  }
  // The first rows(j) entries of column j scaled back, row i times sign[i] as well where there is
  // one; likewise returns the largest magnitude.
  static I Unscale(Block a, const V* power, bool upper, const V* sign) {
    I largest = None();
    for (int j = 0; j < a.cols; ++j) {
      const V back = Fields<D>::Unscale(power[j]);
      const int rows = upper ? std::min(j + 1, a.rows) : a.rows;
      for (int i = 0; i < rows; ++i) {
        N x = A::Times(a.Get(i, j), back);
        if (sign != nullptr) x = A::Times(x, sign[i]);
        largest = Larger(largest, A::Magnitude(x));
        a.Put(i, j, x);
      }
    }
    return largest;
  }

  // Bit l: lane l holds a NaN or an Inf.
  static std::uint32_t Nonfinite(I magnitude) {
    using DI = hn::RebindToSigned<D>;
    HWY_ALIGN hn::TFromD<DI> fields[kL];
    hn::Store(Fields<D>::Of(magnitude), DI(), fields);
    std::uint32_t bits = 0;
    for (int l = 0; l < kL; ++l) bits |= std::uint32_t{fields[l] == Ieee<R>::kTopField} << l;
    return bits;
  }
};

}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // FACTORD_KERNELS_CPU_LANES_IO_INL_H_

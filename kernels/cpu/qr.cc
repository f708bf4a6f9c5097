#include "kernels/cpu/qr.h"

#include <algorithm>

#include "hwy/targets.h"
#include "kernels/cpu/kernels.h"

namespace factord::kernels::cpu {
namespace {

// Up to this many numbers of scratch memory for all lanes' matrices, going across matrices is
// quicker: beyond it they leave the cache.
template <class T>
bool IsSmall(const Run<T>& run) {
  constexpr std::int64_t kCacheBytes = 512 << 10;
  return run.m * std::int64_t{std::max(run.n, run.p)} * Lanes<T>() *
             static_cast<std::int64_t>(sizeof(T)) <=
         kCacheBytes;
}

// The fewest matrices for which a group is quicker than one after the other. A group takes as long
// as, of 8^2, 2.6 lone ones (f32, 16 lanes) or 2.5 (f64, 8 lanes); of 16^2, 6 or 5; of 32^2, 10 or
// 7; of 64^2, 15 or 8.
template <class T>
std::int64_t FewestOfGroup(const Run<T>& run) {
  const std::int64_t lanes = Lanes<T>();
  return std::clamp<std::int64_t>(lanes * run.k() / 48, 3, std::max<std::int64_t>(3, lanes));
}

template <class T>
void RunOne(const Problem& problem, const Run<T>& run, std::int64_t i, std::uint32_t* status,
            std::byte* scratch, Tiles* tiles) {
  if (GoesAcrossBlocks<T>(problem, run.m, run.n)) {
    RunAcrossBlocks(problem, run, i, status, scratch, tiles);
  } else if (IsTall<T>(run.m, run.n)) {
    RunAcrossRows(problem, run, i, status, scratch, tiles);
  } else {
    RunAcrossColumns(problem, run, i, status, scratch, tiles);
  }
}

}  // namespace

template <class T>
bool IsTall(int m, int n) {
  return n <= 64 && m >= 32 && m >= (n <= 4 || m >= 256 ? 8 : 16) * n;
}

template <class T>
bool GoesAcrossBlocks(const Problem& problem, int m, int n) {
  const bool only_r =
      problem.op == Op::kFactorize && problem.r && !problem.reflectors && problem.q == QMode::kNone;
  return !kIsComplex<T> && only_r && n >= 1 && n <= kMostBlockColumns && m >= 4096;
}

template <class T>
int BlockRows(int n) {
  // Half a MB, so that threads share what is not much larger; but many times n, since combining the
  // lanes' triangles at a block's end takes as long as some 8 n or 16 n of its rows.
  constexpr int kBytes = 512 << 10, kUnit = 256;
  const int rows = std::max(kBytes / (n * static_cast<int>(sizeof(T))), 512 * n);
  return (rows + kUnit - 1) / kUnit * kUnit;
}

template <class T>
std::size_t ScratchBytes(const Problem& problem, const Run<T>& run) {
  if (GoesAcrossBlocks<T>(problem, run.m, run.n)) return AcrossBlocksScratchBytes(problem, run);
  if (IsTall<T>(run.m, run.n)) return AcrossRowsScratchBytes(problem, run);
  const std::size_t columns = AcrossColumnsScratchBytes(problem, run);
  return IsSmall(run) ? std::max(columns, AcrossMatricesScratchBytes(problem, run)) : columns;
}

template <class T>
void RunQr(const Problem& problem, const Run<T>& run, std::int64_t first, std::int64_t count,
           std::uint32_t* status, std::byte* scratch) {
  std::int64_t across_matrices = 0;
  if (IsSmall(run) && !IsTall<T>(run.m, run.n)) {
    const int lanes = Lanes<T>();
    const std::int64_t rest = count % lanes;
    across_matrices = rest >= FewestOfGroup(run) ? count : count - rest;
  }
  if (across_matrices > 0) {
    RunAcrossMatrices(problem, run, first, across_matrices, status, scratch);
  }
  for (std::int64_t i = across_matrices; i < count; ++i) {
    RunOne<T>(problem, run, first + i, status + i, scratch, nullptr);
  }
}

template <class T>
void RunQrTogether(const Problem& problem, const Run<T>& run, std::int64_t i, std::uint32_t* status,
                   std::byte* scratch, Tiles& tiles) {
  RunOne<T>(problem, run, i, status, scratch, &tiles);
}

const char* InstructionSet() {
  // The best comes first.
  return hwy::TargetName(hwy::SupportedAndGeneratedTargets().front());
}

#define FACTORD_INSTANTIATE(T)                                                                   \
  template bool IsTall<T>(int, int);                                                             \
  template bool GoesAcrossBlocks<T>(const Problem&, int, int);                                   \
  template int BlockRows<T>(int);                                                                \
  template std::size_t ScratchBytes(const Problem&, const Run<T>&);                              \
  template void RunQr(const Problem&, const Run<T>&, std::int64_t, std::int64_t, std::uint32_t*, \
                      std::byte*);                                                               \
  template void RunQrTogether(const Problem&, const Run<T>&, std::int64_t, std::uint32_t*,       \
                              std::byte*, Tiles&);
FACTORD_INSTANTIATE(float)
FACTORD_INSTANTIATE(double)
FACTORD_INSTANTIATE(std::complex<float>)
FACTORD_INSTANTIATE(std::complex<double>)
#undef FACTORD_INSTANTIATE

}  // namespace factord::kernels::cpu

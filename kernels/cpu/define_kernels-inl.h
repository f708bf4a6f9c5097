// Defines kernels.h for one type, once for each instruction set. Included by the file of that type,
// which sets FACTORD_TYPE, and HWY_TARGET_INCLUDE to itself.
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/across_blocks-inl.h"
#include "kernels/cpu/across_columns-inl.h"
#include "kernels/cpu/across_rows-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matrix_group-inl.h"
#include "kernels/cpu/one_matrix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace factord::kernels::cpu::HWY_NAMESPACE {
namespace {

using Type = FACTORD_TYPE;

int LanesOf() { return MatrixGroup<Type>::kL; }

void RunGroups(const Problem& problem, const Run<Type>& run, std::int64_t first, std::int64_t count,
               std::uint32_t* status, std::byte* scratch) {
  using Group = MatrixGroup<Type>;
  Group group(problem, run, Scratch(scratch));
  const auto size = [&](std::int64_t i) {
    return static_cast<int>(std::clamp<std::int64_t>(count - i, 0, Group::kL));
  };
  for (std::int64_t i = 0; i < count; i += Group::kL) {
    group.Prefetch(first + i + Group::kL, size(i + Group::kL));
    group.Run(first + i, size(i), status + i);
  }
}
std::size_t GroupBytes(const Problem& problem, const Run<Type>& run) {
  return MatrixGroup<Type>(problem, run, Scratch(nullptr)).scratch_bytes();
}

template <template <class> class Way>
void RunOne(const Problem& problem, const Run<Type>& run, std::int64_t i, std::uint32_t* status,
            std::byte* scratch, Tiles* tiles) {
  OneMatrix<Type, Way>(problem, run, Scratch(scratch), tiles).Run(i, status);
}
// Enough for one thread and for several.
template <template <class> class Way>
std::size_t OneBytes(const Problem& problem, const Run<Type>& run) {
  Tiles tiles;
  return OneMatrix<Type, Way>(problem, run, Scratch(nullptr), &tiles).scratch_bytes();
}
void RunColumns(const Problem& problem, const Run<Type>& run, std::int64_t i, std::uint32_t* status,
                std::byte* scratch, Tiles* tiles) {
  RunOne<AcrossColumns>(problem, run, i, status, scratch, tiles);
}
std::size_t ColumnsBytes(const Problem& problem, const Run<Type>& run) {
  return OneBytes<AcrossColumns>(problem, run);
}
void RunRows(const Problem& problem, const Run<Type>& run, std::int64_t i, std::uint32_t* status,
             std::byte* scratch, Tiles* tiles) {
  RunOne<AcrossRows>(problem, run, i, status, scratch, tiles);
}
std::size_t RowsBytes(const Problem& problem, const Run<Type>& run) {
  return OneBytes<AcrossRows>(problem, run);
}

using Blocks =
    std::conditional_t<kIsComplex<Type>, OneMatrix<Type, AcrossRows>, AcrossBlocks<Type>>;
void RunBlocks(const Problem& problem, const Run<Type>& run, std::int64_t i, std::uint32_t* status,
               std::byte* scratch, Tiles* tiles) {
  Blocks(problem, run, Scratch(scratch), tiles).Run(i, status);
}
std::size_t BlocksBytes(const Problem& problem, const Run<Type>& run) {
  Tiles tiles;
  return Blocks(problem, run, Scratch(nullptr), &tiles).scratch_bytes();
}

}  // namespace
}  // namespace factord::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace factord::kernels::cpu {

HWY_EXPORT(LanesOf);
HWY_EXPORT(RunGroups);
HWY_EXPORT(GroupBytes);
HWY_EXPORT(RunColumns);
HWY_EXPORT(ColumnsBytes);
HWY_EXPORT(RunRows);
HWY_EXPORT(RowsBytes);
HWY_EXPORT(RunBlocks);
HWY_EXPORT(BlocksBytes);

template <>
int Lanes<FACTORD_TYPE>() {
  return HWY_DYNAMIC_DISPATCH(LanesOf)();
}
template <>
void RunAcrossMatrices(const Problem& problem, const Run<FACTORD_TYPE>& run, std::int64_t first,
                       std::int64_t count, std::uint32_t* status, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(RunGroups)(problem, run, first, count, status, scratch);
}
template <>
std::size_t AcrossMatricesScratchBytes(const Problem& problem, const Run<FACTORD_TYPE>& run) {
  return HWY_DYNAMIC_DISPATCH(GroupBytes)(problem, run);
}
template <>
void RunAcrossColumns(const Problem& problem, const Run<FACTORD_TYPE>& run, std::int64_t i,
                      std::uint32_t* status, std::byte* scratch, Tiles* tiles) {
  HWY_DYNAMIC_DISPATCH(RunColumns)(problem, run, i, status, scratch, tiles);
}
template <>
std::size_t AcrossColumnsScratchBytes(const Problem& problem, const Run<FACTORD_TYPE>& run) {
  return HWY_DYNAMIC_DISPATCH(ColumnsBytes)(problem, run);
}

template <>
void RunAcrossRows(const Problem& problem, const Run<FACTORD_TYPE>& run, std::int64_t i,
                   std::uint32_t* status, std::byte* scratch, Tiles* tiles) {
  HWY_DYNAMIC_DISPATCH(RunRows)(problem, run, i, status, scratch, tiles);
}
template <>
std::size_t AcrossRowsScratchBytes(const Problem& problem, const Run<FACTORD_TYPE>& run) {
  return HWY_DYNAMIC_DISPATCH(RowsBytes)(problem, run);
}
template <>
void RunAcrossBlocks(const Problem& problem, const Run<FACTORD_TYPE>& run, std::int64_t i,
                     std::uint32_t* status, std::byte* scratch, Tiles* tiles) {
  HWY_DYNAMIC_DISPATCH(RunBlocks)(problem, run, i, status, scratch, tiles);
}
template <>
std::size_t AcrossBlocksScratchBytes(const Problem& problem, const Run<FACTORD_TYPE>& run) {
  return HWY_DYNAMIC_DISPATCH(BlocksBytes)(problem, run);
}

}  // namespace factord::kernels::cpu
#endif  // HWY_ONCE

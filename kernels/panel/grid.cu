// Tall panels: the rows of one matrix in the registers of many blocks.
//
// A slab of SlabRows rows is one block's for the whole panel. Its warps own contiguous rows; a lane
// (row_lane, column_lane), 4 x 8 of them, holds rows row_lane + 4 i and columns 8 m + column_lane
// of them: x[i][m]. So a row's four column groups are static registers, of which finished ones cost
// nothing; a pivot column reaches all lanes by one shuffle an item; and sums over a warp's rows
// take three shuffles for all 32 columns, after which lane q has column q's. (In shared memory
// each pass would read and write what registers hold for free, and it holds no more than they do.)
//
// Column c, with its tail t below the pivot row: every block sums s_q = t^T a_q over its rows for
// all columns q, one exchange adds them over the blocks, and gives the pivot row to all. Then every
// block has sigma = s_c, alpha, and all v^T a_q = a(c, q) + scale s_q, and computes the same
// reflector from the same bits.
//
// The diagonal lies in the first kColumns rows, which are those of block 0's first warp: so it
// alone has rows that are finished. Tails stay raw until the end: row c of R is written when it is
// known, and V, scaled, with the last column done.
//
// Sums: items in ascending order, lanes by a tree, then warps, and then blocks with the same
// remainder by kWarps, in ascending order. Rows of zeros add zeros at each chain's end.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/householder.h"
#include "kernels/panel/grid_exchange.h"
#include "kernels/panel/panel.h"
#include "kernels/simt/launch.h"
#include "kernels/simt/ptx.h"
#include "kernels/simt/sums.h"

namespace factord::kernels {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kBlocksPerMultiprocessor = 2;
constexpr int kFewestMultiprocessors = 100;  // of a supported device

constexpr int kColumns = 32;
constexpr int kColumnLanes = 8, kRowLanes = 4;
constexpr int kGroups = kColumns / kColumnLanes;

// Both types fill half of the registers and take equally long for a pass.
constexpr int Items(Dtype dtype) { return dtype == Dtype::kF32 ? 16 : 8; }
constexpr int SlabRows(Dtype dtype) { return kWarps * kRowLanes * Items(dtype); }
constexpr int SlabCount(Dtype dtype, int rows) {
  return (rows + SlabRows(dtype) - 1) / SlabRows(dtype);
}

template <class T>
struct Shared {
  T warp_sum[kWarps][kColumns];   // of the block's rows
  T block_sum[kWarps][kColumns];  // of the blocks that a warp collects
};

// The sum over the warps, in their order.
template <class T>
__device__ __forceinline__ T SumOverWarps(const T (&part)[kWarps][kColumns], int lane) {
  T sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += part[w][lane];
  return sum;
}

// Sums over the row lanes, scattered: from column 8 m + column_lane in d[m] to column `lane`.
template <class T>
__device__ __forceinline__ T SumOverRowLanes(T (&d)[kGroups], int lane) {
#pragma unroll
  for (int half = kGroups / 2, bit = 16; half >= 1; half /= 2, bit /= 2) {
    const bool upper = (lane & bit) != 0;
#pragma unroll
    for (int m = 0; m < half; ++m) {
      const T keep = upper ? d[m + half] : d[m];
      const T send = upper ? d[m] : d[m + half];
      d[m] = keep + __shfl_xor_sync(kAllLanes, send, bit);
    }
  }
  return d[0];
}

// What one thread knows of the panel: its entries, and where they belong.
template <class T>
class SlabThread {
 public:
  // `a`: the panel's first entry.
  __device__ __forceinline__ SlabThread(T* a, int ld, int rows, int nb, T* tau,
                                        Message<T>* messages)
      : a_(a), tau_(tau), messages_(messages), ld_(ld), rows_(rows), nb_(nb) {}

  __device__ __forceinline__ void Load() {
    const T* row = First();
#pragma unroll
    for (int i = 0; i < kItems; ++i, row += std::int64_t{kRowLanes} * ld_) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        x_[i][m] = 0;
        if (Row(i) < rows_ && Column(m) < nb_) x_[i][m] = row[kColumnLanes * m];
      }
    }
  }

  __device__ __forceinline__ void Factor() {
    FactorGroup<0>();
    FactorGroup<1>();
    FactorGroup<2>();
    FactorGroup<3>();
  }

  // V. Zeros lose their sign: it would depend on how many zero rows there are.
  __device__ __forceinline__ void Store() {
    Forget(first_row_);  // its rows' addresses since Load: too many registers
    T scale[kGroups];
#pragma unroll
    for (int m = 0; m < kGroups; ++m) scale[m] = __shfl_sync(kAllLanes, scale_, Column(m));
    T* row = First();
#pragma unroll
    for (int i = 0; i < kItems; ++i, row += std::int64_t{kRowLanes} * ld_) {
#pragma unroll
      for (int m = 0; m < kGroups; ++m) {
        if (Row(i) > Column(m) && Row(i) < rows_ && Column(m) < nb_) {
          row[kColumnLanes * m] = std::fma(x_[i][m], scale[m], T(0));
        }
      }
    }
  }

 private:
  static constexpr int kItems = Items(kDtypeOf<T>);
  // Those of the first warp that hold the diagonal of a group's columns.
  static constexpr int FirstItem(int group) { return group * kColumnLanes / kRowLanes; }
  static constexpr int EndItem(int group) { return FirstItem(group + 1); }

  __device__ __forceinline__ int Row(int i) const {
    return first_row_ + lane_ / kColumnLanes + kRowLanes * i;
  }
  __device__ __forceinline__ int Column(int m) const {
    return kColumnLanes * m + lane_ % kColumnLanes;
  }
  __device__ __forceinline__ T* First() const {
    return a_ + static_cast<std::int64_t>(Row(0)) * ld_ + Column(0);
  }

  // Columns 8 kGroup ... 8 kGroup + 7, as far as the panel has them.
  template <int kGroup>
  __device__ __forceinline__ void FactorGroup() {
#pragma unroll 1
    for (int c = kColumnLanes * kGroup; c < min(kColumnLanes * (kGroup + 1), nb_); ++c) {
      FactorColumn<kGroup>(c);
    }
  }

  template <int kGroup>
  __device__ __forceinline__ void FactorColumn(int c) {
    const std::uint32_t tag = static_cast<std::uint32_t>(c) + 1;
    const Exchange<T> exchange = ExchangeOf(messages_, static_cast<int>(gridDim.x), tag);
    SendPivotRow<kGroup>(*exchange.pivot, c, tag);
    T tail[kItems];
    SendSums(exchange.sums[blockIdx.x], TailProducts<kGroup>(c, tail), tag);
    T pivot = 0;
    const T sum = CollectSums(exchange, tag, pivot);

    const Reflector<T> h = Larfg(__shfl_sync(kAllLanes, pivot, c), __shfl_sync(kAllLanes, sum, c));
    const T y = lane_ > c ? -h.tau * std::fma(h.scale, sum, pivot) : T(0);
    Update<kGroup>(tail, h.scale * y);
    if (lane_ == c) scale_ = h.scale;
    if (first_row_ == 0) StoreRow(c, lane_ == c ? h.beta : pivot + y, h.tau);
  }

  // Only block 0's first warp has it: no warp has fewer than kColumns rows.
  template <int kGroup>
  __device__ __forceinline__ void SendPivotRow(Message<T>& to, int c, std::uint32_t tag) const {
    static_assert(kRowLanes * kItems >= kColumns);
    if (first_row_ != 0) return;
#pragma unroll
    for (int i = FirstItem(kGroup); i < EndItem(kGroup); ++i) {
      if (Row(i) != c) continue;
#pragma unroll
      for (int m = 0; m < kGroups; ++m) Send(to, Column(m), x_[i][m], tag);
    }
  }

  // The warp's sums for column `lane`, and the pivot column's tail in the rows of this thread.
  template <int kGroup>
  __device__ __forceinline__ T TailProducts(int c, T (&tail)[kItems]) const {
    T d[kGroups] = {};
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      tail[i] = __shfl_sync(kAllLanes, x_[i][kGroup], c, kColumnLanes);
    }
    if (first_row_ == 0) {
#pragma unroll
      for (int i = 0; i < EndItem(kGroup); ++i) tail[i] = Row(i) > c ? tail[i] : T(0);
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
#pragma unroll
      for (int m = kGroup; m < kGroups; ++m) d[m] = std::fma(tail[i], x_[i][m], d[m]);
    }
    return SumOverRowLanes(d, lane_);
  }

  __device__ __forceinline__ void SendSums(Message<T>& to, T warp_sum, std::uint32_t tag) const {
    shared_.warp_sum[warp_][lane_] = warp_sum;
    __syncthreads();
    if (warp_ == 0) Send(to, lane_, SumOverWarps(shared_.warp_sum, lane_), tag);
  }

  __device__ __forceinline__ T CollectSums(const Exchange<T>& exchange, std::uint32_t tag,
                                           T& pivot) const {
    shared_.block_sum[warp_][lane_] =
        Collect<kWarps>(exchange, static_cast<int>(gridDim.x), warp_, lane_, tag, pivot);
    __syncthreads();
    return SumOverWarps(shared_.block_sum, lane_);
  }

  // a_q += tail y_q, y_q from lane q.
  template <int kGroup>
  __device__ __forceinline__ void Update(const T (&tail)[kItems], T y) {
#pragma unroll
    for (int m = kGroup; m < kGroups; ++m) {
      const T y_m = __shfl_sync(kAllLanes, y, Column(m));
#pragma unroll
      for (int i = 0; i < kItems; ++i) x_[i][m] = std::fma(tail[i], y_m, x_[i][m]);
    }
  }

  // Row c of R, entry `lane`, and tau. Columns past the last row have a tau only.
  __device__ __forceinline__ void StoreRow(int c, T r, T tau) const {
    if (lane_ >= c && lane_ < nb_ && c < rows_) a_[c * ld_ + lane_] = r + T(0);
    if (lane_ == c) tau_[c] = tau;
  }

  T* const a_;
  T* const tau_;
  Message<T>* const messages_;
  const int ld_, rows_, nb_;
  Shared<T>& shared_ = DynamicShared<Shared<T>>();
  const int warp_ = static_cast<int>(threadIdx.x) / 32;
  const int lane_ = static_cast<int>(threadIdx.x) % 32;
  int first_row_ =
      (static_cast<int>(blockIdx.x) * kWarps + warp_) * kRowLanes * kItems;  // of the warp
  T x_[kItems][kGroups];
  T scale_ = 0;  // of reflector `lane`
};

template <class T>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    GridPanelKernel(Work<T> a, int j, int nb, WorkVectors<T> tau, Message<T>* messages,
                    std::int64_t first) {
  const std::int64_t matrix = first + blockIdx.y;
  SlabThread<T> slab(a.matrix(matrix) + static_cast<std::int64_t>(j) * a.ld + j, a.ld, a.rows - j,
                     nb, tau.vector(matrix) + j,
                     messages + matrix * ExchangeMessages(static_cast<int>(gridDim.x)));
  slab.Load();
  slab.Factor();
  slab.Store();
}

template <class T>
std::size_t ScratchBytes(int rows, std::int64_t count) {
  return sizeof(Message<T>) *
         static_cast<std::size_t>(ExchangeMessages(SlabCount(kDtypeOf<T>, rows))) *
         static_cast<std::size_t>(count);
}

}  // namespace

// The blocks of a matrix wait for each other, so all must be resident: as many matrices a launch as
// that allows.
template <class T>
cudaError_t FactorPanelGrid(const Work<T>& a, int j, int nb, const WorkVectors<T>& tau,
                            void* scratch, int multiprocessors, cudaStream_t stream) {
  const int rows = a.rows - j, blocks = SlabCount(kDtypeOf<T>, rows);
  const auto kernel = GridPanelKernel<T>;
  int resident = 0;
  FACTORD_RETURN_IF_CUDA_ERROR(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &resident, kernel, kThreads, sizeof(Shared<T>)));
  const std::int64_t at_once = std::int64_t{resident} * multiprocessors / blocks;
  if (at_once == 0) return cudaErrorCooperativeLaunchTooLarge;
  // No tag of what the scratch held before.
  FACTORD_RETURN_IF_CUDA_ERROR(cudaMemsetAsync(scratch, 0, ScratchBytes<T>(rows, a.count), stream));
  for (std::int64_t first = 0; first < a.count; first += at_once) {
    LaunchConfig config;
    config.grid = dim3(static_cast<unsigned>(blocks),
                       static_cast<unsigned>(std::min(at_once, a.count - first)));
    config.threads = kThreads;
    config.shared_bytes = sizeof(Shared<T>);
    config.cooperative = true;
    config.stream = stream;
    FACTORD_RETURN_IF_CUDA_ERROR(
        Launch(kernel, config, a, j, nb, tau, static_cast<Message<T>*>(scratch), first));
  }
  return cudaSuccess;
}

bool GridPanelFits(Dtype dtype, int rows, int nb) {
  return nb <= kColumns &&
         SlabCount(dtype, rows) <= kBlocksPerMultiprocessor * kFewestMultiprocessors;
}

std::size_t GridPanelScratchBytes(Dtype dtype, int rows, int /*nb*/, std::int64_t count) {
  return dtype == Dtype::kF32 ? ScratchBytes<float>(rows, count)
                              : ScratchBytes<double>(rows, count);
}

template cudaError_t FactorPanelGrid<float>(const Work<float>&, int, int, const WorkVectors<float>&,
                                            void*, int, cudaStream_t);
template cudaError_t FactorPanelGrid<double>(const Work<double>&, int, int,
                                             const WorkVectors<double>&, void*, int, cudaStream_t);

}  // namespace factord::kernels

#include "server/engine/tuner.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <random>
#include <utility>

#include "server/core/batch.h"
#include "server/core/slab.h"
#include "server/core/status_macros.h"
#include "server/engine/router.h"

namespace factord {
namespace {

constexpr std::int64_t kMostBatchBytes = 32 << 20;
constexpr int kMostSamples = 5;
constexpr double kMostOfBudget = 1.0 / 50;

struct Shape {
  std::int64_t m, n;
};
// Every other one of each list makes the coarse grid.
constexpr Shape kShapes[] = {
    {4, 4},     {8, 8},       {16, 16},     {32, 32},   {64, 64},     {128, 128}, {256, 256},
    {512, 512}, {1024, 1024}, {2048, 2048}, {32, 8},    {4096, 4096}, {256, 64},  {64, 16},
    {4096, 64}, {256, 16},    {1024, 256},  {4096, 16}, {16384, 32},  {1024, 64}, {240, 60},
    {8, 32},    {64, 256},    {2000, 20},   {4, 1024},  {2048, 4},    {256, 1024}};
constexpr std::int64_t kCounts[] = {1, 8, 64, 512, 4096, 32768};

std::int64_t BytesOf(const Spec& spec, std::span<const Operand> operands) {
  std::int64_t bytes = 0;
  for (Operand operand : operands) bytes += MatrixBytes(spec, operand);
  return bytes;
}

double WorkOf(const RoutingRow& row) {
  return FlopsOf(SpecOf(row)) * static_cast<double>(row.batch);
}

template <class T>
std::vector<T> UniformNumbers(std::size_t count) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<T> uniform(-1, 1);
  std::vector<T> numbers(count);
  for (T& number : numbers) number = uniform(generator);
  return numbers;
}

// A batch of one job of a real type in host memory, filled anew for each run.
class Trial {
 public:
  static absl::StatusOr<Trial> Create(const RoutingRow& row) {
    Trial trial(row);
    std::int64_t bytes = 0;
    for (auto operands : {InputsOf(trial.spec_), OutputsOf(trial.spec_)}) {
      for (Operand operand : operands) {
        trial.offsets_[static_cast<std::size_t>(operand)] = bytes;
        bytes += AlignedBytes(MatrixBytes(trial.spec_, operand) * row.batch);
      }
    }
    ASSIGN_OR_RETURN(trial.slab_, Slab::Create(bytes));
    std::memset(trial.slab_.data(), 0, static_cast<std::size_t>(bytes));  // page faults
    return trial;
  }

  absl::StatusOr<absl::Duration> Run(Factorizer& factorizer,
                                     const std::function<absl::Time()>& clock) {
    spec_.dtype == DType::kF32 ? Fill<float>() : Fill<double>();
    Batch batch;
    batch.jobs.push_back(MakeJob());
    const absl::Time start = clock();
    RETURN_IF_ERROR(factorizer.Run(batch));
    return clock() - start;
  }

 private:
  explicit Trial(const RoutingRow& row) : spec_(SpecOf(row)), count_(row.batch) {}

  std::byte* At(Operand operand) const {
    return slab_.data() + offsets_[static_cast<std::size_t>(operand)];
  }

  // Values do not change a batch's time, but equal ones might lie in a cache. tau is small enough
  // for any reflector to be harmless: |1 - tau v^T v| <= 1.
  template <class T>
  void Fill() {
    constexpr std::size_t kNumbers = 65'521;  // a prime: matrices differ
    static const std::vector<T> numbers = UniformNumbers<T>(kNumbers);
    for (Operand operand : InputsOf(spec_)) {
      T* const out = reinterpret_cast<T*>(At(operand));
      const auto size = static_cast<std::size_t>(ExtentOf(spec_, operand).elements() * count_);
      if (operand == Operand::kTau) {
        std::fill_n(out, size, T(1) / static_cast<T>(spec_.m));
        continue;
      }
      first_ = (first_ + 1009) % kNumbers;
      for (std::size_t done = 0, from = first_; done < size; from = 0) {
        const std::size_t step = std::min(size - done, kNumbers - from);
        std::copy_n(&numbers[from], step, out + done);
        done += step;
      }
    }
  }

  std::unique_ptr<Job> MakeJob() const {
    auto job = std::make_unique<Job>();
    job->spec = spec_;
    job->count = count_;
    for (auto operands : {InputsOf(spec_), OutputsOf(spec_)}) {
      for (Operand operand : operands)
        job->operands[static_cast<std::size_t>(operand)] = At(operand);
    }
    return job;
  }

  Spec spec_;
  std::int64_t count_;
  std::array<std::int64_t, kOperands> offsets_{};
  Slab slab_;
  std::size_t first_ = 0;
};

// The median of some runs after a first one that warms up; of that one where it used up the time.
absl::StatusOr<double> MedianUs(Factorizer& factorizer, Trial& trial, absl::Duration time,
                                const std::function<absl::Time()>& clock) {
  ASSIGN_OR_RETURN(absl::Duration spent, trial.Run(factorizer, clock));
  std::vector<absl::Duration> samples;
  while (static_cast<int>(samples.size()) < kMostSamples && spent < time) {
    ASSIGN_OR_RETURN(const absl::Duration sample, trial.Run(factorizer, clock));
    samples.push_back(sample);
    spent += sample;
  }
  if (samples.empty()) samples.push_back(spent);
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return absl::ToDoubleMicroseconds(*middle);
}

// How long one batch on each engine may take, going by the rows so far; zero where they say
// nothing.
absl::Duration Foresee(const std::vector<RoutingRow>& rows, const RoutingRow& row) {
  const RoutingTable table({}, rows);
  absl::Duration sum;
  for (Backend backend : {Backend::kCpu, Backend::kGpu}) {
    sum += table.Predict(SpecOf(row), row.batch, backend).value_or(absl::ZeroDuration());
  }
  return sum;
}

}  // namespace

std::vector<RoutingRow> TuneGrid() {
  std::vector<RoutingRow> coarse, fine;
  const auto add = [&](const RoutingRow& row, bool first) {
    const Spec spec = SpecOf(row);
    const std::int64_t bytes = BytesOf(spec, InputsOf(spec)) + BytesOf(spec, OutputsOf(spec));
    if (row.batch > 1 && bytes * row.batch > kMostBatchBytes) return;
    if (GpuTakes(spec)) (first ? coarse : fine).push_back(row);
  };
  for (std::size_t shape = 0; shape < std::size(kShapes); ++shape) {
    for (std::size_t count = 0; count < std::size(kCounts); ++count) {
      const bool first = shape % 2 == 0 && count % 2 == 0;
      for (DType dtype : {DType::kF32, DType::kF64}) {
        RoutingRow row{
            .dtype = dtype, .m = kShapes[shape].m, .n = kShapes[shape].n, .batch = kCounts[count]};
        for (Op op : {Op::kFactorize, Op::kFormQ, Op::kApplyQ, Op::kSolve}) {
          row.op = op;
          row.with_q = op == Op::kFormQ;
          add(row, first);
        }
        row.op = Op::kFactorize;
        row.with_q = true;
        add(row, first);
      }
    }
  }
  for (auto* rows : {&coarse, &fine}) {
    std::stable_sort(rows->begin(), rows->end(), [](const RoutingRow& a, const RoutingRow& b) {
      return WorkOf(a) < WorkOf(b);
    });
  }
  coarse.insert(coarse.end(), fine.begin(), fine.end());
  return coarse;
}

absl::StatusOr<std::vector<RoutingRow>> Tune(Factorizer& cpu, Factorizer* gpu,
                                             std::span<const RoutingRow> grid,
                                             const TuneOptions& options) {
  const absl::Time start = options.clock(), end = start + options.budget;
  std::vector<RoutingRow> rows;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const absl::Time now = options.clock();
    if (now >= end) break;
    const double of_grid = static_cast<double>(i) / static_cast<double>(grid.size());
    const double of_time = absl::FDivDuration(now - start, options.budget);
    if (options.progress) options.progress(std::max(of_grid, of_time), grid[i]);
    RoutingRow row = grid[i];
    if (Foresee(rows, row) > options.budget * kMostOfBudget) continue;
    const absl::Duration time = (end - now) / static_cast<double>(grid.size() - i) / (gpu ? 2 : 1);
    ASSIGN_OR_RETURN(Trial trial, Trial::Create(row));
    ASSIGN_OR_RETURN(row.cpu_us, MedianUs(cpu, trial, time, options.clock));
    if (gpu) {
      ASSIGN_OR_RETURN(row.gpu_us, MedianUs(*gpu, trial, time, options.clock));
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace factord

// Runs a RowReduction as the server does, but by one thread: its jobs run on the CPU engine when
// the test says so, in random order.
#pragma once

#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/core/batch.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/lapack.h"
#include "server/reduction/row_reduction.h"
#include "tests/support/generators.h"

namespace factord::testing {

template <class T>
constexpr DType TypeOf() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return DType::kC64;
  return DType::kC128;
}

template <class T>
std::span<const std::byte> BytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// `count` numbers at `bytes`.
template <class T>
std::vector<T> Values(const std::byte* bytes, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  if (count > 0) std::memcpy(values.data(), bytes, values.size() * sizeof(T));
  return values;
}

class Reducer {
 public:
  explicit Reducer(const ReductionOptions& options, std::uint64_t seed = 1,
                   std::int64_t budget_bytes = std::int64_t{1} << 40)
      : options_(options), budget_(std::make_shared<ByteBudget>(budget_bytes)), random_(seed) {
    auto created = RowReduction::Create(
        options, budget_, nullptr,
        [this](std::unique_ptr<Job> job) {
          if (!refusal.ok()) return refusal;
          jobs_.push_back(std::move(job));
          return absl::OkStatus();
        },
        [this] { ++changes_; });
    created_ = created.status();
    if (created.ok()) reduction_ = *std::move(created);
  }

  absl::Status created() const { return created_; }
  const ByteBudget& budget() const { return *budget_; }
  RowReduction& reduction() { return *reduction_; }
  std::size_t waiting() const { return jobs_.size(); }
  const std::vector<Spec>& ran() const { return ran_; }

  absl::Status refusal;  // what Submit says from now on

  // One of the waiting jobs. A job without OK ends with that.
  void RunOne(const absl::Status& status = absl::OkStatus()) {
    const auto index = std::uniform_int_distribution<std::size_t>(0, jobs_.size() - 1)(random_);
    Batch batch;
    batch.jobs.push_back(std::move(jobs_[index]));
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(index));
    ran_.push_back(batch.jobs[0]->spec);
    if (status.ok()) {
      ASSERT_TRUE(Engine().Run(batch).ok());
    }
    const int before = changes_;
    Complete(std::move(batch.jobs[0]), status);
    ASSERT_EQ(changes_, before + 1);
  }
  void RunAll() {
    while (!jobs_.empty()) RunOne();
  }

  // Data in pieces of random sizes up to `most`, with jobs run in between now and then.
  void AppendInPieces(std::span<const std::byte> data, std::size_t most) {
    while (!data.empty()) {
      const std::size_t size =
          std::min(data.size(), std::uniform_int_distribution<std::size_t>(1, most)(random_));
      ASSERT_TRUE(reduction_->Append(data.first(size)).ok());
      data = data.subspan(size);
      if (!jobs_.empty() && random_() % 2 == 0) RunOne();
    }
  }

  const Reduced& Finish() {
    EXPECT_EQ(reduction_->Finish(), absl::OkStatus());
    RunAll();
    EXPECT_EQ(reduction_->status(), absl::OkStatus());
    EXPECT_NE(reduction_->result(), nullptr);
    return *reduction_->result();
  }

  template <class T>
  std::vector<T> R() const {  // row-major
    const Reduced& result = *reduction_->result();
    return Values<T>(result.r, result.r_rows * options_.columns());
  }
  template <class T>
  absl::Status AppendTriangle(std::int64_t rows, const std::vector<T>& R) {
    return reduction_->AppendReduced(rows, [&](std::byte* to) {
      if (!R.empty()) std::memcpy(to, R.data(), R.size() * sizeof(T));
    });
  }

  // Lets go of everything.
  void Drop() {
    jobs_.clear();
    reduction_.reset();
  }

 private:
  static CpuFactorizer& Engine() {
    static CpuFactorizer& engine = *[] {
      InitializeLapack();
      return new CpuFactorizer(1);
    }();
    return engine;
  }

  const ReductionOptions options_;
  const std::shared_ptr<ByteBudget> budget_;
  std::mt19937_64 random_;
  absl::Status created_;
  int changes_ = 0;
  std::vector<Spec> ran_;
  std::shared_ptr<RowReduction> reduction_;
  std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace factord::testing

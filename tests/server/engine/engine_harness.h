// Runs operations on a Factorizer as the server does, from and to ordinary column-major vectors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <vector>

#include "server/core/batch.h"
#include "server/core/spec.h"
#include "server/engine/factorizer.h"
#include "tests/support/generators.h"

namespace factord::testing {

// The memory of a job of `count` equal matrices. Outputs start as rogue values.
class TestJob {
 public:
  TestJob(const Spec& spec, std::int64_t count) : spec_(spec), count_(count) {
    for (Operand operand : InputsOf(spec)) Allocate(operand);
    for (Operand operand : OutputsOf(spec)) Allocate(operand);
  }

  const Spec& spec() const { return spec_; }
  std::int64_t count() const { return count_; }

  // Matrix i of `operand`, from or as a column-major vector.
  template <class T>
  void Set(Operand operand, std::int64_t i, const std::vector<T>& A) {
    const Extent extent = ExtentOf(spec_, operand);
    const bool rows = LayoutOf(spec_, operand) == Layout::kRowMajor;
    const std::vector<T> ordered = rows ? Transposed(A, extent.rows, extent.cols) : A;
    if (!ordered.empty()) std::memcpy(At(operand, i), ordered.data(), ordered.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> Get(Operand operand, std::int64_t i) const {
    const Extent extent = ExtentOf(spec_, operand);
    std::vector<T> A(static_cast<std::size_t>(extent.elements()));
    if (!A.empty()) std::memcpy(A.data(), At(operand, i), A.size() * sizeof(T));
    return LayoutOf(spec_, operand) == Layout::kRowMajor ? Transposed(A, extent.cols, extent.rows)
                                                         : A;
  }
  std::int32_t Rank(std::int64_t i) const { return Get<std::int32_t>(Operand::kRank, i)[0]; }

  // All output bytes of matrix i.
  std::vector<std::byte> OutputBytes(std::int64_t i) const {
    std::vector<std::byte> bytes;
    for (Operand operand : OutputsOf(spec_)) {
      const std::byte* first = At(operand, i);
      bytes.insert(bytes.end(), first, first + MatrixBytes(spec_, operand));
    }
    return bytes;
  }

  const std::vector<MatrixFailure>& failures() const { return job_->failures; }
  const Job& job() const { return *job_; }

 private:
  friend absl::Status RunStatus(Factorizer& factorizer, std::initializer_list<TestJob*> jobs);

  void Allocate(Operand operand) {
    // Never empty, so that an empty operand's pointer is not null.
    memory_[static_cast<std::size_t>(operand)].assign(
        static_cast<std::size_t>(MatrixBytes(spec_, operand) * count_) + 64, std::byte{0xA5});
  }
  std::byte* At(Operand operand, std::int64_t i) {
    return memory_[static_cast<std::size_t>(operand)].data() + i * MatrixBytes(spec_, operand);
  }
  const std::byte* At(Operand operand, std::int64_t i) const {
    return memory_[static_cast<std::size_t>(operand)].data() + i * MatrixBytes(spec_, operand);
  }

  Spec spec_;
  std::int64_t count_;
  std::array<std::vector<std::byte>, kOperands> memory_;
  std::unique_ptr<Job> job_;
};

// One batch of all of them; what Run said.
inline absl::Status RunStatus(Factorizer& factorizer, std::initializer_list<TestJob*> jobs) {
  Batch batch;
  for (TestJob* test : jobs) {
    auto job = std::make_unique<Job>();
    job->spec = test->spec_;
    job->count = test->count_;
    for (std::size_t o = 0; o < kOperands; ++o) {
      if (!test->memory_[o].empty()) job->operands[o] = test->memory_[o].data();
    }
    batch.jobs.push_back(std::move(job));
  }
  absl::Status status = factorizer.Run(batch);
  std::size_t next = 0;
  for (TestJob* test : jobs) test->job_ = std::move(batch.jobs[next++]);
  return status;
}

inline void RunBatch(Factorizer& factorizer, std::initializer_list<TestJob*> jobs) {
  const absl::Status status = RunStatus(factorizer, jobs);
  if (!status.ok()) std::abort();
}

template <class T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, std::complex<float>>) return DType::kC64;
  return DType::kC128;
}

template <class T>
Spec FactorizeSpec(std::int64_t m, std::int64_t n, QMode q = QMode::kReduced,
                   bool reflectors = true) {
  Spec spec;
  spec.dtype = DTypeOf<T>();
  spec.m = m;
  spec.n = n;
  spec.q = q;
  spec.r = true;
  spec.reflectors = reflectors;
  return spec;
}

template <class T>
struct Factors {
  std::vector<T> Q, R, packed, tau;
  std::vector<MatrixFailure> failures;
};

// One matrix, alone.
template <class T>
Factors<T> Factorize(Factorizer& factorizer, const Spec& spec, const std::vector<T>& A) {
  TestJob job(spec, 1);
  job.Set(Operand::kA, 0, A);
  RunBatch(factorizer, {&job});
  Factors<T> factors;
  if (spec.q != QMode::kNone) factors.Q = job.Get<T>(Operand::kQ, 0);
  if (spec.r) factors.R = job.Get<T>(Operand::kR, 0);
  if (spec.reflectors) {
    factors.packed = job.Get<T>(Operand::kReflectors, 0);
    factors.tau = job.Get<T>(Operand::kTau, 0);
  }
  factors.failures = job.failures();
  return factors;
}

}  // namespace factord::testing

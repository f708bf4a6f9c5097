// Memory of batches of dense matrices, one after the other, and what a case reads.
#pragma once

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "bench/cpu/case.h"

namespace factord::bench::cpu {

// On a page of its own, written once.
template <class T>
class Array {
 public:
  Array() = default;
  explicit Array(std::int64_t size) : size_(static_cast<std::size_t>(size)) {
    if (size == 0) return;
    const std::size_t bytes = (size_ * sizeof(T) / kPage + 1) * kPage;
    data_.reset(static_cast<T*>(std::aligned_alloc(kPage, bytes)));
    if (!data_) throw std::bad_alloc();
    std::uninitialized_value_construct_n(data_.get(), size_);
  }
  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kPage = 4096;
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };
  std::size_t size_ = 0;
  std::unique_ptr<T[], Free> data_;
};

template <class T>
struct Matrices {
  Array<T> values;
  std::int64_t count = 0;
  int rows = 0, cols = 0;
  bool column_major = true;

  Matrices() = default;
  Matrices(std::int64_t count, int rows, int cols, bool column_major = true)
      : values(count * rows * cols),
        count(count),
        rows(rows),
        cols(cols),
        column_major(column_major) {}

  std::int64_t size_of_one() const { return std::int64_t{rows} * cols; }
  T* operator[](std::int64_t i) const { return values.data() + i * size_of_one(); }
};

// Zeros, of the same sizes and layout.
template <class T>
Matrices<T> Like(const Matrices<T>& x) {
  return Matrices<T>(x.count, x.rows, x.cols, x.column_major);
}

template <class T>
void Copy(const Matrices<T>& from, const Matrices<T>& to) {
  std::copy_n(from.values.data(), from.values.size(), to.values.data());
}

// What a case reads; those of taus are column-major. kOrgqr and kOrmqr: `a` holds packed
// reflectors.
template <class T>
struct Inputs {
  Matrices<T> a, tau, c;
};

// Normally distributed, the same every time.
template <class T>
Matrices<T> RandomMatrices(std::int64_t count, int rows, int cols);

// In the other layout.
template <class T>
Matrices<T> Transposed(const Matrices<T>& matrices);

// ||x - y|| / ||y||, Frobenius, over all matrices, of the columns that x has: y may have more. NaN
// where x has one.
template <class T>
double Difference(const Matrices<T>& x, const Matrices<T>& y);

}  // namespace factord::bench::cpu

// Bucket: what may share one launch. Matrices with equal buckets may be batched together.
#pragma once

#include <compare>
#include <string>
#include <tuple>
#include <utility>

#include "server/core/spec.h"

namespace factord {

// A value: operation, type, outputs and options that select a kernel, memory order where it
// matters, and the shape class of m, n and p. Kernels read each matrix's own m and n, so nothing is
// padded; what is not in the bucket (rcond) is read from each job.
class Bucket {
 public:
  Bucket() = default;

  // The spec that stands for the bucket: the largest shape, fields that do not matter at their
  // defaults.
  const Spec& spec() const { return spec_; }

  // For people, in replies and logs: "factorize f32 32x32 qr", "solve f64 640x20 p1". At most 128
  // bytes. Q (capital) is the complete one; "h" are packed reflectors. Never a metric label: there
  // are too many.
  std::string Name() const;

  bool operator==(const Bucket& other) const;
  std::strong_ordering operator<=>(const Bucket& other) const;
  template <typename H>
  friend H AbslHashValue(H state, const Bucket& bucket);

 private:
  friend Bucket BucketOf(const Spec& spec);

  auto Key() const {
    return std::tuple(spec_.op, spec_.dtype, spec_.layout, spec_.m, spec_.n, spec_.q, spec_.r,
                      spec_.reflectors, spec_.sign, spec_.side, spec_.q_op, spec_.p,
                      spec_.rhs_layout, spec_.fast);
  }

  Spec spec_;
};

Bucket BucketOf(const Spec& spec);

template <typename H>
H AbslHashValue(H state, const Bucket& bucket) {
  return H::combine(std::move(state), bucket.Key());
}

}  // namespace factord

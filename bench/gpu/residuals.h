// How good an answer is, found on the device in double, by kernels that share nothing with those
// that are measured.
#pragma once

#include "bench/gpu/case.h"
#include "bench/gpu/matrices.h"

namespace factord::bench {

// In LAPACK's measure, 30 being the bound that the server promises, m >= n, eps = 2^-24 or 2^-53:
//   residual       the largest ||(R - Q^T A)_j||_2 / (m eps ||a_j||_2) over the columns j;
//                  kOrgqr: ||(Q - H_1 ... H_n I)_j||_2 / (m eps)
//   orthogonality  ||Q^T Q - I||_1 / (m eps)
// NaN where an output holds one. Of packed reflectors Q is H_1 ... H_n.
struct Quality {
  double residual = 0, orthogonality = 0;
};

// The worst of up to eight matrices, spread over the batch.
template <class T>
Quality QualityOf(const Case& c, const Operands<T>& operands);

}  // namespace factord::bench

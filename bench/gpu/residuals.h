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
//   kR: the largest |(R^T R - A^T A)_jk| / (m eps ||a_j|| ||a_k||), and no orthogonality
// NaN where an output holds one. Of packed reflectors Q is H_1 ... H_n.
struct Quality {
  double residual = 0, orthogonality = 0;
};

// The worst of up to eight matrices, spread over the batch. by_rows: A and R lie so (kR alone).
template <class T>
Quality QualityOf(const Case& c, const Operands<T>& operands, bool by_rows);

}  // namespace factord::bench

// Of all x with V_r^H E x = d, the one of least ||x||_2. E = diag(2^e_j) turns the caller's
// unknowns into the scaled ones in which the system was factorized, x_hat = E x; V_r is an
// orthonormal basis of the scaled row space.
//
//   range form, for 2 r <= n:   E V_r = P S by pivoted QR;  x = P S^-H d                        O(n
//   r^2) null form, otherwise:       x = E^-1 (y - V_0 z), y = V_r d, z = argmin ||E^-1 (y - V_0
//   z)||  O(n (n - r)^2)
// Rows are sorted by size and columns pivoted, so that Householder QR is stable row by row: E may
// span the whole range.
#pragma once

#include <complex>
#include <cstdint>

#include "server/engine/matrix_view.h"
#include "server/engine/workspace.h"

namespace factord {

// Whether the solution below comes from V_r (true) or from V_0 (false).
inline bool UsesRangeForm(std::int64_t n, std::int64_t r) { return 2 * r <= n; }

// V_r (n x r), V_0 (n x (n - r)), which the range form does not read; d (r x p); x (n x p) in units
// of 2^-scale: the solution is x 2^scale, and `scale` is returned. W is double or
// std::complex<double>.
template <class W>
std::int32_t MinimumNorm(MatrixView<const W> V_r, MatrixView<const W> V_0, MatrixView<const W> d,
                         const std::int32_t* e, MatrixView<W> x, Workspace& workspace);

}  // namespace factord

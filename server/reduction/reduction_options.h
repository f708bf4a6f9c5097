// What a stream of rows is, and what is wanted of it.
#pragma once

#include <cstdint>

#include "server/core/types.h"
#include "server/reduction/block_shape.h"

namespace factord {

// Valid by construction (rpc/codec_reduction).
struct ReductionOptions {
  DType dtype = DType::kF64;
  std::int64_t n = 0;     // columns of A, at least 1
  std::int64_t nrhs = 0;  // columns of B, which follow those of A in each row

  bool solve = false;            // X, residual norms and rank; nrhs > 0
  bool standard_errors = false;  // of X; with `solve`, real types
  double rcond = -1;             // < 0: the default, see TriangleSolve

  bool fast = false;  // lower precision inside is allowed

  std::int64_t block_rows = 0;  // 0, as it is everywhere but in tests: BlockRows

  std::int64_t columns() const { return n + nrhs; }
  std::int64_t row_bytes() const { return columns() * SizeOf(dtype); }
  std::int64_t rows_of_block() const {
    return block_rows > 0 ? block_rows : BlockRows(dtype, columns());
  }
};

}  // namespace factord

// Spec: what is to be computed for each matrix of a run of equal ones, and the operands that go in
// and come out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/strings/string_view.h"
#include "server/core/types.h"

namespace factord {

enum class Op : std::uint8_t { kFactorize, kFormQ, kApplyQ, kSolve };
inline constexpr int kOps = 4;
enum class QMode : std::uint8_t { kNone, kReduced, kComplete };
enum class Sign : std::uint8_t { kLapack, kNonnegative, kSpecialOrthogonal };
enum class Side : std::uint8_t { kLeft, kRight };
enum class QOp : std::uint8_t { kPlain, kAdjoint };

absl::string_view Name(Op op);

// Plain data; fields that an operation does not read keep their defaults. Valid by construction
// (rpc/codec).
struct Spec {
  Op op = Op::kFactorize;
  DType dtype = DType::kF32;
  Layout layout = Layout::kRowMajor;  // of kA, kReflectors, kQ, kR
  std::int64_t m = 0;                 // rows and columns of A, or of the packed reflectors
  std::int64_t n = 0;

  QMode q = QMode::kNone;   // kFactorize, kFormQ
  bool r = false;           // kFactorize
  bool reflectors = false;  // kFactorize
  Sign sign = Sign::kLapack;

  Side side = Side::kLeft;  // kApplyQ
  QOp q_op = QOp::kPlain;   // kApplyQ
  std::int64_t p = 0;       // kApplyQ: C is m x p (left) or p x m (right); kSolve: B is m x p
  Layout rhs_layout = Layout::kRowMajor;  // of kRhs, kResult
  double rcond = -1;                      // kSolve; < 0: the default of design point "Rank"

  bool fast = false;  // lower precision inside is allowed

  std::int64_t k() const { return m < n ? m : n; }
  bool operator==(const Spec&) const = default;
};

// One role of memory. A job holds a pointer for each; null where the operation has no such operand.
enum class Operand : std::uint8_t {
  kA,             // m x n                  in: kFactorize, kSolve
  kReflectors,    // m x n, packed          in: kFormQ, kApplyQ; out: kFactorize
  kTau,           // k                      in: kFormQ, kApplyQ; out: kFactorize
  kRhs,           // C (kApplyQ), B (kSolve)                     in
  kQ,             // m x k or m x m         out: kFactorize, kFormQ
  kR,             // k x n                  out: kFactorize
  kResult,        // like C (kApplyQ), X: n x p (kSolve)         out
  kResidualNorm,  // p, real                out: kSolve
  kRank,          // 1, int32               out: kSolve
};
inline constexpr int kOperands = 9;

struct Extent {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t elements() const { return rows * cols; }
};

// Of one matrix's operand. Vectors (kTau, kResidualNorm, kRank) are one column.
Extent ExtentOf(const Spec& spec, Operand operand);
DType TypeOf(const Spec& spec, Operand operand);  // kRank: kF32, whose size is an int32's
Layout LayoutOf(const Spec& spec, Operand operand);
std::int64_t MatrixBytes(const Spec& spec, Operand operand);

// In the order in which the API lists their tensors (kRank last: it is no tensor).
std::span<const Operand> InputsOf(const Spec& spec);
std::span<const Operand> OutputsOf(const Spec& spec);

// Floating-point operations of one matrix, real ones: a complex multiply-add counts as four real
// ones.
double FlopsOf(const Spec& spec);

}  // namespace factord

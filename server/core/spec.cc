#include "server/core/spec.h"

#include <algorithm>

namespace factord {
namespace {

using enum Operand;

constexpr Operand kAllOutputs[] = {kQ, kR, kReflectors, kTau};

// Every subset of Factorize's outputs, as spans into one table: index bits are q, r, reflectors
// (with tau).
struct OutputTable {
  std::array<std::array<Operand, 4>, 8> rows{};
  std::array<std::size_t, 8> sizes{};

  constexpr OutputTable() {
    for (std::size_t bits = 0; bits < rows.size(); ++bits) {
      for (Operand operand : kAllOutputs) {
        const std::size_t bit = operand == kQ ? 1 : operand == kR ? 2 : 4;
        if (bits & bit) rows[bits][sizes[bits]++] = operand;
      }
    }
  }
};
constexpr OutputTable kFactorizeOutputs;

double QrFlops(double m, double n) {
  const double k = std::min(m, n);
  return 4 * m * n * k - 2 * (m + n) * k * k + 4.0 / 3 * k * k * k;
}

// k reflectors of length up to m applied to `cols` vectors.
double ApplyFlops(double m, double k, double cols) { return (4 * m * k - 2 * k * k) * cols; }

// orgqr: m x `cols` from k reflectors.
double FormFlops(double m, double cols, double k) {
  return 4 * m * cols * k - 2 * (m + cols) * k * k + 4.0 / 3 * k * k * k;
}

}  // namespace

absl::string_view Name(Op op) {
  switch (op) {
    case Op::kFactorize:
      return "factorize";
    case Op::kFormQ:
      return "form_q";
    case Op::kApplyQ:
      return "apply_q";
    case Op::kSolve:
      return "solve";
  }
  return "";
}

Extent ExtentOf(const Spec& spec, Operand operand) {
  const bool left = spec.side == Side::kLeft;
  const Extent c = left ? Extent{spec.m, spec.p} : Extent{spec.p, spec.m};
  switch (operand) {
    case kA:
    case kReflectors:
      return {spec.m, spec.n};
    case kTau:
      return {spec.k(), 1};
    case kRhs:
      return spec.op == Op::kSolve ? Extent{spec.m, spec.p} : c;
    case kQ:
      return {spec.m, spec.q == QMode::kComplete ? spec.m : spec.k()};
    case kR:
      return {spec.k(), spec.n};
    case kResult:
      return spec.op == Op::kSolve ? Extent{spec.n, spec.p} : c;
    case kResidualNorm:
      return {spec.p, 1};
    case kRank:
      return {1, 1};
  }
  return {};
}

DType TypeOf(const Spec& spec, Operand operand) {
  if (operand == kResidualNorm) return RealOf(spec.dtype);
  return operand == kRank ? DType::kF32 : spec.dtype;
}

Layout LayoutOf(const Spec& spec, Operand operand) {
  return operand == kRhs || operand == kResult ? spec.rhs_layout : spec.layout;
}

std::int64_t MatrixBytes(const Spec& spec, Operand operand) {
  return ExtentOf(spec, operand).elements() * SizeOf(TypeOf(spec, operand));
}

std::span<const Operand> InputsOf(const Spec& spec) {
  static constexpr Operand kFactorizeIn[] = {kA};
  static constexpr Operand kFormQIn[] = {kReflectors, kTau};
  static constexpr Operand kApplyQIn[] = {kReflectors, kTau, kRhs};
  static constexpr Operand kSolveIn[] = {kA, kRhs};
  switch (spec.op) {
    case Op::kFactorize:
      return kFactorizeIn;
    case Op::kFormQ:
      return kFormQIn;
    case Op::kApplyQ:
      return kApplyQIn;
    case Op::kSolve:
      return kSolveIn;
  }
  return {};
}

std::span<const Operand> OutputsOf(const Spec& spec) {
  static constexpr Operand kFormQOut[] = {kQ};
  static constexpr Operand kApplyQOut[] = {kResult};
  static constexpr Operand kSolveOut[] = {kResult, kResidualNorm, kRank};
  switch (spec.op) {
    case Op::kFactorize: {
      const std::size_t bits =
          (spec.q != QMode::kNone ? 1 : 0) | (spec.r ? 2 : 0) | (spec.reflectors ? 4 : 0);
      return std::span(kFactorizeOutputs.rows[bits]).first(kFactorizeOutputs.sizes[bits]);
    }
    case Op::kFormQ:
      return kFormQOut;
    case Op::kApplyQ:
      return kApplyQOut;
    case Op::kSolve:
      return kSolveOut;
  }
  return {};
}

double FlopsOf(const Spec& spec) {
  const double m = static_cast<double>(spec.m), n = static_cast<double>(spec.n);
  const double k = static_cast<double>(spec.k()), p = static_cast<double>(spec.p);
  const double q_cols = static_cast<double>(ExtentOf(spec, kQ).cols);
  double flops = 0;
  switch (spec.op) {
    case Op::kFactorize:
      flops = QrFlops(m, n) + (spec.q == QMode::kNone ? 0 : FormFlops(m, q_cols, k));
      break;
    case Op::kFormQ:
      flops = FormFlops(m, q_cols, k);
      break;
    case Op::kApplyQ:
      flops = ApplyFlops(m, k, p);
      break;
    case Op::kSolve:
      flops = QrFlops(m, n) + ApplyFlops(std::max(m, n), k, p) + k * k * p;
      break;
  }
  return IsComplex(spec.dtype) ? 4 * flops : flops;
}

}  // namespace factord

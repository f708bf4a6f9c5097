#include "server/batching/bucket.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "server/core/shape_class.h"

namespace factord {
namespace {

// Whether some operand in the order `layout` names is more than a vector, whose bytes are the same
// in both orders.
bool OrderMatters(const Spec& spec, bool of_rhs) {
  const auto is_matrix = [&](Operand operand) {
    const bool rhs = operand == Operand::kRhs || operand == Operand::kResult;
    const Extent extent = ExtentOf(spec, operand);
    return rhs == of_rhs && extent.rows > 1 && extent.cols > 1;
  };
  return std::ranges::any_of(InputsOf(spec), is_matrix) ||
         std::ranges::any_of(OutputsOf(spec), is_matrix);
}

std::string Outputs(const Spec& spec) {
  std::string text;
  if (spec.q != QMode::kNone) text += spec.q == QMode::kComplete ? 'Q' : 'q';
  if (spec.r) text += 'r';
  if (spec.reflectors) text += 'h';
  return text;
}

}  // namespace

Bucket BucketOf(const Spec& spec) {
  Bucket bucket;
  Spec& key = bucket.spec_;
  key = spec;
  key.m = RoundUpDimension(spec.m);
  key.n = RoundUpDimension(spec.n);
  key.p = RoundUpDimension(spec.p);
  key.rcond = Spec().rcond;
  if (!OrderMatters(spec, /*of_rhs=*/false)) key.layout = Spec().layout;
  if (!OrderMatters(spec, /*of_rhs=*/true)) key.rhs_layout = Spec().rhs_layout;
  return bucket;
}

bool Bucket::operator==(const Bucket& other) const { return Key() == other.Key(); }

std::strong_ordering Bucket::operator<=>(const Bucket& other) const {
  return Key() <=> other.Key();
}

std::string Bucket::Name() const {
  std::string name(factord::Name(spec_.op));
  const auto add = [&name](bool present, absl::string_view word) {
    if (present) absl::StrAppend(&name, " ", word);
  };
  add(true, factord::Name(spec_.dtype));
  add(true, absl::StrCat(spec_.m, "x", spec_.n));
  const std::string outputs = Outputs(spec_);
  add(!outputs.empty(), outputs);
  add(spec_.op == Op::kApplyQ || spec_.op == Op::kSolve, absl::StrCat("p", spec_.p));
  add(spec_.side == Side::kRight, "right");
  add(spec_.q_op == QOp::kAdjoint, "adjoint");
  add(spec_.sign == Sign::kNonnegative, "nonnegative");
  add(spec_.sign == Sign::kSpecialOrthogonal, "special_orthogonal");
  add(spec_.layout == Layout::kColumnMajor, "column_major");
  add(spec_.rhs_layout == Layout::kColumnMajor, "rhs_column_major");
  add(spec_.fast, "fast");
  return name;
}

}  // namespace factord

#include "server/warm_up_shapes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

constexpr char kField[] = "warmup_shapes";
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};

absl::StatusOr<DType> TypeNamed(absl::string_view name, absl::string_view text) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](DType dtype) { return Name(dtype) == name; });
  if (found != std::end(kTypes)) return *found;
  return InvalidField(kField, absl::StrCat("\"", text, "\" has the type \"", name,
                                           "\"; must be one of f32, f64, c64, c128"));
}

absl::StatusOr<WarmUpShape> Parse(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const std::vector<absl::string_view> dims = absl::StrSplit(parts.first, 'x');
  WarmUpShape shape;
  if (dims.size() != 3 || !absl::SimpleAtoi(dims[0], &shape.batch) ||
      !absl::SimpleAtoi(dims[1], &shape.m) || !absl::SimpleAtoi(dims[2], &shape.n)) {
    return InvalidField(kField,
                        absl::StrCat("\"", text, "\" is neither BATCHxMxN nor BATCHxMxN:TYPE"));
  }
  if (shape.batch < 1 || shape.m < 1 || shape.n < 1) {
    return InvalidField(kField,
                        absl::StrCat("\"", text, "\" has a dimension that is not positive"));
  }
  // As large as a request's matrices may be.
  if (shape.m > INT32_MAX / shape.n) {
    return InvalidField(
        kField, absl::StrCat("\"", text, "\" has matrices of more than ", INT32_MAX, " elements"));
  }
  if (text.find(':') != absl::string_view::npos) {
    ASSIGN_OR_RETURN(shape.dtype, TypeNamed(parts.second, text));
  }
  return shape;
}

}  // namespace

absl::StatusOr<std::vector<WarmUpShape>> ParseWarmUpShapes(const std::vector<std::string>& texts) {
  std::vector<WarmUpShape> shapes;
  for (const std::string& text : texts) {
    ASSIGN_OR_RETURN(shapes.emplace_back(), Parse(text));
  }
  return shapes;
}

}  // namespace factord

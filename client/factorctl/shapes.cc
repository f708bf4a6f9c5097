#include "client/factorctl/shapes.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/factorctl/flags.h"
#include "client/tensor.h"

namespace factord::client {
namespace {

bool ParseShape(absl::string_view word, Dims* dims) {
  for (absl::string_view text : absl::StrSplit(word, 'x')) {
    int64_t& dim = dims->emplace_back();
    if (!absl::SimpleAtoi(text, &dim) || dim < 0) return false;
  }
  return dims->size() >= 2 && TensorBytes(v1::DTYPE_C128, *dims).ok();
}

}  // namespace

absl::StatusOr<std::vector<Dims>> ParseShapes(const std::vector<std::string>& words) {
  std::vector<Dims> shapes;
  for (const std::string& word : words) {
    if (!ParseShape(word, &shapes.emplace_back())) {
      return UsageError(absl::StrCat("--shape is '", word, "', expected MxN or BATCHxMxN"));
    }
  }
  if (shapes.empty()) return UsageError("--shape is needed: MxN or BATCHxMxN");
  return shapes;
}

std::string ShapesName(const std::vector<Dims>& shapes) {
  return absl::StrJoin(shapes, ",", [](std::string* out, const Dims& dims) {
    absl::StrAppend(out, DimsName(dims));
  });
}

}  // namespace factord::client

#include "server/http/plan_query.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/rpc/explain.h"

namespace factord {
namespace {

using Arguments = std::map<std::string, std::string>;

constexpr absl::string_view kNames[] = {"op", "m", "n", "batch", "dtype", "q", "p"};
// A value is quoted up to here.
constexpr std::size_t kMaxQuoted = 40;

std::string Quoted(absl::string_view value) {
  return absl::StrCat("\"", value.substr(0, kMaxQuoted), value.size() > kMaxQuoted ? "..." : "",
                      "\"");
}

absl::Status CheckNames(const Arguments& arguments) {
  for (const auto& [name, value] : arguments) {
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(name), " is none of the arguments ", absl::StrJoin(kNames, ", ")));
    }
  }
  return absl::OkStatus();
}

// A dimension; `if_absent` < 0: it must be there.
absl::StatusOr<std::int64_t> Dimension(const Arguments& arguments, const char* name,
                                       std::int64_t if_absent) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) {
    if (if_absent >= 0) return if_absent;
    return InvalidField(name, "is missing");
  }
  std::int64_t value = 0;
  if (!absl::SimpleAtoi(found->second, &value) || value < 0) {
    return InvalidField(
        name, absl::StrCat("is ", Quoted(found->second), "; must be a whole number from 0 on"));
  }
  return value;
}

template <typename T>
struct Word {
  absl::string_view word;
  T value;
};

// The first one where the argument is absent.
template <typename T>
absl::StatusOr<T> OneOf(const Arguments& arguments, const char* name,
                        const std::vector<Word<T>>& words) {
  const auto found = arguments.find(name);
  if (found == arguments.end()) return words.front().value;
  for (const Word<T>& word : words) {
    if (word.word == found->second) return word.value;
  }
  return InvalidField(
      name, absl::StrCat("is ", Quoted(found->second), "; must be one of ",
                         absl::StrJoin(words, ", ", [](std::string* out, const Word<T>& word) {
                           absl::StrAppend(out, word.word);
                         })));
}

struct Shape {
  v1::DType dtype = v1::DTYPE_F32;
  std::int64_t batch = 1, m = 0, n = 0, p = 1;
};

void SetTensor(const Shape& shape, std::initializer_list<std::int64_t> dims, v1::Tensor& tensor) {
  tensor.set_dtype(shape.dtype);
  tensor.add_dims(shape.batch);
  for (std::int64_t dim : dims) tensor.add_dims(dim);
}

void SetReflectors(const Shape& shape, v1::Reflectors& factors) {
  SetTensor(shape, {shape.m, shape.n}, *factors.mutable_reflectors());
  SetTensor(shape, {std::min(shape.m, shape.n)}, *factors.mutable_tau());
}

v1::ExplainRequest RequestOf(v1::ExplainRequest::OperationCase operation, const Shape& shape,
                             v1::QMode q) {
  v1::ExplainRequest request;
  switch (operation) {
    case v1::ExplainRequest::kFormQ:
      request.mutable_form_q()->set_q(q);
      SetReflectors(shape, *request.mutable_form_q()->add_factors());
      break;
    case v1::ExplainRequest::kApplyQ: {
      v1::Application& application = *request.mutable_apply_q()->add_applications();
      SetReflectors(shape, *application.mutable_factors());
      SetTensor(shape, {shape.m, shape.p}, *application.mutable_c());
      break;
    }
    case v1::ExplainRequest::kSolve: {
      v1::LeastSquaresProblem& problem = *request.mutable_solve()->add_problems();
      SetTensor(shape, {shape.m, shape.n}, *problem.mutable_a());
      SetTensor(shape, {shape.m, shape.p}, *problem.mutable_b());
      break;
    }
    default:
      SetTensor(shape, {shape.m, shape.n}, *request.mutable_factorize()->add_a());
      request.mutable_factorize()->mutable_qr()->set_q(q);
      request.mutable_factorize()->mutable_qr()->set_r(true);
      break;
  }
  return request;
}

// The codec names the request's fields; who asks here knows the arguments.
absl::Status InArguments(const absl::Status& status) {
  absl::string_view problem = status.message();
  if (const std::size_t colon = problem.find(": "); colon != absl::string_view::npos) {
    problem.remove_prefix(colon + 2);
  }
  return absl::Status(status.code(), absl::StrCat("batch, m, n, p: ", problem));
}

}  // namespace

absl::StatusOr<v1::ExplainRequest> ParsePlanQuery(const Arguments& arguments) {
  using Operation = v1::ExplainRequest::OperationCase;
  RETURN_IF_ERROR(CheckNames(arguments));
  ASSIGN_OR_RETURN(const Operation operation,
                   OneOf<Operation>(arguments, "op",
                                    {{"factorize", v1::ExplainRequest::kFactorize},
                                     {"form_q", v1::ExplainRequest::kFormQ},
                                     {"apply_q", v1::ExplainRequest::kApplyQ},
                                     {"solve", v1::ExplainRequest::kSolve}}));
  Shape shape;
  ASSIGN_OR_RETURN(shape.m, Dimension(arguments, "m", -1));
  ASSIGN_OR_RETURN(shape.n, Dimension(arguments, "n", -1));
  ASSIGN_OR_RETURN(shape.batch, Dimension(arguments, "batch", 1));
  ASSIGN_OR_RETURN(shape.p, Dimension(arguments, "p", 1));
  ASSIGN_OR_RETURN(shape.dtype, OneOf<v1::DType>(arguments, "dtype",
                                                 {{"f32", v1::DTYPE_F32},
                                                  {"f64", v1::DTYPE_F64},
                                                  {"c64", v1::DTYPE_C64},
                                                  {"c128", v1::DTYPE_C128}}));
  ASSIGN_OR_RETURN(const v1::QMode q, OneOf<v1::QMode>(arguments, "q",
                                                       {{"reduced", v1::Q_MODE_REDUCED},
                                                        {"complete", v1::Q_MODE_COMPLETE},
                                                        {"none", v1::Q_MODE_UNSPECIFIED}}));
  return RequestOf(operation, shape, q);
}

absl::StatusOr<v1::ExplainResponse> AnswerPlanQuery(const Arguments& arguments,
                                                    const ServiceContext& context) {
  ASSIGN_OR_RETURN(const v1::ExplainRequest request, ParsePlanQuery(arguments));
  absl::StatusOr<v1::ExplainResponse> response = ExplainShapes(request, context);
  if (!response.ok()) return InArguments(response.status());
  return response;
}

}  // namespace factord

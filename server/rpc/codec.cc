#include "server/rpc/codec.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/core/errors.h"
#include "server/core/slab.h"
#include "server/core/status_macros.h"
#include "server/rpc/codec_options.h"
#include "server/rpc/codec_tensor.h"
#include "server/rpc/wire.h"

namespace factord {
namespace {

absl::Status CheckSpecialOrthogonal(const Spec& spec, absl::string_view path) {
  if (spec.sign != Sign::kSpecialOrthogonal || (!IsComplex(spec.dtype) && spec.m == spec.n)) {
    return absl::OkStatus();
  }
  return InvalidField(
      "qr.sign", absl::StrCat("SIGN_SPECIAL_ORTHOGONAL needs real square matrices; ", path, " has ",
                              Name(spec.dtype), " ones of ", spec.m, "x", spec.n));
}

// Decodes the tensors of one request and collects what comes of it.
class RequestDecoder {
 public:
  RequestDecoder(Op op, DataMode mode, std::span<const std::int64_t> payload_sizes,
                 const Limits& limits)
      : mode_(mode), payload_sizes_(payload_sizes), limits_(limits) {
    out_.op = op;
  }

  DecodedRequest& out() { return out_; }

  absl::Status CheckCount(absl::string_view field, int entries) {
    if (entries > limits_.max_tensors) {
      return InvalidField(
          field, absl::StrCat("has ", entries, " entries; the limit is ", limits_.max_tensors));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<TensorShape> Tensor(bool present, const v1::Tensor& tensor, absl::string_view path,
                                     TensorRank rank = TensorRank::kMatrix) {
    if (!present) return InvalidField(path, "is not set");
    return DecodeTensor(tensor, path, rank, mode_, payload_sizes_, limits_);
  }

  // Adds an item whose input tensors, in the order of InputsOf, have these payloads.
  absl::Status Add(const Spec& spec, const TensorShape& first,
                   std::initializer_list<std::int64_t> payloads, absl::string_view path) {
    const std::size_t index = out_.items.size();
    Item& item = out_.items.emplace_back();
    item.spec = spec;
    item.batch_dims = first.batch_dims;
    item.count = first.count;
    item.first_output = out_.outputs.size();
    for (std::size_t i = 0; Operand operand : InputsOf(spec)) {
      RETURN_IF_ERROR(
          Slot(index, operand, payloads.begin()[i++], path, out_.inputs, out_.input_bytes));
    }
    for (Operand operand : OutputsOf(spec)) {
      // Ranks are no tensors: last of all, so that the tensors' numbers are their positions.
      std::vector<TensorSlot>& slots = operand == Operand::kRank ? ranks_ : out_.outputs;
      RETURN_IF_ERROR(Slot(index, operand, -1, path, slots, out_.output_bytes));
    }
    out_.items[index].output_tensors = out_.outputs.size() - out_.items[index].first_output;
    return absl::OkStatus();
  }

  DecodedRequest Finish() && {
    out_.outputs.insert(out_.outputs.end(), ranks_.begin(), ranks_.end());
    return std::move(out_);
  }

 private:
  absl::Status Slot(std::size_t item, Operand operand, std::int64_t payload, absl::string_view path,
                    std::vector<TensorSlot>& slots, std::int64_t& total) {
    const Spec& spec = out_.items[item].spec;
    const Extent extent = ExtentOf(spec, operand);
    const auto elements = CheckedMultiply(extent.rows, extent.cols);
    if (!elements || *elements > limits_.max_matrix_elements) {
      return InvalidField(
          path, absl::StrCat("a result of ", extent.rows, "x", extent.cols,
                             " elements a matrix; the limit is ", limits_.max_matrix_elements));
    }
    const auto bytes = CheckedMultiply(MatrixBytes(spec, operand), out_.items[item].count);
    if (!bytes || *bytes > limits_.memory_budget_bytes - out_.input_bytes - out_.output_bytes -
                               kSlabAlignment) {
      return absl::ResourceExhaustedError(absl::StrCat(
          path, ": ", out_.items[item].count, " matrices of ", spec.m, "x", spec.n, " ",
          Name(spec.dtype), " with all results need ",
          bytes ? absl::StrCat(*bytes + out_.input_bytes + out_.output_bytes) : "over 2^63",
          " bytes or more; the server's memory budget is ", limits_.memory_budget_bytes));
    }
    const bool is_input = &slots == &out_.inputs;
    (is_input ? out_.items[item].input_bytes : out_.items[item].output_bytes) += *bytes;
    slots.push_back({item, operand, total, *bytes, payload});
    total += AlignedBytes(*bytes);
    return absl::OkStatus();
  }

  DataMode mode_;
  std::span<const std::int64_t> payload_sizes_;
  const Limits& limits_;
  DecodedRequest out_;
  std::vector<TensorSlot> ranks_;
};

absl::Status CheckSame(absl::string_view path, absl::string_view other, const TensorShape& shape,
                       const TensorShape& reference) {
  if (shape.dtype != reference.dtype) {
    return InvalidField(
        absl::StrCat(path, ".dtype"),
        absl::StrCat("is ", Name(shape.dtype), "; ", other, " is ", Name(reference.dtype)));
  }
  if (shape.batch_dims != reference.batch_dims) {
    return InvalidField(absl::StrCat(path, ".dims"),
                        absl::StrCat("has batch dims [", DimsText(shape.batch_dims), "]; ", other,
                                     " has [", DimsText(reference.batch_dims), "]"));
  }
  return absl::OkStatus();
}

absl::Status CheckDim(absl::string_view path, absl::string_view what, std::int64_t value,
                      std::int64_t expected) {
  if (value == expected) return absl::OkStatus();
  return InvalidField(absl::StrCat(path, ".dims"),
                      absl::StrCat("has ", value, " ", what, "; must have ", expected));
}

struct DecodedReflectors {
  TensorShape reflectors;
  TensorShape tau;
};

absl::StatusOr<DecodedReflectors> DecodeReflectors(RequestDecoder& decoder, bool present,
                                                   const v1::Reflectors& factors,
                                                   absl::string_view path, Spec& spec) {
  if (!present) return InvalidField(path, "is not set");
  const std::string v_path = absl::StrCat(path, ".reflectors"),
                    tau_path = absl::StrCat(path, ".tau");
  DecodedReflectors decoded;
  ASSIGN_OR_RETURN(decoded.reflectors,
                   decoder.Tensor(factors.has_reflectors(), factors.reflectors(), v_path));
  ASSIGN_OR_RETURN(decoded.tau,
                   decoder.Tensor(factors.has_tau(), factors.tau(), tau_path, TensorRank::kVector));
  RETURN_IF_ERROR(CheckSame(tau_path, v_path, decoded.tau, decoded.reflectors));
  spec.dtype = decoded.reflectors.dtype;
  spec.layout = decoded.reflectors.layout;
  spec.m = decoded.reflectors.rows;
  spec.n = decoded.reflectors.cols;
  RETURN_IF_ERROR(CheckDim(tau_path, "entries", decoded.tau.rows, spec.k()));
  return decoded;
}

}  // namespace

std::string DecodedRequest::PathOf(const TensorSlot& input) const {
  const std::string index = absl::StrCat("[", input.item, "]");
  switch (op) {
    case Op::kFactorize:
      return absl::StrCat("a", index);
    case Op::kFormQ:
      return absl::StrCat("factors", index,
                          input.operand == Operand::kTau ? ".tau" : ".reflectors");
    case Op::kApplyQ:
      return absl::StrCat("applications", index,
                          input.operand == Operand::kTau   ? ".factors.tau"
                          : input.operand == Operand::kRhs ? ".c"
                                                           : ".factors.reflectors");
    case Op::kSolve:
      return absl::StrCat("problems", index, input.operand == Operand::kRhs ? ".b" : ".a");
  }
  return "";
}

absl::StatusOr<DecodedRequest> Decode(const v1::FactorizeRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits) {
  RequestDecoder decoder(Op::kFactorize, mode, payload_sizes, limits);
  Spec options{.op = Op::kFactorize};
  RETURN_IF_ERROR(DecodeRun(request.run(), decoder.out(), options.fast));
  if (!request.has_qr()) return InvalidField("factorization", "is not set; set qr");
  RETURN_IF_ERROR(DecodeQr(request.qr(), options));
  RETURN_IF_ERROR(decoder.CheckCount("a", request.a_size()));
  for (int i = 0; i < request.a_size(); ++i) {
    const std::string path = absl::StrCat("a[", i, "]");
    ASSIGN_OR_RETURN(const TensorShape a, decoder.Tensor(true, request.a(i), path));
    Spec spec = options;
    spec.dtype = a.dtype;
    spec.layout = a.layout;
    spec.m = a.rows;
    spec.n = a.cols;
    RETURN_IF_ERROR(CheckSpecialOrthogonal(spec, path));
    RETURN_IF_ERROR(decoder.Add(spec, a, {a.payload}, path));
  }
  return std::move(decoder).Finish();
}

absl::StatusOr<DecodedRequest> Decode(const v1::FormQRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits) {
  RequestDecoder decoder(Op::kFormQ, mode, payload_sizes, limits);
  Spec options{.op = Op::kFormQ};
  RETURN_IF_ERROR(DecodeRun(request.run(), decoder.out(), options.fast));
  ASSIGN_OR_RETURN(options.q, DecodeQMode(request.q(), QMode::kReduced, "q"));
  RETURN_IF_ERROR(decoder.CheckCount("factors", request.factors_size()));
  for (int i = 0; i < request.factors_size(); ++i) {
    const std::string path = absl::StrCat("factors[", i, "]");
    Spec spec = options;
    ASSIGN_OR_RETURN(const DecodedReflectors factors,
                     DecodeReflectors(decoder, true, request.factors(i), path, spec));
    RETURN_IF_ERROR(decoder.Add(spec, factors.reflectors,
                                {factors.reflectors.payload, factors.tau.payload}, path));
  }
  return std::move(decoder).Finish();
}

absl::StatusOr<DecodedRequest> Decode(const v1::ApplyQRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits) {
  RequestDecoder decoder(Op::kApplyQ, mode, payload_sizes, limits);
  Spec options{.op = Op::kApplyQ};
  RETURN_IF_ERROR(DecodeRun(request.run(), decoder.out(), options.fast));
  RETURN_IF_ERROR(DecodeSideAndOp(request, options));
  RETURN_IF_ERROR(decoder.CheckCount("applications", request.applications_size()));
  for (int i = 0; i < request.applications_size(); ++i) {
    const v1::Application& application = request.applications(i);
    const std::string path = absl::StrCat("applications[", i, "]"),
                      c_path = absl::StrCat(path, ".c");
    Spec spec = options;
    ASSIGN_OR_RETURN(const DecodedReflectors factors,
                     DecodeReflectors(decoder, application.has_factors(), application.factors(),
                                      absl::StrCat(path, ".factors"), spec));
    ASSIGN_OR_RETURN(const TensorShape c,
                     decoder.Tensor(application.has_c(), application.c(), c_path));
    RETURN_IF_ERROR(
        CheckSame(c_path, absl::StrCat(path, ".factors.reflectors"), c, factors.reflectors));
    const bool left = spec.side == Side::kLeft;
    RETURN_IF_ERROR(CheckDim(c_path, left ? "rows" : "columns", left ? c.rows : c.cols, spec.m));
    spec.p = left ? c.cols : c.rows;
    spec.rhs_layout = c.layout;
    RETURN_IF_ERROR(decoder.Add(spec, factors.reflectors,
                                {factors.reflectors.payload, factors.tau.payload, c.payload},
                                path));
  }
  return std::move(decoder).Finish();
}

absl::StatusOr<DecodedRequest> Decode(const v1::SolveRequest& request, DataMode mode,
                                      std::span<const std::int64_t> payload_sizes,
                                      const Limits& limits) {
  RequestDecoder decoder(Op::kSolve, mode, payload_sizes, limits);
  Spec options{.op = Op::kSolve};
  RETURN_IF_ERROR(DecodeRun(request.run(), decoder.out(), options.fast));
  if (request.has_rcond()) {
    ASSIGN_OR_RETURN(options.rcond, DecodeRcond(request.rcond()));
  }
  RETURN_IF_ERROR(decoder.CheckCount("problems", request.problems_size()));
  for (int i = 0; i < request.problems_size(); ++i) {
    const v1::LeastSquaresProblem& problem = request.problems(i);
    const std::string path = absl::StrCat("problems[", i, "]");
    const std::string a_path = absl::StrCat(path, ".a"), b_path = absl::StrCat(path, ".b");
    ASSIGN_OR_RETURN(const TensorShape a, decoder.Tensor(problem.has_a(), problem.a(), a_path));
    ASSIGN_OR_RETURN(const TensorShape b, decoder.Tensor(problem.has_b(), problem.b(), b_path));
    RETURN_IF_ERROR(CheckSame(b_path, a_path, b, a));
    RETURN_IF_ERROR(CheckDim(b_path, "rows", b.rows, a.rows));
    Spec spec = options;
    spec.dtype = a.dtype;
    spec.layout = a.layout;
    spec.rhs_layout = b.layout;
    spec.m = a.rows;
    spec.n = a.cols;
    spec.p = b.cols;
    RETURN_IF_ERROR(decoder.Add(spec, a, {a.payload, b.payload}, path));
  }
  return std::move(decoder).Finish();
}

}  // namespace factord

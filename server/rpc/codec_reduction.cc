#include "server/rpc/codec_reduction.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/reduction/block_shape.h"
#include "server/rpc/codec_options.h"
#include "server/rpc/codec_tensor.h"

namespace factord {
namespace {

// Of the result, beside its tensors' data: dims, ranges, the report.
constexpr std::int64_t kResultOverhead = 64 << 10;

absl::Status CheckColumns(const v1::ReduceRowsStart& start) {
  if (start.n() < 1) {
    return InvalidField("start.n", absl::StrCat("is ", start.n(), "; must be at least 1"));
  }
  if (start.nrhs() < 0) {
    return InvalidField("start.nrhs", absl::StrCat("is ", start.nrhs(), "; must be >= 0"));
  }
  if (start.n() > kMaxReducedColumns || start.nrhs() > kMaxReducedColumns - start.n()) {
    return InvalidField(start.n() > kMaxReducedColumns ? "start.n" : "start.nrhs",
                        absl::StrCat("n is ", start.n(), ", nrhs ", start.nrhs(),
                                     "; together they may be ", kMaxReducedColumns));
  }
  return absl::OkStatus();
}

absl::Status CheckWanted(const v1::ReduceRowsStart& start, DType dtype) {
  if (start.solve() && start.nrhs() == 0) {
    return InvalidField("start.solve", "needs right-hand sides; nrhs is 0");
  }
  if (start.standard_errors() && !start.solve()) {
    return InvalidField("start.standard_errors", "needs start.solve");
  }
  if (start.standard_errors() && IsComplex(dtype)) {
    return InvalidField("start.standard_errors",
                        absl::StrCat("needs a real type; dtype is ", Name(dtype)));
  }
  if (start.progress_rows() < 0) {
    return InvalidField("start.progress_rows",
                        absl::StrCat("is ", start.progress_rows(), "; must be >= 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckResultSize(const ReductionOptions& options, const Limits& limits) {
  std::int64_t elements = options.columns() * options.columns();
  if (options.solve) elements += options.n * options.nrhs;
  if (options.standard_errors) elements += options.n * options.nrhs;
  const std::int64_t bytes = elements * SizeOf(options.dtype) + kResultOverhead;
  if (bytes <= limits.max_message_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the result may be ", bytes, " bytes; the message limit is ", limits.max_message_bytes));
}

Item BlockItem(const ReductionOptions& options) {
  Item item;
  item.spec = RowReduction::BlockSpec(options);
  item.count = 1;
  item.input_bytes = MatrixBytes(item.spec, Operand::kA);
  item.output_bytes = MatrixBytes(item.spec, Operand::kR);
  return item;
}

// Fills the result's tensors, in order.
class ResultTensors {
 public:
  ResultTensors(const std::shared_ptr<const void>& owner, std::vector<OutPayload>& payloads)
      : owner_(owner), payloads_(payloads) {}

  void Add(DType dtype, std::initializer_list<std::int64_t> dims, const std::byte* data,
           v1::Tensor& tensor) {
    tensor.set_dtype(ToProto(dtype));
    tensor.set_layout(v1::LAYOUT_ROW_MAJOR);
    std::int64_t bytes = SizeOf(dtype);
    for (std::int64_t dim : dims) {
      tensor.add_dims(dim);
      bytes *= dim;
    }
    if (bytes == 0) return;
    tensor.set_data(PlaceholderOf(payloads_.size()));
    payloads_.push_back({data, bytes, owner_});
  }

 private:
  const std::shared_ptr<const void>& owner_;
  std::vector<OutPayload>& payloads_;
};

}  // namespace

absl::StatusOr<DecodedReduction> Decode(const v1::ReduceRowsStart& start, const Limits& limits) {
  DecodedReduction decoded;
  ReductionOptions& options = decoded.options;
  ASSIGN_OR_RETURN(options.dtype, DecodeDType(start.dtype(), "start"));
  RETURN_IF_ERROR(CheckColumns(start));
  RETURN_IF_ERROR(CheckWanted(start, options.dtype));
  options.n = start.n();
  options.nrhs = start.nrhs();
  options.solve = start.solve();
  options.standard_errors = start.standard_errors();
  if (start.has_rcond()) {
    ASSIGN_OR_RETURN(options.rcond, DecodeRcond(start.rcond()));
  }
  decoded.progress_rows = start.progress_rows();
  RETURN_IF_ERROR(CheckResultSize(options, limits));
  RETURN_IF_ERROR(DecodeRun(start.run(), decoded.request, options.fast));
  decoded.request.items.push_back(BlockItem(options));
  return decoded;
}

absl::StatusOr<DecodedTriangle> Decode(const v1::ReducedRows& reduced,
                                       std::span<const std::int64_t> payload_sizes,
                                       const ReductionOptions& options, const Limits& limits) {
  if (reduced.rows() < 0) {
    return InvalidField("reduced.rows", absl::StrCat("is ", reduced.rows(), "; must be >= 0"));
  }
  if (!reduced.has_r()) return InvalidField("reduced.r", "is not set");
  ASSIGN_OR_RETURN(const TensorShape r, DecodeTensor(reduced.r(), "reduced.r", TensorRank::kMatrix,
                                                     DataMode::kInline, payload_sizes, limits));
  if (r.dtype != options.dtype) {
    return InvalidField("reduced.r.dtype", absl::StrCat("is ", Name(r.dtype), "; start.dtype is ",
                                                        Name(options.dtype)));
  }
  if (r.layout != Layout::kRowMajor) {
    return InvalidField("reduced.r.layout", "must be row-major");
  }
  const std::int64_t rows = std::min(reduced.rows(), options.columns());
  if (!r.batch_dims.empty() || r.rows != rows || r.cols != options.columns()) {
    return InvalidField("reduced.r.dims",
                        absl::StrCat("are ",
                                     DimsText({reduced.r().dims().data(),
                                               static_cast<std::size_t>(reduced.r().dims_size())}),
                                     "; ", reduced.rows(), " rows of ", options.columns(),
                                     " columns leave ", rows, "x", options.columns()));
  }
  return DecodedTriangle{.rows = reduced.rows(), .payload = r.payload};
}

v1::ReduceRowsResponse Encode(const ReductionOptions& options, const Reduced& reduced,
                              const std::shared_ptr<const void>& owner,
                              std::vector<OutPayload>& payloads) {
  v1::ReduceRowsResponse response;
  v1::ReduceRowsResult& result = *response.mutable_result();
  ResultTensors tensors(owner, payloads);
  result.mutable_reduced()->set_rows(reduced.rows);
  tensors.Add(options.dtype, {reduced.r_rows, options.columns()}, reduced.r,
              *result.mutable_reduced()->mutable_r());
  if (options.solve) {
    const SolutionMemory& solution = reduced.solution;
    tensors.Add(options.dtype, {options.n, options.nrhs}, solution.x, *result.mutable_x());
    tensors.Add(RealOf(options.dtype), {options.nrhs}, solution.residual_norm,
                *result.mutable_residual_norm());
    if (options.standard_errors) {
      tensors.Add(options.dtype, {options.n, options.nrhs}, solution.standard_errors,
                  *result.mutable_standard_errors());
    }
    result.set_rank(reduced.rank);
  }
  if (reduced.code) result.set_code(ToProto(*reduced.code));
  for (const RowSpan& span : reduced.nonfinite) {
    v1::RowRange& range = *result.add_nonfinite();
    range.set_first(span.first);
    range.set_count(span.count);
  }
  return response;
}

}  // namespace factord

// Responses: the other half of the codec.
#include <algorithm>

#include "server/rpc/codec.h"
#include "server/rpc/codec_tensor.h"
#include "server/rpc/wire.h"

namespace factord {
namespace {

using v1::MatrixStatus;

void EncodeStatuses(const Outcome* outcome, std::size_t item,
                    google::protobuf::RepeatedPtrField<MatrixStatus>& statuses) {
  if (outcome == nullptr) return;
  for (const MatrixFailure& failure : outcome->failures[item]) {
    MatrixStatus& status = *statuses.Add();
    status.set_index(failure.index);
    status.set_code(ToProto(failure.code));
  }
}

// Fills result tensors one after another, in the API's order.
class ResponseEncoder {
 public:
  ResponseEncoder(const DecodedRequest& request, const Outcome* outcome, bool placeholders)
      : request_(request), outcome_(outcome), placeholders_(placeholders) {}

  // The item's next output tensor.
  void Tensor(std::size_t index, Operand operand, v1::Tensor& tensor) {
    const Item& item = request_.items[index];
    const Extent extent = ExtentOf(item.spec, operand);
    const bool vector = operand == Operand::kTau || operand == Operand::kResidualNorm;
    tensor.set_dtype(ToProto(TypeOf(item.spec, operand)));
    if (!vector) tensor.set_layout(ToProto(LayoutOf(item.spec, operand)));
    for (std::int64_t dim : item.batch_dims) tensor.add_dims(dim);
    tensor.add_dims(extent.rows);
    if (!vector) tensor.add_dims(extent.cols);
    if (placeholders_ && request_.outputs[next_].bytes > 0) tensor.set_data(PlaceholderOf(next_));
    ++next_;
  }

  void Item_(std::size_t index, v1::FactorizeResponse& response) {
    v1::QrFactors& factors = *response.add_qr();
    for (Operand operand : OutputsOf(request_.items[index].spec)) {
      Tensor(index, operand,
             operand == Operand::kQ            ? *factors.mutable_q()
             : operand == Operand::kR          ? *factors.mutable_r()
             : operand == Operand::kReflectors ? *factors.mutable_reflectors()
                                               : *factors.mutable_tau());
    }
    EncodeStatuses(outcome_, index, *factors.mutable_statuses());
  }
  void Item_(std::size_t index, v1::FormQResponse& response) {
    v1::FormedQ& formed = *response.add_formed();
    Tensor(index, Operand::kQ, *formed.mutable_q());
    EncodeStatuses(outcome_, index, *formed.mutable_statuses());
  }
  void Item_(std::size_t index, v1::ApplyQResponse& response) {
    v1::AppliedQ& applied = *response.add_applied();
    Tensor(index, Operand::kResult, *applied.mutable_c());
    EncodeStatuses(outcome_, index, *applied.mutable_statuses());
  }
  void Item_(std::size_t index, v1::SolveResponse& response) {
    v1::LeastSquaresSolution& solution = *response.add_solutions();
    Tensor(index, Operand::kResult, *solution.mutable_x());
    Tensor(index, Operand::kResidualNorm, *solution.mutable_residual_norm());
    if (outcome_ != nullptr) {
      solution.mutable_rank()->Add(outcome_->ranks[index].begin(), outcome_->ranks[index].end());
    }
    EncodeStatuses(outcome_, index, *solution.mutable_statuses());
  }

  template <typename Response>
  void Fill(Response& response) {
    for (std::size_t index = 0; index < request_.items.size(); ++index) Item_(index, response);
    if (outcome_ != nullptr) *response.mutable_report() = outcome_->report;
  }

 private:
  const DecodedRequest& request_;
  const Outcome* outcome_;
  bool placeholders_;
  std::size_t next_ = 0;
};

}  // namespace

std::int64_t DecodedRequest::response_overhead_bytes() const {
  constexpr std::int64_t kReport = 512, kTensor = 48, kDim = 10, kStatus = 16, kRank = 5;
  std::int64_t bytes = kReport, matrices = 0;
  for (const Item& item : items) {
    const auto tensors = static_cast<std::int64_t>(item.output_tensors);
    bytes += tensors * (kTensor + kDim * static_cast<std::int64_t>(item.batch_dims.size() + 2));
    if (item.output_bytes == 0) continue;
    matrices += item.count;
    if (op == Op::kSolve)
      bytes += kRank * item.count;  // fits: 4 bytes of each were counted as output
  }
  return bytes + kStatus * std::min(matrices, kMaxStatuses);
}

v1::StreamResult Encode(const DecodedRequest& request, const Outcome* outcome, bool placeholders) {
  v1::StreamResult result;
  ResponseEncoder encoder(request, outcome, placeholders);
  switch (request.op) {
    case Op::kFactorize:
      encoder.Fill(*result.mutable_factorize());
      break;
    case Op::kFormQ:
      encoder.Fill(*result.mutable_form_q());
      break;
    case Op::kApplyQ:
      encoder.Fill(*result.mutable_apply_q());
      break;
    case Op::kSolve:
      encoder.Fill(*result.mutable_solve());
      break;
  }
  return result;
}

v1::MatrixCode ToProto(MatrixCode code) {
  switch (code) {
    case MatrixCode::kNonfiniteInput:
      return v1::MATRIX_CODE_NONFINITE_INPUT;
    case MatrixCode::kResultOutOfRange:
      return v1::MATRIX_CODE_RESULT_OUT_OF_RANGE;
    case MatrixCode::kRankDeficient:
      return v1::MATRIX_CODE_RANK_DEFICIENT;
  }
  return v1::MATRIX_CODE_UNSPECIFIED;
}

v1::Backend ToProto(Backend backend) {
  return backend == Backend::kCpu ? v1::BACKEND_CPU : v1::BACKEND_GPU;
}

}  // namespace factord

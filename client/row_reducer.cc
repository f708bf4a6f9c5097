#include "client/row_reducer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/grpc_status.h"
#include "client/row_reducer_call.h"
#include "client/stream_call.h"

namespace factord::client {
namespace {

// Takes the tensor, which must have these dims.
absl::Status Take(absl::string_view name, const std::vector<int64_t>& dims, v1::Tensor* tensor,
                  Matrices* result) {
  absl::StatusOr<Matrices> matrices = TakeMatrices(tensor);
  if (!matrices.ok()) return matrices.status();
  if (matrices->dims != dims) {
    return absl::InternalError(absl::StrCat("the server's reply: ", name, " is ",
                                            DimsName(matrices->dims), ", not ", DimsName(dims)));
  }
  *result = *std::move(matrices);
  return absl::OkStatus();
}

absl::StatusOr<RowReduction> ReadResult(const v1::ReduceRowsStart& start,
                                        v1::ReduceRowsResult result) {
  RowReduction reduction;
  reduction.reduced.rows = result.reduced().rows();
  const int64_t columns = start.n() + start.nrhs();
  absl::Status status = Take("r", {std::min(reduction.reduced.rows, columns), columns},
                             result.mutable_reduced()->mutable_r(), &reduction.reduced.r);
  if (status.ok() && start.solve()) {
    status = Take("x", {start.n(), start.nrhs()}, result.mutable_x(), &reduction.x.emplace());
  }
  if (status.ok() && start.solve()) {
    status = Take("residual_norm", {start.nrhs()}, result.mutable_residual_norm(),
                  &reduction.residual_norm.emplace());
  }
  if (status.ok() && start.standard_errors()) {
    status = Take("standard_errors", {start.n(), start.nrhs()}, result.mutable_standard_errors(),
                  &reduction.standard_errors.emplace());
  }
  if (!status.ok()) return status;
  reduction.rank = result.rank();
  reduction.code = result.code();
  reduction.nonfinite.assign(result.nonfinite().begin(), result.nonfinite().end());
  reduction.report = std::move(*result.mutable_report());
  return reduction;
}

}  // namespace

RowReducer::RowReducer(std::unique_ptr<Call> call) : call_(std::move(call)) {}

RowReducer::~RowReducer() {
  if (call_->is_over) return;
  call_->context.TryCancel();
  call_->stream->Finish();
}

absl::Status RowReducer::Add(absl::string_view rows) {
  std::string* gathered = call_->rows.mutable_rows();
  while (!rows.empty()) {
    const absl::string_view piece = rows.substr(0, kChunkBytes - gathered->size());
    gathered->append(piece.data(), piece.size());
    rows.remove_prefix(piece.size());
    if (gathered->size() < kChunkBytes) continue;
    const absl::Status status = Flush();
    if (!status.ok()) return status;
  }
  return call_->status;
}

absl::Status RowReducer::Merge(const ReducedRows& reduced) {
  const absl::Status status = Flush();
  if (!status.ok()) return status;
  v1::ReduceRowsRequest request;
  request.mutable_reduced()->set_rows(reduced.rows);
  v1::Tensor* r = request.mutable_reduced()->mutable_r();
  SetTensorShape(reduced.r.View(), r);
  r->set_data(reduced.r.data);
  return Send(request);
}

absl::StatusOr<RowReduction> RowReducer::Finish() {
  const absl::Status flushed = Flush();
  if (!flushed.ok()) return flushed;
  call_->stream->WritesDone();
  std::optional<v1::ReduceRowsResult> result;
  v1::ReduceRowsResponse response;
  while (call_->stream->Read(&response)) {
    if (response.has_result()) result = std::move(*response.mutable_result());
  }
  call_->is_over = true;
  call_->status = ToAbslStatus(call_->stream->Finish());
  if (!call_->status.ok()) return call_->status;
  if (!result.has_value()) {
    return absl::InternalError("the server's stream: it ended without a result");
  }
  return ReadResult(call_->start, *std::move(result));
}

absl::Status RowReducer::Flush() {
  std::string* gathered = call_->rows.mutable_rows();
  if (gathered->empty()) return call_->status;
  const absl::Status status = Send(call_->rows);
  gathered->clear();
  return status;
}

absl::Status RowReducer::Send(const v1::ReduceRowsRequest& request) {
  if (!call_->status.ok() || call_->stream->Write(request)) return call_->status;
  // The server has ended the call, and says why.
  v1::ReduceRowsResponse response;
  while (call_->stream->Read(&response)) {
  }
  call_->is_over = true;
  call_->status = ToAbslStatus(call_->stream->Finish());
  if (call_->status.ok()) {
    call_->status = absl::InternalError("the server's stream: it ended before the rows did");
  }
  return call_->status;
}

}  // namespace factord::client

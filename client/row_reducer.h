#ifndef FACTORD_CLIENT_ROW_REDUCER_H_
#define FACTORD_CLIENT_ROW_REDUCER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/tensor.h"
#include "factord/v1/factord.pb.h"

namespace factord::client {

// All that is left of the rows of (A B): R, min(rows, n + nrhs) x (n + nrhs), and how many rows
// there were. A plain value.
struct ReducedRows {
  int64_t rows = 0;
  Matrices r;
};

// What came of all rows; see ReduceRowsResult in factord.proto.
struct RowReduction {
  ReducedRows reduced;
  // Where they were asked for.
  std::optional<Matrices> x;                // (n, nrhs)
  std::optional<Matrices> residual_norm;    // (nrhs), real
  std::optional<Matrices> standard_errors;  // (n, nrhs)
  int64_t rank = -1;                        // with x; -1 where rows are not finite
  v1::MatrixCode code = v1::MATRIX_CODE_UNSPECIFIED;
  std::vector<v1::RowRange> nonfinite;
  v1::RunReport report;
};

// A matrix on its way to a server, which keeps R alone: Client::ReduceRows begins it, Finish ends
// it. Nothing is tried again, since rows that were sent are not kept.
//
// Thread-safety: one thread at a time. Must be destroyed before the client.
// Errors: what the server answered, with its code, message and details; after one, every call
// returns it.
class RowReducer {
 public:
  // Cancels the call unless Finish has returned.
  ~RowReducer();
  RowReducer(const RowReducer&) = delete;
  RowReducer& operator=(const RowReducer&) = delete;

  // More of (A B), row by row, n + nrhs elements each, little-endian; any number of bytes, also
  // parts of rows. Waits while the server is behind; what is less than a message waits for more.
  absl::Status Add(absl::string_view rows);

  // What another stream made of its rows: as if they came here. The rows before it must be whole.
  absl::Status Merge(const ReducedRows& reduced);

  // There are no more rows: waits for the result. To be called once.
  absl::StatusOr<RowReduction> Finish();

 private:
  friend class Transport;
  struct Call;
  explicit RowReducer(std::unique_ptr<Call> call);

  absl::Status Flush();
  absl::Status Send(const v1::ReduceRowsRequest& request);

  const std::unique_ptr<Call> call_;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_ROW_REDUCER_H_

#ifndef FACTORD_CLIENT_ROW_REDUCER_CALL_H_
#define FACTORD_CLIENT_ROW_REDUCER_CALL_H_

#include <grpcpp/client_context.h>

#include <memory>

#include "client/row_reducer.h"
#include "factord/v1/factord.grpc.pb.h"

namespace factord::client {

// The gRPC side of a RowReducer, which users of the library need not see.
struct RowReducer::Call {
  grpc::ClientContext context;
  v1::ReduceRowsStart start;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::ReduceRowsRequest, v1::ReduceRowsResponse>>
      stream;
  v1::ReduceRowsRequest rows;  // gathered, not sent yet
  absl::Status status;         // what every call returns once it is an error
  bool is_over = false;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_ROW_REDUCER_CALL_H_

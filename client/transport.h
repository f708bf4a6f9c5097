#ifndef FACTORD_CLIENT_TRANSPORT_H_
#define FACTORD_CLIENT_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/factord_client.h"
#include "client/tensor_order.h"
#include "factord/v1/factord.grpc.pb.h"

namespace factord::client {

// How requests get to the server and replies back, the same for every operation: deadline,
// metadata, one message or a stream, retries. Thread-safe.
class Transport {
 public:
  explicit Transport(ClientOptions options);

  // Runs `request`, whose tensors have no data yet: `data[i]` is that of tensor i. `result_bytes`:
  // about how large the reply's tensors will be. Operation names the types and the places of one
  // operation; see factord_client.cc.
  template <typename Operation>
  absl::StatusOr<typename Operation::Response> Call(typename Operation::Request request,
                                                    const std::vector<absl::string_view>& data,
                                                    double result_bytes, const CallOptions& call);

  // One message each way.
  template <typename Request, typename Response>
  absl::StatusOr<Response> CallUnary(grpc::Status (v1::Factorization::StubInterface::*method)(
                                         grpc::ClientContext*, const Request&, Response*),
                                     const Request& request, const CallOptions& call);

  // As Client::ReduceRows.
  absl::StatusOr<std::unique_ptr<RowReducer>> ReduceRows(const v1::ReduceRowsStart& start,
                                                         const CallOptions& call);

 private:
  bool NeedsStream(const std::vector<absl::string_view>& data, double result_bytes) const;
  absl::StatusOr<v1::StreamResult> CallStream(const v1::Start& start,
                                              const std::vector<absl::string_view>& data,
                                              const CallOptions& call);
  absl::Time Deadline(const CallOptions& call) const;
  // DEADLINE_EXCEEDED where the deadline has passed.
  absl::Status Prepare(absl::Time deadline, grpc::ClientContext* context) const;
  // Calls `attempt` with a fresh context for each try.
  absl::Status Retry(const CallOptions& call,
                     absl::FunctionRef<absl::Status(grpc::ClientContext*)> attempt);
  static absl::Status ToStatus(const grpc::Status& status);

  const ClientOptions options_;
  const std::unique_ptr<v1::Factorization::StubInterface> stub_;
};

template <typename Request, typename Response>
absl::StatusOr<Response> Transport::CallUnary(
    grpc::Status (v1::Factorization::StubInterface::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
    const Request& request, const CallOptions& call) {
  Response response;
  const absl::Status status = Retry(call, [&](grpc::ClientContext* context) {
    response.Clear();
    return ToStatus((stub_.get()->*method)(context, request, &response));
  });
  if (!status.ok()) return status;
  return response;
}

template <typename Operation>
absl::StatusOr<typename Operation::Response> Transport::Call(
    typename Operation::Request request, const std::vector<absl::string_view>& data,
    double result_bytes, const CallOptions& call) {
  *request.mutable_run() = call.run;
  if (!NeedsStream(data, result_bytes)) {
    const std::vector<v1::Tensor*> tensors = TensorsOf(&request);
    for (size_t i = 0; i < data.size(); ++i) {
      tensors[i]->mutable_data()->assign(data[i].data(), data[i].size());
    }
    return CallUnary(Operation::kMethod, request, call);
  }

  v1::Start start;
  *Operation::MutableRequest(&start) = std::move(request);
  absl::StatusOr<v1::StreamResult> result = CallStream(start, data, call);
  if (!result.ok()) return result.status();
  if (!Operation::HasResponse(*result)) {
    return absl::InternalError("the server's stream: the result is of another operation");
  }
  return std::move(*Operation::MutableResponse(&*result));
}

}  // namespace factord::client

#endif  // FACTORD_CLIENT_TRANSPORT_H_

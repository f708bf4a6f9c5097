#ifndef FACTORD_CLIENT_FACTORD_CLIENT_H_
#define FACTORD_CLIENT_FACTORD_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/retry.h"
#include "client/row_reducer.h"
#include "client/tensor.h"
#include "factord/v1/factord.pb.h"

namespace grpc {
class ChannelCredentials;
}

namespace factord::client {

class Transport;

struct ClientOptions {
  // Where the server is: host:port, or any other gRPC name.
  std::string target = "127.0.0.1:50051";

  // Sent as the metadata entry `factord-client`, the key by which the server shares itself out
  // between its clients. Processes that are one customer should use one name. Empty: the server
  // goes by the connection.
  std::string client_name;

  // How long one call may take in all, retries included. Positive.
  absl::Duration timeout = absl::Seconds(60);

  // gRPC's limit for one message, either way. A larger request or reply is streamed, whatever
  // stream_threshold_bytes says. Raise it only together with the server's
  // (GetServerInfo.max_message_bytes). At least 4 MiB, gRPC's own default.
  int64_t max_message_bytes = int64_t{64} << 20;

  // Requests whose inputs or results are larger than this go over FactorizeStream in chunks. One
  // message is a little faster while it is small; a stream needs neither side to hold a second copy
  // of the whole. 0: everything that has data is streamed.
  int64_t stream_threshold_bytes = int64_t{4} << 20;

  RetryPolicy retry;
  RetryEnvironment environment = RetryEnvironment::Real();

  // True: a TCP connection of this client's own. False: shared with other clients of this process
  // and target.
  bool own_connection = false;

  // Null: no encryption. tls_credentials.h makes them from files.
  std::shared_ptr<grpc::ChannelCredentials> credentials;

  // The bearer token of a server that asks for one. Without credentials everyone on the way can
  // read it.
  std::string token;
};

// What may differ from call to call.
struct CallOptions {
  // As ClientOptions::timeout; unset: the client's.
  std::optional<absl::Duration> timeout;

  // How the request runs: backend, precision, priority, reproducibility.
  v1::RunOptions run;

  // Where the call is streamed: told now and then how many bytes have been sent and received, and
  // how many there are in all, as far as is known yet. Called from several threads, never from two
  // at once; must be quick.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
};

// The results of one tensor. Only what was asked for is set; dims and layouts are as factord.proto
// says.
struct QrResult {
  std::optional<Matrices> q;
  std::optional<Matrices> r;
  std::optional<Matrices> reflectors;
  std::optional<Matrices> tau;
  std::vector<v1::MatrixStatus> statuses;  // the matrices that are not plainly OK
};

struct FactorizeResult {
  std::vector<QrResult> qr;  // one for each tensor
  v1::RunReport report;
};

// Q in factored form, as Factorize returns it.
struct ReflectorsView {
  TensorView reflectors;
  TensorView tau;
};

struct MatricesResult {
  Matrices matrices;
  std::vector<v1::MatrixStatus> statuses;
};

struct FormQResult {
  std::vector<MatricesResult> q;  // one for each of the factors
  v1::RunReport report;
};

struct ApplicationView {
  ReflectorsView factors;
  TensorView c;
};

struct ApplyQResult {
  std::vector<MatricesResult> c;  // one for each of the applications
  v1::RunReport report;
};

struct LeastSquaresView {
  TensorView a;  // (..., m, n)
  TensorView b;  // (..., m, nrhs)
};

struct LeastSquaresResult {
  Matrices x;
  Matrices residual_norm;
  std::vector<int32_t> rank;  // one for each matrix; -1 where the input was not finite
  std::vector<v1::MatrixStatus> statuses;
};

struct SolveResult {
  std::vector<LeastSquaresResult> solutions;  // one for each of the problems
  v1::RunReport report;
};

// A connection to a factord server: each method is one request, and blocks until it is answered.
//
// Thread-safety: any number of threads may call any methods at once; they share one channel.
// Ownership: inputs are views, read only during the call; results own their memory.
// Errors: what the server answered, with its code, message and details (see grpc_status.h);
// UNAVAILABLE only after the retries. INVALID_ARGUMENT without a call where the bytes of an input
// are not what its dims and type say. INTERNAL where a reply contradicts itself or the request. A
// matrix that can not be factorized is not an error: it is listed in `statuses`.
class Client {
 public:
  // Does not connect: the first call does. INVALID_ARGUMENT names an option that is out of range.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);

  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // A = Q R, for every matrix of every tensor.
  absl::StatusOr<FactorizeResult> Factorize(absl::Span<const TensorView> a, const v1::QrOptions& qr,
                                            const CallOptions& call = {});

  // Q from reflectors and tau.
  absl::StatusOr<FormQResult> FormQ(absl::Span<const ReflectorsView> factors, v1::QMode q,
                                    const CallOptions& call = {});

  // Q C, Q^H C, C Q or C Q^H.
  absl::StatusOr<ApplyQResult> ApplyQ(absl::Span<const ApplicationView> applications, v1::Side side,
                                      v1::QOp op, const CallOptions& call = {});

  // Least squares. `rcond`: the rank threshold, in [0, 1); unset: the server's default.
  absl::StatusOr<SolveResult> Solve(absl::Span<const LeastSquaresView> problems,
                                    std::optional<double> rcond = std::nullopt,
                                    const CallOptions& call = {});

  // Begins a matrix whose rows come bit by bit. `start` says its type and its columns and what is
  // wanted; its `run` and `progress_rows` are not read. The timeout is that of the whole matrix.
  absl::StatusOr<std::unique_ptr<RowReducer>> ReduceRows(const v1::ReduceRowsStart& start,
                                                         const CallOptions& call = {});

  // What a request would do. Its tensors have dims and types and no data.
  absl::StatusOr<v1::ExplainResponse> Explain(const v1::ExplainRequest& request,
                                              const CallOptions& call = {});

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& call = {});

 private:
  explicit Client(std::unique_ptr<Transport> transport);

  const std::unique_ptr<Transport> transport_;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORD_CLIENT_H_

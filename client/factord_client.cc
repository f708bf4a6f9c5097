#include "client/factord_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/transport.h"

namespace factord::client {
namespace {

// The types of one operation, and its places in the stream's messages: what Transport::Call needs
// to know.
#define FACTORD_CLIENT_OPERATION(Name, field)                                                \
  struct Name##Operation {                                                                   \
    using Request = v1::Name##Request;                                                       \
    using Response = v1::Name##Response;                                                     \
    static constexpr auto kMethod = &v1::Factorization::StubInterface::Name;                 \
    static Request* MutableRequest(v1::Start* start) { return start->mutable_##field(); }    \
    static bool HasResponse(const v1::StreamResult& result) { return result.has_##field(); } \
    static Response* MutableResponse(v1::StreamResult* result) {                             \
      return result->mutable_##field();                                                      \
    }                                                                                        \
  }
FACTORD_CLIENT_OPERATION(Factorize, factorize);
FACTORD_CLIENT_OPERATION(FormQ, form_q);
FACTORD_CLIENT_OPERATION(ApplyQ, apply_q);
FACTORD_CLIENT_OPERATION(Solve, solve);
#undef FACTORD_CLIENT_OPERATION

// Collects a request's inputs: shapes go into the message, bytes stay with the caller until they
// are sent.
class Inputs {
 public:
  // `at_least_dims`: 2 for matrices, 1 for tau.
  void Add(const TensorView& view, absl::string_view field, size_t index, size_t at_least_dims,
           v1::Tensor* tensor) {
    SetTensorShape(view, tensor);
    data_.push_back(view.data);
    if (!status_.ok()) return;
    const absl::StatusOr<int64_t> bytes = TensorBytes(view.dtype, view.dims);
    if (!bytes.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(field, " ", index, ": ", bytes.status().message()));
    } else if (view.dims.size() < at_least_dims) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          field, " ", index, ": ", view.dims.size(), " dims, at least ", at_least_dims, " needed"));
    } else if (*bytes != static_cast<int64_t>(view.data.size())) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(field, " ", index, ": ", DimsName(view.dims), " ", DTypeName(view.dtype),
                       " is ", *bytes, " bytes, and the data have ", view.data.size()));
    }
  }

  void AddReflectors(const ReflectorsView& view, size_t index, v1::Reflectors* factors) {
    Add(view.reflectors, "reflectors", index, 2, factors->mutable_reflectors());
    Add(view.tau, "tau", index, 1, factors->mutable_tau());
  }

  // OK, or what is wrong with the first bad input.
  const absl::Status& status() const { return status_; }
  const std::vector<absl::string_view>& data() const { return data_; }

 private:
  absl::Status status_;
  std::vector<absl::string_view> data_;
};

// About how large the results are. In double: they need not fit anything.
double MatrixBytes(const TensorView& view, double rows, double columns) {
  const BatchShape shape = ShapeOf(view.dims);
  return static_cast<double>(shape.batch_count) * rows * columns *
         static_cast<double>(DTypeBytes(view.dtype));
}

double QBytes(const TensorView& view, v1::QMode q) {
  const BatchShape shape = ShapeOf(view.dims);
  const int64_t columns = q == v1::Q_MODE_COMPLETE ? shape.m : std::min(shape.m, shape.n);
  return MatrixBytes(view, static_cast<double>(shape.m), static_cast<double>(columns));
}

double QrBytes(const TensorView& a, const v1::QrOptions& qr) {
  const BatchShape shape = ShapeOf(a.dims);
  const double k = static_cast<double>(std::min(shape.m, shape.n));
  double bytes = 0;
  if (qr.q() != v1::Q_MODE_UNSPECIFIED) bytes += QBytes(a, qr.q());
  if (qr.r()) bytes += MatrixBytes(a, k, static_cast<double>(shape.n));
  if (qr.reflectors()) bytes += static_cast<double>(a.data.size()) + MatrixBytes(a, k, 1);
  return bytes;
}

// The type of norms of `dtype`.
v1::DType RealType(v1::DType dtype) {
  if (dtype == v1::DTYPE_C64) return v1::DTYPE_F32;
  return dtype == v1::DTYPE_C128 ? v1::DTYPE_F64 : dtype;
}

// Takes results out of a reply, and remembers the first that is not what the request makes it:
// callers index by the dims that they know.
class Outputs {
 public:
  // Matrices with the batch dims and layout of `like`.
  Matrices Take(absl::string_view name, const TensorView& like, std::vector<int64_t> last_dims,
                v1::Tensor* tensor) {
    Matrices matrices = TakeShaped(name, like, std::move(last_dims), like.dtype, tensor);
    const bool is_column_major = like.layout == v1::LAYOUT_COLUMN_MAJOR;
    if (is_column_major != (matrices.layout == v1::LAYOUT_COLUMN_MAJOR)) {
      status_.Update(absl::InternalError(
          absl::StrCat("the server's reply: ", name, " has not the layout of the request")));
    }
    return matrices;
  }

  // Vectors have one order only, whatever layout their matrices have.
  Matrices TakeVectors(absl::string_view name, const TensorView& like, int64_t last_dim,
                       v1::DType dtype, v1::Tensor* tensor) {
    Matrices vectors = TakeShaped(name, like, {last_dim}, dtype, tensor);
    vectors.layout = v1::LAYOUT_ROW_MAJOR;
    return vectors;
  }

  // For each item of the request one of the reply.
  bool ExpectCount(absl::string_view name, int64_t expected, int64_t count) {
    if (count == expected) return true;
    status_.Update(absl::InternalError(
        absl::StrCat("the server's reply: ", count, " ", name, ", expected ", expected)));
    return false;
  }

  const absl::Status& status() const { return status_; }

 private:
  Matrices TakeShaped(absl::string_view name, const TensorView& like,
                      std::vector<int64_t> last_dims, v1::DType dtype, v1::Tensor* tensor) {
    std::vector<int64_t> dims(like.dims.begin(), like.dims.end() - 2);
    dims.insert(dims.end(), last_dims.begin(), last_dims.end());
    absl::StatusOr<Matrices> matrices = TakeMatrices(tensor);
    if (matrices.ok() && matrices->dims == dims && matrices->dtype == dtype) {
      return *std::move(matrices);
    }
    status_.Update(matrices.ok() ? absl::InternalError(absl::StrCat(
                                       "the server's reply: ", name, " is ",
                                       DimsName(matrices->dims), " ", DTypeName(matrices->dtype),
                                       ", expected ", DimsName(dims), " ", DTypeName(dtype)))
                                 : matrices.status());
    return {dtype, std::move(dims), like.layout, ""};
  }

  absl::Status status_;
};

std::vector<v1::MatrixStatus> Statuses(
    const google::protobuf::RepeatedPtrField<v1::MatrixStatus>& statuses) {
  return {statuses.begin(), statuses.end()};
}

absl::Status Validate(const ClientOptions& options) {
  if (options.target.empty()) return absl::InvalidArgumentError("target is empty");
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout is ", absl::FormatDuration(options.timeout), ", not above 0"));
  }
  if (options.max_message_bytes < (int64_t{4} << 20)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_message_bytes is ", options.max_message_bytes, ", below 4194304"));
  }
  if (options.stream_threshold_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream_threshold_bytes is ", options.stream_threshold_bytes, ", below 0"));
  }
  if (!std::all_of(options.token.begin(), options.token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError("token holds a space, or what is no visible character");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(ClientOptions options) {
  const absl::Status status = Validate(options);
  if (!status.ok()) return status;
  return std::unique_ptr<Client>(new Client(std::make_unique<Transport>(std::move(options))));
}

Client::Client(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}
Client::~Client() = default;

absl::StatusOr<FactorizeResult> Client::Factorize(absl::Span<const TensorView> a,
                                                  const v1::QrOptions& qr,
                                                  const CallOptions& call) {
  v1::FactorizeRequest request;
  *request.mutable_qr() = qr;
  Inputs inputs;
  for (size_t i = 0; i < a.size(); ++i) inputs.Add(a[i], "a", i, 2, request.add_a());
  if (!inputs.status().ok()) return inputs.status();
  double result_bytes = 0;
  for (const TensorView& view : a) result_bytes += QrBytes(view, qr);

  absl::StatusOr<v1::FactorizeResponse> response =
      transport_->Call<FactorizeOperation>(std::move(request), inputs.data(), result_bytes, call);
  if (!response.ok()) return response.status();
  FactorizeResult result;
  Outputs outputs;
  if (!outputs.ExpectCount("results", a.size(), response->qr_size())) return outputs.status();
  for (size_t i = 0; i < a.size(); ++i) {
    const auto [batch_count, m, n] = ShapeOf(a[i].dims);
    const int64_t k = std::min(m, n);
    v1::QrFactors& factors = *response->mutable_qr(static_cast<int>(i));
    QrResult& out = result.qr.emplace_back();
    if (qr.q() != v1::Q_MODE_UNSPECIFIED) {
      const int64_t columns = qr.q() == v1::Q_MODE_COMPLETE ? m : k;
      out.q = outputs.Take("q", a[i], {m, columns}, factors.mutable_q());
    }
    if (qr.r()) out.r = outputs.Take("r", a[i], {k, n}, factors.mutable_r());
    if (qr.reflectors()) {
      out.reflectors = outputs.Take("reflectors", a[i], {m, n}, factors.mutable_reflectors());
      out.tau = outputs.TakeVectors("tau", a[i], k, a[i].dtype, factors.mutable_tau());
    }
    out.statuses = Statuses(factors.statuses());
  }
  if (!outputs.status().ok()) return outputs.status();
  result.report = std::move(*response->mutable_report());
  return result;
}

absl::StatusOr<FormQResult> Client::FormQ(absl::Span<const ReflectorsView> factors, v1::QMode q,
                                          const CallOptions& call) {
  v1::FormQRequest request;
  request.set_q(q);
  Inputs inputs;
  for (size_t i = 0; i < factors.size(); ++i) {
    inputs.AddReflectors(factors[i], i, request.add_factors());
  }
  if (!inputs.status().ok()) return inputs.status();
  double result_bytes = 0;
  for (const ReflectorsView& view : factors) result_bytes += QBytes(view.reflectors, q);

  absl::StatusOr<v1::FormQResponse> response =
      transport_->Call<FormQOperation>(std::move(request), inputs.data(), result_bytes, call);
  if (!response.ok()) return response.status();
  FormQResult result;
  Outputs outputs;
  if (!outputs.ExpectCount("results", factors.size(), response->formed_size())) {
    return outputs.status();
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    const TensorView& reflectors = factors[i].reflectors;
    const auto [batch_count, m, n] = ShapeOf(reflectors.dims);
    const int64_t columns = q == v1::Q_MODE_COMPLETE ? m : std::min(m, n);
    v1::FormedQ& formed = *response->mutable_formed(static_cast<int>(i));
    result.q.push_back({outputs.Take("q", reflectors, {m, columns}, formed.mutable_q()),
                        Statuses(formed.statuses())});
  }
  if (!outputs.status().ok()) return outputs.status();
  result.report = std::move(*response->mutable_report());
  return result;
}

absl::StatusOr<ApplyQResult> Client::ApplyQ(absl::Span<const ApplicationView> applications,
                                            v1::Side side, v1::QOp op, const CallOptions& call) {
  v1::ApplyQRequest request;
  request.set_side(side);
  request.set_op(op);
  Inputs inputs;
  double result_bytes = 0;
  for (size_t i = 0; i < applications.size(); ++i) {
    v1::Application* application = request.add_applications();
    inputs.AddReflectors(applications[i].factors, i, application->mutable_factors());
    inputs.Add(applications[i].c, "c", i, 2, application->mutable_c());
    result_bytes += static_cast<double>(applications[i].c.data.size());
  }
  if (!inputs.status().ok()) return inputs.status();

  absl::StatusOr<v1::ApplyQResponse> response =
      transport_->Call<ApplyQOperation>(std::move(request), inputs.data(), result_bytes, call);
  if (!response.ok()) return response.status();
  ApplyQResult result;
  Outputs outputs;
  if (!outputs.ExpectCount("results", applications.size(), response->applied_size())) {
    return outputs.status();
  }
  for (size_t i = 0; i < applications.size(); ++i) {
    const TensorView& c = applications[i].c;
    const auto [batch_count, rows, columns] = ShapeOf(c.dims);
    v1::AppliedQ& applied = *response->mutable_applied(static_cast<int>(i));
    result.c.push_back(
        {outputs.Take("c", c, {rows, columns}, applied.mutable_c()), Statuses(applied.statuses())});
  }
  if (!outputs.status().ok()) return outputs.status();
  result.report = std::move(*response->mutable_report());
  return result;
}

absl::StatusOr<SolveResult> Client::Solve(absl::Span<const LeastSquaresView> problems,
                                          std::optional<double> rcond, const CallOptions& call) {
  v1::SolveRequest request;
  if (rcond.has_value()) request.set_rcond(*rcond);
  Inputs inputs;
  for (size_t i = 0; i < problems.size(); ++i) {
    v1::LeastSquaresProblem* problem = request.add_problems();
    inputs.Add(problems[i].a, "a", i, 2, problem->mutable_a());
    inputs.Add(problems[i].b, "b", i, 2, problem->mutable_b());
  }
  if (!inputs.status().ok()) return inputs.status();
  double result_bytes = 0;
  for (const LeastSquaresView& problem : problems) {
    result_bytes += MatrixBytes(problem.a, static_cast<double>(problem.a.dims.back()),
                                static_cast<double>(problem.b.dims.back()));
  }

  absl::StatusOr<v1::SolveResponse> response =
      transport_->Call<SolveOperation>(std::move(request), inputs.data(), result_bytes, call);
  if (!response.ok()) return response.status();
  SolveResult result;
  Outputs outputs;
  if (!outputs.ExpectCount("results", problems.size(), response->solutions_size())) {
    return outputs.status();
  }
  for (size_t i = 0; i < problems.size(); ++i) {
    const auto [batch_count, m, n] = ShapeOf(problems[i].a.dims);
    const TensorView& b = problems[i].b;
    const int64_t nrhs = b.dims.back();
    v1::LeastSquaresSolution& solution = *response->mutable_solutions(static_cast<int>(i));
    LeastSquaresResult& out = result.solutions.emplace_back();
    out.x = outputs.Take("x", b, {n, nrhs}, solution.mutable_x());
    out.residual_norm = outputs.TakeVectors("residual_norm", b, nrhs, RealType(b.dtype),
                                            solution.mutable_residual_norm());
    outputs.ExpectCount("ranks", batch_count, solution.rank_size());
    out.rank.assign(solution.rank().begin(), solution.rank().end());
    out.statuses = Statuses(solution.statuses());
  }
  if (!outputs.status().ok()) return outputs.status();
  result.report = std::move(*response->mutable_report());
  return result;
}

absl::StatusOr<std::unique_ptr<RowReducer>> Client::ReduceRows(const v1::ReduceRowsStart& start,
                                                               const CallOptions& call) {
  return transport_->ReduceRows(start, call);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const v1::ExplainRequest& request,
                                                    const CallOptions& call) {
  return transport_->CallUnary(&v1::Factorization::StubInterface::Explain, request, call);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& call) {
  return transport_->CallUnary(&v1::Factorization::StubInterface::GetServerInfo,
                               v1::GetServerInfoRequest(), call);
}

}  // namespace factord::client

#include "tests/client/fake_qr.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "client/elements.h"
#include "client/tensor.h"

namespace factord::client {
namespace {

using Complex = std::complex<double>;

// One matrix.
struct Dense {
  Dense(int64_t rows, int64_t columns) : m(rows), n(columns), values(rows * columns) {}
  Complex& operator()(int64_t i, int64_t j) { return values[i * n + j]; }

  int64_t m;
  int64_t n;
  std::vector<Complex> values;
};

std::vector<int64_t> Dims(const v1::Tensor& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

Dense Load(const v1::Tensor& tensor, int64_t batch) {
  const BatchShape shape = ShapeOf(Dims(tensor));
  Dense matrix(shape.m, shape.n);
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.n; ++j) {
      matrix(i, j) = GetElement(tensor.dtype(), ElementIndex(tensor.layout(), shape, batch, i, j),
                                tensor.data());
    }
  }
  return matrix;
}

void Store(Dense matrix, int64_t batch, v1::Tensor* tensor) {
  const BatchShape shape{1, matrix.m, matrix.n};
  for (int64_t i = 0; i < matrix.m; ++i) {
    for (int64_t j = 0; j < matrix.n; ++j) {
      SetElement(tensor->dtype(),
                 ElementIndex(tensor->layout(), shape, 0, i, j) + batch * matrix.m * matrix.n,
                 matrix(i, j), tensor->mutable_data());
    }
  }
}

// Gives `tensor` the batch dims, type and layout of `like`, and zeros.
void Shape(const v1::Tensor& like, std::vector<int64_t> last_dims, v1::Tensor* tensor) {
  std::vector<int64_t> dims = Dims(like);
  dims.resize(dims.size() - 2);
  dims.insert(dims.end(), last_dims.begin(), last_dims.end());
  SetTensorShape({like.dtype(), dims, like.layout(), {}}, tensor);
  tensor->mutable_data()->assign(*TensorBytes(like.dtype(), dims), '\0');
}

bool IsFinite(const Dense& matrix) {
  return std::all_of(matrix.values.begin(), matrix.values.end(), [](Complex value) {
    return std::isfinite(value.real()) && std::isfinite(value.imag());
  });
}

// A := (I - tau v v^H) A, v below and at row i of V's column i, v[i] = 1.
void ApplyReflector(Dense& V, int64_t i, Complex tau, Dense& A, int64_t first_column) {
  for (int64_t j = first_column; j < A.n; ++j) {
    Complex w = A(i, j);
    for (int64_t r = i + 1; r < A.m; ++r) w += std::conj(V(r, i)) * A(r, j);
    A(i, j) -= tau * w;
    for (int64_t r = i + 1; r < A.m; ++r) A(r, j) -= tau * w * V(r, i);
  }
}

// X of the triangular R X = B, which has the rows of B below it too.
Dense BackSubstitute(Dense& R, Dense& B) {
  Dense X(R.n, B.n);
  for (int64_t j = 0; j < B.n; ++j) {
    for (int64_t i = R.n - 1; i >= 0; --i) {
      Complex sum = B(i, j);
      for (int64_t p = i + 1; p < R.n; ++p) sum -= R(i, p) * X(p, j);
      X(i, j) = sum / R(i, i);
    }
  }
  return X;
}

// Of each column, from row `first` down.
std::vector<double> NormsBelow(Dense& B, int64_t first) {
  std::vector<double> norms;
  for (int64_t j = 0; j < B.n; ++j) {
    double squares = 0;
    for (int64_t i = first; i < B.m; ++i) squares += std::norm(B(i, j));
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

// LAPACK geqr2: A becomes R and the reflectors.
std::vector<Complex> Geqr2(Dense& A) {
  std::vector<Complex> taus;
  for (int64_t i = 0; i < std::min(A.m, A.n); ++i) {
    const Complex alpha = A(i, i);
    double tail = 0;
    for (int64_t r = i + 1; r < A.m; ++r) tail += std::norm(A(r, i));
    Complex tau = 0;
    if (tail != 0 || alpha.imag() != 0) {
      const double beta = -std::copysign(std::sqrt(std::norm(alpha) + tail), alpha.real());
      tau = (beta - alpha) / beta;
      for (int64_t r = i + 1; r < A.m; ++r) A(r, i) /= alpha - beta;
      A(i, i) = beta;
      ApplyReflector(A, i, std::conj(tau), A, i + 1);
    }
    taus.push_back(tau);
  }
  return taus;
}

// C := Q C or Q^H C.
void ApplyQ(Dense& V, const std::vector<Complex>& taus, bool adjoint, Dense& C) {
  const int64_t k = static_cast<int64_t>(taus.size());
  for (int64_t step = 0; step < k; ++step) {
    const int64_t i = adjoint ? step : k - 1 - step;
    ApplyReflector(V, i, adjoint ? std::conj(taus[i]) : taus[i], C, 0);
  }
}

Dense Adjoint(Dense matrix) {
  Dense result(matrix.n, matrix.m);
  for (int64_t i = 0; i < matrix.m; ++i) {
    for (int64_t j = 0; j < matrix.n; ++j) result(j, i) = std::conj(matrix(i, j));
  }
  return result;
}

Dense FormQ(Dense& V, const std::vector<Complex>& taus, int64_t columns) {
  Dense Q(V.m, columns);
  for (int64_t i = 0; i < columns; ++i) Q(i, i) = 1;
  ApplyQ(V, taus, /*adjoint=*/false, Q);
  return Q;
}

Dense UpperTriangle(Dense& A) {
  Dense R(std::min(A.m, A.n), A.n);
  for (int64_t i = 0; i < R.m; ++i) {
    for (int64_t j = i; j < R.n; ++j) R(i, j) = A(i, j);
  }
  return R;
}

std::vector<Complex> LoadTau(const v1::Tensor& tau, int64_t batch, int64_t k) {
  std::vector<Complex> taus(k);
  for (int64_t i = 0; i < k; ++i) taus[i] = GetElement(tau.dtype(), batch * k + i, tau.data());
  return taus;
}

template <typename Response>
void FillReport(int64_t matrices, Response* response) {
  v1::RunReport* report = response->mutable_report();
  report->set_backend(v1::BACKEND_CPU);
  report->set_path("fake");
  report->set_bucket("any");
  report->set_batch_matrices(matrices);
  report->set_jobs(1);
  report->set_decode_ns(1'000);
  report->set_queue_ns(2'000);
  report->set_pack_ns(3'000);
  report->set_compute_ns(4'000'000);
  report->set_unpack_ns(5'000);
  report->set_run_ns(6'000'000);
}

void FactorizeTensor(const v1::Tensor& a, const v1::QrOptions& qr, v1::QrFactors* factors) {
  const BatchShape shape = ShapeOf(Dims(a));
  const int64_t k = std::min(shape.m, shape.n);
  const int64_t q_columns = qr.q() == v1::Q_MODE_COMPLETE ? shape.m : k;
  if (qr.q() != v1::Q_MODE_UNSPECIFIED) Shape(a, {shape.m, q_columns}, factors->mutable_q());
  if (qr.r()) Shape(a, {k, shape.n}, factors->mutable_r());
  if (qr.reflectors()) {
    Shape(a, {shape.m, shape.n}, factors->mutable_reflectors());
    Shape(a, {k}, factors->mutable_tau());
  }
  for (int64_t batch = 0; batch < shape.batch_count; ++batch) {
    Dense A = Load(a, batch);
    if (!IsFinite(A)) {
      std::fill(A.values.begin(), A.values.end(), std::numeric_limits<double>::quiet_NaN());
      v1::MatrixStatus* status = factors->add_statuses();
      status->set_index(batch);
      status->set_code(v1::MATRIX_CODE_NONFINITE_INPUT);
    }
    const std::vector<Complex> taus = Geqr2(A);
    if (factors->has_q()) Store(FormQ(A, taus, q_columns), batch, factors->mutable_q());
    if (factors->has_r()) Store(UpperTriangle(A), batch, factors->mutable_r());
    if (!factors->has_reflectors()) continue;
    Store(A, batch, factors->mutable_reflectors());
    for (int64_t i = 0; i < k; ++i) {
      SetElement(a.dtype(), batch * k + i, taus[i], factors->mutable_tau()->mutable_data());
    }
  }
}

v1::DType RealType(v1::DType dtype) {
  return DTypeBytes(dtype) == 4 || dtype == v1::DTYPE_C64 ? v1::DTYPE_F32 : v1::DTYPE_F64;
}

}  // namespace

v1::FactorizeResponse FakeFactorize(const v1::FactorizeRequest& request) {
  v1::FactorizeResponse response;
  int64_t matrices = 0;
  for (const v1::Tensor& a : request.a()) {
    FactorizeTensor(a, request.qr(), response.add_qr());
    matrices += ShapeOf(Dims(a)).batch_count;
  }
  FillReport(matrices, &response);
  return response;
}

v1::FormQResponse FakeFormQ(const v1::FormQRequest& request) {
  v1::FormQResponse response;
  for (const v1::Reflectors& factors : request.factors()) {
    const BatchShape shape = ShapeOf(Dims(factors.reflectors()));
    const int64_t k = std::min(shape.m, shape.n);
    const int64_t columns = request.q() == v1::Q_MODE_COMPLETE ? shape.m : k;
    v1::Tensor* q = response.add_formed()->mutable_q();
    Shape(factors.reflectors(), {shape.m, columns}, q);
    for (int64_t batch = 0; batch < shape.batch_count; ++batch) {
      Dense V = Load(factors.reflectors(), batch);
      Store(FormQ(V, LoadTau(factors.tau(), batch, k), columns), batch, q);
    }
  }
  FillReport(1, &response);
  return response;
}

v1::ApplyQResponse FakeApplyQ(const v1::ApplyQRequest& request) {
  v1::ApplyQResponse response;
  const bool on_the_right = request.side() == v1::SIDE_RIGHT;
  // C Q = (Q^H C^H)^H.
  const bool adjoint = (request.op() == v1::Q_OP_ADJOINT) != on_the_right;
  for (const v1::Application& application : request.applications()) {
    const v1::Tensor& reflectors = application.factors().reflectors();
    const BatchShape shape = ShapeOf(Dims(reflectors));
    v1::Tensor* c = response.add_applied()->mutable_c();
    *c = application.c();
    for (int64_t batch = 0; batch < shape.batch_count; ++batch) {
      Dense V = Load(reflectors, batch);
      const std::vector<Complex> taus =
          LoadTau(application.factors().tau(), batch, std::min(shape.m, shape.n));
      Dense C = Load(application.c(), batch);
      if (on_the_right) C = Adjoint(C);
      ApplyQ(V, taus, adjoint, C);
      Store(on_the_right ? Adjoint(C) : C, batch, c);
    }
  }
  FillReport(1, &response);
  return response;
}

v1::SolveResponse FakeSolve(const v1::SolveRequest& request) {
  v1::SolveResponse response;
  for (const v1::LeastSquaresProblem& problem : request.problems()) {
    const BatchShape shape = ShapeOf(Dims(problem.a()));
    const int64_t nrhs = problem.b().dims(problem.b().dims_size() - 1);
    v1::LeastSquaresSolution* solution = response.add_solutions();
    Shape(problem.b(), {shape.n, nrhs}, solution->mutable_x());
    v1::Tensor real = problem.b();
    real.set_dtype(RealType(problem.b().dtype()));
    Shape(real, {nrhs}, solution->mutable_residual_norm());
    for (int64_t batch = 0; batch < shape.batch_count; ++batch) {
      Dense A = Load(problem.a(), batch);
      Dense B = Load(problem.b(), batch);
      const std::vector<Complex> taus = Geqr2(A);
      ApplyQ(A, taus, /*adjoint=*/true, B);
      const std::vector<double> norms = NormsBelow(B, shape.n);
      for (int64_t j = 0; j < nrhs; ++j) {
        SetElement(solution->residual_norm().dtype(), batch * nrhs + j, norms[j],
                   solution->mutable_residual_norm()->mutable_data());
      }
      Store(BackSubstitute(A, B), batch, solution->mutable_x());
      solution->add_rank(static_cast<int32_t>(shape.n));
    }
  }
  FillReport(1, &response);
  return response;
}

v1::ReduceRowsResult FakeReduceRows(const std::vector<v1::ReduceRowsRequest>& messages) {
  const v1::ReduceRowsStart& start = messages.front().start();
  const int64_t n = start.n();
  const int64_t columns = n + start.nrhs();
  std::string data;
  int64_t merged_rows = 0;  // that came as reductions, less the rows of these
  for (const v1::ReduceRowsRequest& message : messages) {
    data += message.rows() + message.reduced().r().data();
    if (message.has_reduced()) {
      merged_rows += message.reduced().rows() - message.reduced().r().dims(0);
    }
  }
  const int64_t height = static_cast<int64_t>(data.size()) / DTypeBytes(start.dtype()) / columns;
  v1::Tensor rows;
  SetTensorShape({start.dtype(), {height, columns}, v1::LAYOUT_ROW_MAJOR, {}}, &rows);
  *rows.mutable_data() = std::move(data);

  Dense A = Load(rows, 0);
  v1::ReduceRowsResult result;
  result.set_rank(n);
  if (!IsFinite(A)) {
    std::fill(A.values.begin(), A.values.end(), std::numeric_limits<double>::quiet_NaN());
    result.set_rank(-1);
    result.set_code(v1::MATRIX_CODE_NONFINITE_INPUT);
    result.add_nonfinite()->set_count(height);
  }
  Geqr2(A);
  Dense R = UpperTriangle(A);
  result.mutable_reduced()->set_rows(height + merged_rows);
  Shape(rows, {R.m, R.n}, result.mutable_reduced()->mutable_r());
  Store(R, 0, result.mutable_reduced()->mutable_r());
  FillReport(1, &result);
  if (!start.solve()) return result;

  Dense R11(n, n);
  Dense QhB(R.m, start.nrhs());
  for (int64_t i = 0; i < R.m; ++i) {
    for (int64_t j = i; j < n; ++j) R11(i, j) = R(i, j);
    for (int64_t j = 0; j < start.nrhs(); ++j) QhB(i, j) = R(i, n + j);
  }
  Shape(rows, {n, start.nrhs()}, result.mutable_x());
  Store(BackSubstitute(R11, QhB), 0, result.mutable_x());
  rows.set_dtype(RealType(start.dtype()));
  Shape(rows, {start.nrhs()}, result.mutable_residual_norm());
  const std::vector<double> norms = NormsBelow(QhB, n);
  for (int64_t j = 0; j < start.nrhs(); ++j) {
    SetElement(rows.dtype(), j, norms[j], result.mutable_residual_norm()->mutable_data());
  }
  if (!start.standard_errors()) return result;

  Dense identity(n, n);
  for (int64_t i = 0; i < n; ++i) identity(i, i) = 1;
  Dense inverse = Adjoint(BackSubstitute(R11, identity));
  const std::vector<double> spread = NormsBelow(inverse, 0);
  Dense errors(n, start.nrhs());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < start.nrhs(); ++j) {
      errors(i, j) =
          spread[i] * norms[j] / std::sqrt(static_cast<double>(result.reduced().rows() - n));
    }
  }
  Shape(rows, {n, start.nrhs()}, result.mutable_standard_errors());
  Store(errors, 0, result.mutable_standard_errors());
  return result;
}

}  // namespace factord::client

// Factorizes one large matrix, and checks the result: stream ADDRESS
// What is over stream_threshold_bytes goes over FactorizeStream in chunks both ways, by itself.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/examples/cpp/connection.h"
#include "client/examples/cpp/matrix.h"
#include "client/factord_client.h"

namespace factord::examples {
namespace {

constexpr int kRows = 4000;
constexpr int kColumns = 1000;

int Main(const char* address) {
  const auto client = Connect(address);
  if (!client.ok()) {
    std::cerr << "stream: " << client.status() << '\n';
    return 1;
  }
  const std::vector<double> a = Normal<double>(kRows * kColumns, 2);
  v1::QrOptions qr;
  qr.set_q(v1::Q_MODE_REDUCED);
  qr.set_r(true);
  const client::TensorView tensor = {
      .dtype = v1::DTYPE_F64, .dims = {kRows, kColumns}, .data = BytesOf(a)};
  int64_t steps = 0;
  client::CallOptions call;
  call.timeout = absl::Minutes(2);
  call.progress = [&](int64_t /*done_bytes*/, int64_t /*total_bytes*/) { ++steps; };
  const absl::StatusOr<client::FactorizeResult> result = (*client)->Factorize({tensor}, qr, call);
  if (!result.ok()) {
    std::cerr << "stream: " << result.status() << '\n';
    return 1;
  }

  const Residuals residuals = ResidualsOnVector(a, ValuesOf<double>(result->qr[0].q->data),
                                                ValuesOf<double>(result->qr[0].r->data), kColumns);
  std::printf("stream: %dx%d, |A-QR|/|A| %.1e, |Q'Q-I| %.1e, %lld chunks\n", kRows, kColumns,
              residuals.residual, residuals.orthogonality, static_cast<long long>(steps));
  return steps > 0 && residuals.residual < 1e-13 && residuals.orthogonality < 1e-13 ? 0 : 1;
}

}  // namespace
}  // namespace factord::examples

int main(int argc, char** argv) { return argc == 2 ? factord::examples::Main(argv[1]) : 2; }

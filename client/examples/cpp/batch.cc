// Factorizes 1000 matrices of 32 x 32 in one call, and checks the result: batch ADDRESS
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/examples/cpp/connection.h"
#include "client/examples/cpp/matrix.h"
#include "client/factord_client.h"

namespace factord::examples {
namespace {

constexpr int kCount = 1000;
constexpr int kRows = 32;
constexpr int kColumns = 32;

absl::StatusOr<client::QrResult> Factorize(client::Client& client, const std::vector<float>& a) {
  v1::QrOptions qr;
  qr.set_q(v1::Q_MODE_REDUCED);
  qr.set_r(true);
  const client::TensorView tensor = {
      .dtype = v1::DTYPE_F32, .dims = {kCount, kRows, kColumns}, .data = BytesOf(a)};
  absl::StatusOr<client::FactorizeResult> result = client.Factorize({tensor}, qr);
  if (!result.ok()) return result.status();
  return std::move(result->qr[0]);
}

// Whether Q and R are what they should be.
bool Check(const std::vector<float>& a, const client::QrResult& result) {
  const std::vector<float> q = ValuesOf<float>(result.q->data);
  const std::vector<float> r = ValuesOf<float>(result.r->data);
  Residuals worst;
  for (int at = 0; at < kCount * kRows * kColumns; at += kRows * kColumns) {
    const Residuals one = ResidualsOf(&a[at], &q[at], &r[at], kRows, kColumns);
    worst.residual = std::max(worst.residual, one.residual);
    worst.orthogonality = std::max(worst.orthogonality, one.orthogonality);
  }
  std::printf("batch: %d of %dx%d, |A-QR|/|A| %.1e, |Q'Q-I| %.1e\n", kCount, kRows, kColumns,
              worst.residual, worst.orthogonality);
  return worst.residual < 1e-5 && worst.orthogonality < 1e-5;
}

int Main(const char* address) {
  const auto client = Connect(address);
  if (!client.ok()) {
    std::cerr << "batch: " << client.status() << '\n';
    return 1;
  }
  const std::vector<float> a = Normal<float>(kCount * kRows * kColumns, 1);
  const absl::StatusOr<client::QrResult> result = Factorize(**client, a);
  if (!result.ok()) {
    std::cerr << "batch: " << result.status() << '\n';
    return 1;
  }
  return Check(a, *result) ? 0 : 1;
}

}  // namespace
}  // namespace factord::examples

int main(int argc, char** argv) { return argc == 2 ? factord::examples::Main(argv[1]) : 2; }

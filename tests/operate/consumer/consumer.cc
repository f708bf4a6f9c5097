// consumer TARGET: a least-squares problem whose solution is known, and a request that is refused.
#include <cstdio>
#include <cstring>

#include "client/tensor.h"
#include "factord/client/factord_client.h"
#include "factord/client/grpc_status.h"

namespace {

factord::client::TensorView View(const double* data, std::vector<std::int64_t> dims) {
  factord::client::TensorView view;
  view.dtype = factord::v1::DTYPE_F64;
  view.dims = std::move(dims);
  std::int64_t bytes = sizeof(double);
  for (const std::int64_t dim : view.dims) bytes *= dim;
  view.data = absl::string_view(reinterpret_cast<const char*>(data), bytes);
  return view;
}

}  // namespace

int main(int, char** argv) {
  factord::client::ClientOptions options;
  options.target = argv[1];
  const auto client = factord::client::Client::Create(options);
  if (!client.ok()) return 1;

  const double a[] = {1, 0, 0, 2, 0, 0};
  const double b[] = {3, 4, 5};
  const factord::client::LeastSquaresView problem = {View(a, {3, consumer::kUnknowns}),
                                                     View(b, {3, 1})};
  const auto solved = (*client)->Solve({problem});
  if (!solved.ok()) {
    std::printf("%s\n", solved.status().ToString().c_str());
    return 1;
  }
  double x[consumer::kUnknowns];
  std::memcpy(x, solved->solutions[0].x.data.data(), sizeof(x));
  std::printf("x = %.12g %.12g\n", x[0], x[1]);

  const auto refused = (*client)->Solve({problem}, 2.0);  // rcond is below 1
  std::printf("refused: %s\n",
              factord::client::RefusedField(refused.status()).value_or("nothing").c_str());
  return 0;
}

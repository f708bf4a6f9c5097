// What to do when a call fails: refused for good, refused for now, too late: errors ADDRESS
#include <atomic>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/examples/cpp/connection.h"
#include "client/examples/cpp/matrix.h"
#include "client/factord_client.h"
#include "client/grpc_status.h"

namespace factord::examples {
namespace {

absl::Status FactorizeR(client::Client& client, const std::vector<double>& a, int64_t m, int64_t n,
                        const v1::QrOptions& qr, absl::Duration timeout) {
  client::CallOptions call;
  call.timeout = timeout;
  const client::TensorView tensor = {.dtype = v1::DTYPE_F64, .dims = {m, n}, .data = BytesOf(a)};
  return client.Factorize({tensor}, qr, call).status();
}

v1::QrOptions OnlyR() {
  v1::QrOptions qr;
  qr.set_r(true);
  return qr;
}

bool ShowRefusal(client::Client& client) {
  v1::QrOptions impossible;
  impossible.set_reflectors(true);
  impossible.set_sign(v1::SIGN_NONNEGATIVE);
  const absl::Status status =
      FactorizeR(client, std::vector<double>(16), 4, 4, impossible, absl::Seconds(10));
  std::cout << "refused: " << absl::StatusCodeToString(status.code()) << ", "
            << client::RefusedField(status).value_or("no field") << '\n';
  return absl::IsInvalidArgument(status);
}

// 16 calls at once: more than a server takes whose queue is short. The client waits as long as the
// server asks it to, and tries again.
bool ShowBusy(client::ClientOptions options) {
  std::atomic<int> refusals = 0;
  options.retry.max_attempts = 1000;  // until the timeout
  options.environment.sleep = [&, sleep = options.environment.sleep](absl::Duration wait) {
    ++refusals;
    sleep(wait);
  };
  const auto client = client::Client::Create(options);
  if (!client.ok()) {
    std::cerr << client.status() << '\n';
    return false;
  }

  const std::vector<double> a = Normal<double>(300 * 300, 3);
  std::atomic<int> answered = 0;
  std::vector<std::thread> calls(16);
  for (std::thread& call : calls) {
    call = std::thread([&] {
      const absl::Status status = FactorizeR(**client, a, 300, 300, OnlyR(), absl::Minutes(1));
      if (status.ok()) ++answered;
    });
  }
  for (std::thread& call : calls) call.join();
  std::cout << "busy: " << answered << " calls answered, " << refusals << " refusals\n";
  return answered == 16;
}

bool ShowDeadline(client::Client& client) {
  const absl::Status status = FactorizeR(client, std::vector<double>(1000 * 1000), 1000, 1000,
                                         OnlyR(), absl::Milliseconds(1));
  std::cout << "late: " << absl::StatusCodeToString(status.code()) << '\n';
  return absl::IsDeadlineExceeded(status);
}

int Main(const char* address) {
  const absl::StatusOr<client::ClientOptions> options = OptionsFor(address);
  const auto client = Connect(address);
  if (!options.ok() || !client.ok()) {
    std::cerr << "errors: " << client.status() << '\n';
    return 1;
  }
  return ShowRefusal(**client) && ShowBusy(*options) && ShowDeadline(**client) ? 0 : 1;
}

}  // namespace
}  // namespace factord::examples

int main(int argc, char** argv) { return argc == 2 ? factord::examples::Main(argv[1]) : 2; }

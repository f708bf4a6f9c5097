// What ReduceRows adds to its bytes: the time of a stream of rows, until R is here, over that of a
// bare one-way gRPC stream of the same messages.
//
//   reduce_rows_bench [ROUNDS [MIB [SERVER_FLAG...]]]
//
// Starts the factord beside it and an echo server, each a process of its own, on loopback. The two
// are timed in turn, round by round, so that a machine that changes its speed changes both; medians
// are over the rounds. Prints one JSON object a width.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/child_process.h"
#include "bench/echo_server.h"
#include "factord/v1/factord.pb.h"
#include "grpc/grpc.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/keep_freed_memory.h"

namespace factord::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kColumns[] = {4, 8, 16, 32, 64};
constexpr std::int64_t kMessageBytes = 2 << 20;
constexpr std::size_t kMessages = 16;  // different ones, sent over and over

grpc::ByteBuffer BufferOf(const v1::ReduceRowsRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer StartOf(std::int64_t columns) {
  v1::ReduceRowsRequest request;
  request.mutable_start()->set_dtype(v1::DTYPE_F64);
  request.mutable_start()->set_n(columns);
  return BufferOf(request);
}

std::vector<grpc::ByteBuffer> RandomRows() {
  std::mt19937_64 random(20261130);
  std::normal_distribution<double> normal;
  std::vector<grpc::ByteBuffer> messages;
  for (std::size_t i = 0; i < kMessages; ++i) {
    std::vector<double> values(kMessageBytes / sizeof(double));
    for (double& value : values) value = normal(random);
    v1::ReduceRowsRequest request;
    request.set_rows(values.data(), kMessageBytes);
    messages.push_back(BufferOf(request));
  }
  return messages;
}

// A caller that streams messages and takes the only reply.
class StreamClient {
 public:
  explicit StreamClient(const std::string& address)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {}

  void Call(const grpc::ByteBuffer& start, const std::vector<grpc::ByteBuffer>& messages,
            std::int64_t count) {
    grpc::ClientContext context;
    const auto call = stub_.PrepareCall(&context, "/factord.v1.Factorization/ReduceRows", &queue_);
    call->StartCall(nullptr);
    Wait();
    call->Write(start, nullptr);
    Wait();
    for (std::int64_t i = 0; i < count; ++i) {
      call->Write(messages[static_cast<std::size_t>(i) % messages.size()], nullptr);
      Wait();
    }
    call->WritesDone(nullptr);
    Wait();
    grpc::ByteBuffer reply;
    call->Read(&reply, nullptr);
    Wait();
    grpc::Status status;
    call->Finish(&status, nullptr);
    Wait();
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.error_message().c_str());
    std::exit(1);
  }

 private:
  void Wait() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

template <typename Call>
double Seconds(Call call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void Measure(std::int64_t columns, const std::vector<grpc::ByteBuffer>& messages,
             std::int64_t count, StreamClient& service, StreamClient& echo, int rounds) {
  const grpc::ByteBuffer start = StartOf(columns);
  std::vector<double> service_s, echo_s, shares;
  for (int round = -1; round < rounds; ++round) {
    const double s = Seconds([&] { service.Call(start, messages, count); });
    const double e = Seconds([&] { echo.Call(start, messages, count); });
    if (round < 0) continue;  // warm-up
    service_s.push_back(s);
    echo_s.push_back(e);
    shares.push_back(e / s);
  }
  const double bytes = static_cast<double>(count * kMessageBytes);
  std::printf(
      "{\"columns\": %ld, \"bytes\": %.0f, \"reduce_gb_s\": %.3f, \"stream_gb_s\": %.3f, "
      "\"share\": %.3f, \"share_p10\": %.3f, \"share_p90\": %.3f, \"rounds\": %d}\n",
      columns, bytes, bytes / Quantile(service_s, 0.5) / 1e9, bytes / Quantile(echo_s, 0.5) / 1e9,
      Quantile(shares, 0.5), Quantile(shares, 0.1), Quantile(shares, 0.9), rounds);
  std::fflush(stdout);
}

}  // namespace
}  // namespace factord::bench

int main(int argc, char** argv) {
  using namespace factord::bench;
  factord::KeepFreedMemory();
  if (argc > 1 && std::string(argv[1]) == "--echo") return RunEchoServer();
  grpc_init();  // for the process's life: its shutdown can take 10 s
  const std::string self = argv[0];
  const std::string folder = self.substr(0, self.rfind('/') + 1);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 11;
  const std::int64_t mib = argc > 2 ? std::atoll(argv[2]) : 512;
  std::vector<std::string> command = {folder + "factord", "--listen=127.0.0.1:0",
                                      "--metrics_listen="};
  for (int i = 3; i < argc; ++i) command.emplace_back(argv[i]);
  ChildProcess factord_server(command);
  ChildProcess echo_server({self, "--echo"});
  StreamClient service(factord_server.address()), echo(echo_server.address());
  const std::vector<grpc::ByteBuffer> messages = RandomRows();
  for (std::int64_t columns : kColumns) {
    Measure(columns, messages, mib * (1 << 20) / kMessageBytes, service, echo, rounds);
  }
  return 0;
}

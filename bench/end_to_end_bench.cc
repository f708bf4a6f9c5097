// What the service adds: one request's time over [a bare gRPC echo of as many bytes + the same work
// in process].
//
//   end_to_end_bench [ROUNDS]
//
// Starts the factord beside it and an echo server, each a process of its own, on loopback. The
// three are timed in turn, round by round, so that a machine that changes its speed changes all
// three; medians are over the rounds. Prints one JSON object a shape.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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
#include "server/core/slab.h"
#include "server/engine/cpu_count.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/lapack.h"
#include "server/keep_freed_memory.h"

namespace factord::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  std::int64_t count, n;
};

constexpr Shape kShapes[] = {{1, 8},     {1, 32},   {1, 128}, {20000, 8},
                             {1000, 32}, {64, 128}, {4, 512}, {1, 1024}};

std::vector<float> NormalMatrices(const Shape& shape) {
  std::mt19937 random(20261130);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(shape.count * shape.n * shape.n));
  for (float& value : values) value = normal(random);
  return values;
}

grpc::ByteBuffer RequestOf(const Shape& shape, const std::vector<float>& values) {
  v1::FactorizeRequest request;
  v1::Tensor& a = *request.add_a();
  a.set_dtype(v1::DTYPE_F32);
  for (std::int64_t dim : {shape.count, shape.n, shape.n}) a.add_dims(dim);
  a.set_data(values.data(), values.size() * sizeof(float));
  request.mutable_qr()->set_q(v1::Q_MODE_REDUCED);
  request.mutable_qr()->set_r(true);
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// A unary caller that hands bytes over and takes bytes back.
class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  grpc::ByteBuffer Call(const std::string& method, const grpc::ByteBuffer& request,
                        std::size_t reply_bytes) {
    grpc::ClientContext context;
    context.AddMetadata("reply-bytes", std::to_string(reply_bytes));
    const auto call = stub_->PrepareUnaryCall(&context, method, request, &queue_);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", method.c_str(), status.error_message().c_str());
      std::exit(1);
    }
    return response;
  }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
};

// The same matrices as one job, in memory like the server's.
class InProcess {
 public:
  InProcess(const Shape& shape, const std::vector<float>& values, int threads)
      : factorizer_(threads), shape_(shape) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(float));
    for (Slab* slab : {&a_, &q_, &r_}) *slab = *Slab::Create(bytes);
    std::memcpy(a_.data(), values.data(), static_cast<std::size_t>(bytes));
  }

  void Run() {
    auto job = std::make_unique<Job>();
    job->spec = {.op = Op::kFactorize,
                 .dtype = DType::kF32,
                 .m = shape_.n,
                 .n = shape_.n,
                 .q = QMode::kReduced,
                 .r = true};
    job->count = shape_.count;
    job->operands[static_cast<std::size_t>(Operand::kA)] = a_.data();
    job->operands[static_cast<std::size_t>(Operand::kQ)] = q_.data();
    job->operands[static_cast<std::size_t>(Operand::kR)] = r_.data();
    Batch batch;
    batch.jobs.push_back(std::move(job));
    if (!factorizer_.Run(batch).ok()) std::abort();
  }

 private:
  CpuFactorizer factorizer_;
  const Shape shape_;
  Slab a_, q_, r_;
};

template <typename Call>
double Microseconds(Call call) {
  const auto start = Clock::now();
  call();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

void Measure(const Shape& shape, RawClient& service, RawClient& echo, int rounds) {
  const std::vector<float> values = NormalMatrices(shape);
  const grpc::ByteBuffer request = RequestOf(shape, values);
  InProcess in_process(shape, values, CpuCount());
  const auto call_service = [&] {
    return service.Call("/factord.v1.Factorization/Factorize", request, 0);
  };
  const std::size_t reply = call_service().Length();

  std::vector<double> service_us, echo_us, compute_us, ratios;
  for (int round = -3; round < rounds; ++round) {
    const double s = Microseconds(call_service);
    const double e = Microseconds([&] { echo.Call("/echo/Echo", request, reply); });
    const double c = Microseconds([&] { in_process.Run(); });
    if (round < 0) continue;  // warm-up
    service_us.push_back(s);
    echo_us.push_back(e);
    compute_us.push_back(c);
    ratios.push_back(s / (e + c));
  }
  const double s = Quantile(service_us, 0.5), e = Quantile(echo_us, 0.5),
               c = Quantile(compute_us, 0.5);
  std::printf(
      "{\"matrices\": %ld, \"n\": %ld, \"request_bytes\": %zu, \"reply_bytes\": %zu, "
      "\"service_us\": %.1f, \"echo_us\": %.1f, "
      "\"compute_us\": %.1f, \"ratio\": %.3f, \"ratio_p10\": %.3f, \"ratio_p50\": %.3f, "
      "\"ratio_p90\": %.3f, \"rounds\": %d}\n",
      shape.count, shape.n, request.Length(), reply, s, e, c, s / (e + c), Quantile(ratios, 0.1),
      Quantile(ratios, 0.5), Quantile(ratios, 0.9), rounds);
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
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 51;
  ChildProcess factord_server({folder + "factord", "--listen=127.0.0.1:0", "--metrics_listen="});
  ChildProcess echo_server({self, "--echo"});
  RawClient service(factord_server.address()), echo(echo_server.address());
  factord::InitializeLapack();
  for (const Shape& shape : kShapes)
    Measure(shape, service, echo, shape.count * shape.n > 100'000 ? rounds : 3 * rounds);
  return 0;
}

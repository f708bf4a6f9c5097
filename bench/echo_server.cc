#include "bench/echo_server.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"

namespace factord::bench {
namespace {

constexpr std::size_t kMaxReply = 256 << 20;
char reply_bytes[kMaxReply];

class Echo final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Echo(std::size_t size) : size_(size) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (ok) return StartRead(&request_);
    grpc::Slice slice(reply_bytes, size_, grpc::Slice::STATIC_SLICE);
    response_ = grpc::ByteBuffer(&slice, 1);
    StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const std::size_t size_;
  grpc::ByteBuffer request_, response_;
};

class EchoService final : public grpc::CallbackGenericService {
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    const auto entry = context->client_metadata().find("reply-bytes");
    const bool given = entry != context->client_metadata().end();
    return new Echo(given ? std::stoul(std::string(entry->second.data(), entry->second.size()))
                          : 0);
  }
};

}  // namespace

int RunEchoServer() {
  EchoService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterCallbackGenericService(&service);
  const auto server = builder.BuildAndStart();
  std::printf("listening on 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}

}  // namespace factord::bench

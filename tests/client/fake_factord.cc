#include "tests/client/fake_factord.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/tensor.h"
#include "client/tensor_order.h"
#include "factord/v1/factord.grpc.pb.h"
#include "tests/client/fake_qr.h"

namespace factord::client {
namespace {

using Stream = grpc::ServerReaderWriter<v1::StreamResponse, v1::StreamRequest>;

// Not a divisor of the client's chunks, so that neither side can rely on the other's.
constexpr size_t kReplyChunkBytes = 1'000'003;

grpc::Status ToGrpc(const google::rpc::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), status.message(),
                      status.SerializeAsString());
}

v1::StreamResult Answer(const v1::Start& start) {
  v1::StreamResult result;
  if (start.has_factorize()) *result.mutable_factorize() = FakeFactorize(start.factorize());
  if (start.has_form_q()) *result.mutable_form_q() = FakeFormQ(start.form_q());
  if (start.has_apply_q()) *result.mutable_apply_q() = FakeApplyQ(start.apply_q());
  if (start.has_solve()) *result.mutable_solve() = FakeSolve(start.solve());
  return result;
}

}  // namespace

class FakeFactord::Service : public v1::Factorization::Service {
 public:
  grpc::Status Factorize(grpc::ServerContext* context, const v1::FactorizeRequest* request,
                         v1::FactorizeResponse* response) override {
    const grpc::Status status = Unary(context, *request, FakeFactorize, response);
    absl::MutexLock lock(&mutex_);
    if (swaps_dims_of_r_) {
      google::protobuf::RepeatedField<int64_t>* dims =
          response->mutable_qr(0)->mutable_r()->mutable_dims();
      dims->SwapElements(dims->size() - 2, dims->size() - 1);
    }
    return status;
  }
  grpc::Status FormQ(grpc::ServerContext* context, const v1::FormQRequest* request,
                     v1::FormQResponse* response) override {
    return Unary(context, *request, FakeFormQ, response);
  }
  grpc::Status ApplyQ(grpc::ServerContext* context, const v1::ApplyQRequest* request,
                      v1::ApplyQResponse* response) override {
    return Unary(context, *request, FakeApplyQ, response);
  }
  grpc::Status Solve(grpc::ServerContext* context, const v1::SolveRequest* request,
                     v1::SolveResponse* response) override {
    return Unary(context, *request, FakeSolve, response);
  }

  grpc::Status Explain(grpc::ServerContext*, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override {
    for (const v1::Tensor& a : request->factorize().a()) {
      v1::Explanation* explanation = response->add_explanations();
      explanation->set_bucket(absl::StrCat("any, ", a.dims_size(), " dims"));
      explanation->set_backend(v1::BACKEND_CPU);
      explanation->set_path("fake");
      explanation->set_jobs(1);
      explanation->set_flops(1.5e6);
      explanation->set_input_bytes(100);
      explanation->set_output_bytes(200);
      explanation->set_predicted_ns(2'500'000);
      explanation->set_reason("There is nothing else.");
      if (a.dims_size() < 3) continue;
      explanation->set_device("a \"CPU\"");
      explanation->set_label(v1::ROUTE_LABEL_ESTIMATED);
      explanation->set_cpu_ns(2'000'000);
      explanation->set_gpu_ns(3'000'000);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetServerInfo(grpc::ServerContext*, const v1::GetServerInfoRequest*,
                             v1::GetServerInfoResponse* response) override {
    response->set_version("0.0-fake");
    v1::BackendInfo* backend = response->add_backends();
    backend->set_backend(v1::BACKEND_CPU);
    backend->set_name("a \"CPU\"");
    backend->set_library("plain loops");
    backend->set_threads(1);
    backend->set_lanes(1);
    backend->set_healthy(true);
    backend = response->add_backends();
    backend->set_backend(v1::BACKEND_GPU);
    backend->set_name("2 x a GPU");
    backend->set_library("CUDA 13.0");
    backend->set_lanes(4);
    backend->set_healthy(true);
    backend->set_driver("580.1");
    v1::Device* device = backend->add_devices();
    device->set_name("gpu0");
    device->set_model("a GPU");
    device->set_memory_bytes(5000);
    device->set_lanes(2);
    response->set_routing(v1::ROUTE_LABEL_MEASURED);
    response->set_routing_table("a CPU, a GPU");
    response->set_max_message_bytes(1000);
    response->set_max_matrix_elements(2000);
    response->set_max_tensors(30);
    response->set_memory_budget_bytes(4000);
    response->mutable_uptime()->set_seconds(90);
    response->add_rpcs("Factorize");
    response->add_rpcs("Solve");
    return grpc::Status::OK;
  }

  grpc::Status FactorizeStream(grpc::ServerContext* context, Stream* stream) override {
    google::rpc::Status failure;
    const bool fails = Arrive(context, &stream_calls_, &failure);
    v1::StreamRequest message;
    stream->Read(&message);
    v1::Start start = message.start();
    if (fails) {
      v1::StreamResponse response;
      response.mutable_done()->set_request_id(start.request_id());
      *response.mutable_done()->mutable_status() = failure;
      stream->Write(response);
      while (stream->Read(&message)) {
      }
      return grpc::Status::OK;
    }
    const std::vector<v1::Tensor*> inputs = TensorsOf(&start);
    while (stream->Read(&message)) {
      *inputs[message.chunk().tensor()]->mutable_data() += message.chunk().data();
      absl::MutexLock lock(&mutex_);
      ++received_chunks_;
    }
    SendResult(start.request_id(), Answer(start), stream);
    return grpc::Status::OK;
  }

  grpc::Status ReduceRows(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::ReduceRowsResponse, v1::ReduceRowsRequest>* stream) override {
    google::rpc::Status failure;
    if (Arrive(context, &stream_calls_, &failure)) return ToGrpc(failure);
    std::vector<v1::ReduceRowsRequest> messages(1);
    while (stream->Read(&messages.back())) {
      {
        absl::MutexLock lock(&mutex_);
        if (messages.back().has_rows()) ++received_chunks_;
      }
      messages.emplace_back();
    }
    messages.pop_back();
    if (messages.empty()) return grpc::Status::CANCELLED;
    v1::ReduceRowsResponse response;
    *response.mutable_result() = FakeReduceRows(messages);
    {
      absl::MutexLock lock(&mutex_);
      if (swaps_dims_of_r_) response.mutable_result()->mutable_reduced()->set_rows(0);
      if (loses_last_chunk_) return grpc::Status::OK;
    }
    stream->Write(response);
    return grpc::Status::OK;
  }

  absl::Mutex mutex_;
  std::vector<google::rpc::Status> failures_ ABSL_GUARDED_BY(mutex_);
  bool loses_last_chunk_ ABSL_GUARDED_BY(mutex_) = false;
  bool swaps_dims_of_r_ ABSL_GUARDED_BY(mutex_) = false;
  int unary_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int stream_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int received_chunks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string client_name_ ABSL_GUARDED_BY(mutex_);

 private:
  // Counts a call. True if it must fail.
  bool Arrive(grpc::ServerContext* context, int* calls, google::rpc::Status* failure) {
    absl::MutexLock lock(&mutex_);
    ++*calls;
    const auto name = context->client_metadata().find("factord-client");
    client_name_ = name == context->client_metadata().end()
                       ? ""
                       : std::string(name->second.data(), name->second.size());
    if (failures_.empty()) return false;
    *failure = failures_.back();
    failures_.pop_back();
    return true;
  }

  template <typename Request, typename Response>
  grpc::Status Unary(grpc::ServerContext* context, const Request& request,
                     Response (*answer)(const Request&), Response* response) {
    google::rpc::Status failure;
    if (Arrive(context, &unary_calls_, &failure)) return ToGrpc(failure);
    *response = answer(request);
    return grpc::Status::OK;
  }

  // Header, chunks with the last tensor's first, done.
  void SendResult(const std::string& request_id, v1::StreamResult result, Stream* stream) {
    std::vector<std::string> data;
    for (v1::Tensor* tensor : TensorsOf(&result)) {
      data.push_back(std::move(*tensor->mutable_data()));
      tensor->clear_data();
    }
    v1::StreamResponse response;
    response.mutable_header()->set_request_id(request_id);
    *response.mutable_header()->mutable_result() = result;
    stream->Write(response);

    std::vector<v1::Chunk> chunks;
    for (size_t i = data.size(); i-- > 0;) {
      for (size_t offset = 0; offset < data[i].size(); offset += kReplyChunkBytes) {
        v1::Chunk& chunk = chunks.emplace_back();
        chunk.set_request_id(request_id);
        chunk.set_tensor(static_cast<int32_t>(i));
        chunk.set_offset(static_cast<int64_t>(offset));
        chunk.set_data(data[i].substr(offset, kReplyChunkBytes));
      }
    }
    {
      absl::MutexLock lock(&mutex_);
      if (loses_last_chunk_) chunks.pop_back();
    }
    for (const v1::Chunk& chunk : chunks) {
      *response.mutable_chunk() = chunk;
      stream->Write(response);
    }
    response.mutable_done()->set_request_id(request_id);
    *response.mutable_done()->mutable_result() = result;
    stream->Write(response);
  }
};

struct FakeFactord::Server {
  std::unique_ptr<grpc::Server> grpc;
  int port = 0;
};

FakeFactord::FakeFactord()
    : service_(std::make_unique<Service>()), server_(std::make_unique<Server>()) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &server_->port);
  builder.SetMaxReceiveMessageSize(64 << 20);
  builder.RegisterService(service_.get());
  server_->grpc = builder.BuildAndStart();
}

FakeFactord::~FakeFactord() { server_->grpc->Shutdown(); }

std::string FakeFactord::target() const { return absl::StrCat("127.0.0.1:", server_->port); }

void FakeFactord::FailNext(const google::rpc::Status& status, int times) {
  absl::MutexLock lock(&service_->mutex_);
  service_->failures_.assign(times, status);
}

void FakeFactord::LoseLastChunk() {
  absl::MutexLock lock(&service_->mutex_);
  service_->loses_last_chunk_ = true;
}

void FakeFactord::SwapDimsOfR() {
  absl::MutexLock lock(&service_->mutex_);
  service_->swaps_dims_of_r_ = true;
}

int FakeFactord::unary_calls() const {
  absl::MutexLock lock(&service_->mutex_);
  return service_->unary_calls_;
}

int FakeFactord::stream_calls() const {
  absl::MutexLock lock(&service_->mutex_);
  return service_->stream_calls_;
}

int FakeFactord::received_chunks() const {
  absl::MutexLock lock(&service_->mutex_);
  return service_->received_chunks_;
}

std::string FakeFactord::client_name() const {
  absl::MutexLock lock(&service_->mutex_);
  return service_->client_name_;
}

}  // namespace factord::client

#include "server/server.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/resource_quota.h"
#include "server/batching/dispatcher.h"
#include "server/core/address.h"
#include "server/core/byte_budget.h"
#include "server/core/cost_model.h"
#include "server/core/status_macros.h"
#include "server/engine/cpu_count.h"
#include "server/engine/cpu_factorizer.h"
#include "server/engine/lapack.h"
#include "server/engine/router.h"
#include "server/engine/routing_tables.h"
#include "server/engines.h"
#include "server/http/endpoints.h"
#include "server/http/http_server.h"
#include "server/http/listener.h"
#include "server/lanes.h"
#include "server/metrics/metrics.h"
#include "server/readiness.h"
#include "server/rpc/factorization_service.h"
#include "server/security/auth_tokens.h"
#include "server/security/file_refresher.h"
#include "server/security/listen_credentials.h"
#include "server/security/tls_files.h"
#include "server/settings.h"
#include "server/trace/span_exporter.h"
#include "server/warm_up.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

// Where neither the machine nor a cgroup says how much memory there is.
constexpr std::int64_t kUnknownMemoryBytes = std::int64_t{4} << 30;

constexpr std::int64_t kLongestPingMs = 24 * 3600 * 1000;

// After the grace period: for the last refusals to be sent.
constexpr absl::Duration kRefusalsLeave = absl::Milliseconds(500);
// Then: for the last spans to be written.
constexpr absl::Duration kSpansLeave = absl::Seconds(5);

std::int64_t MemoryBytes() {
  const std::int64_t known = MemoryLimitBytes();
  return known > 0 ? known : kUnknownMemoryBytes;
}

BatcherOptions BatcherOptionsFrom(const Options& options, std::int64_t budget_bytes) {
  BatcherOptions batcher;
  batcher.max_queued_jobs = options.max_queued_jobs;
  batcher.max_queued_bytes = budget_bytes;
  batcher.max_batch_matrices = options.max_batch_matrices;
  batcher.max_batch_bytes = options.max_batch_bytes;
  batcher.max_batch_cost = options.max_batch_cost;
  batcher.max_delay = options.max_batch_delay;
  batcher.low_priority_ageing = options.low_priority_ageing;
  // A lane has to come free first, and predictions err.
  batcher.deadline_slack = options.max_batch_cost * 1.25;
  return batcher;
}

// "127.0.0.1:0" with the port that was chosen; a unix address as it is.
std::string WithPort(const std::string& address, int port) {
  if (IsUnixAddress(address)) return address;
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

std::optional<Backend> DefaultBackend(const Options& options) {
  if (options.backend == "auto") return std::nullopt;
  return options.backend == "gpu" ? Backend::kGpu : Backend::kCpu;
}

absl::StatusOr<Router> MakeRouter(const Options& options, const Machine& machine) {
  absl::StatusOr<std::optional<RoutingTable>> table = ChooseTable(options.routing_table, machine);
  if (!table.ok()) {
    return absl::Status(table.status().code(),
                        absl::StrCat("routing_table: ", table.status().message()));
  }
  return Router(machine, *std::move(table),
                {.backend = DefaultBackend(options),
                 .gpu_min_flops = static_cast<double>(options.gpu_min_flops)});
}

// Reflection comes by itself with its library.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

void WarnOfPlainTokens(const Options& options) {
  if (options.auth_token_file.empty() || !options.tls_cert.empty()) return;
  for (const std::string& address : options.listen) {
    if (IsLocalAddress(address)) continue;
    spdlog::warn("tokens cross the network to {} unencrypted: set --tls_cert and --tls_key",
                 address);
  }
}

}  // namespace

// Members are built in this order and destroyed in the reverse one: gRPC goes first, so that no
// call outlives what it uses.
struct Server::Parts {
  Parts(const Options& server_options, Engines opened, Router made, std::vector<WarmUpShape> shapes)
      : options(server_options),
        engines(std::move(opened)),
        router(std::move(made)),
        memory_bytes(MemoryBytes()),
        budget(std::make_shared<ByteBudget>(
            options.memory_budget_bytes > 0 ? options.memory_budget_bytes : memory_bytes / 2)),
        metrics(std::make_shared<Metrics>(BuildInfo{.version = FACTORD_VERSION,
                                                    .grpc = grpc::Version(),
                                                    .lapack = LapackName(),
                                                    .compiler = __VERSION__},
                                          engines.DeviceNames())),
        factorizer(engines.cpu_threads, engines.cpu_engine),
        dispatcher(BatcherOptionsFrom(options, budget->limit()), metrics.get()),
        warm_up(
            std::move(shapes),
            [this](const Spec& spec, std::int64_t count) {
              return router.Decide({.spec = spec, .count = count}, !engines.gpus.empty()).backend;
            },
            BatcherOptionsFrom(options, budget->limit()), budget),
        readiness(StepsToServe(), [this](bool serving) { SetServing(serving); }),
        service(context) {}

  absl::Status Start();
  absl::Status OpenSecurity();
  absl::Status StartTraces();
  void StartLanes();
  absl::Status StartHttp(Listener listener);
  absl::Status StartGrpc();
  void DescribeContext();
  BackendDescription DescribeCpu();
  BackendDescription DescribeGpus();
  void SetDeviceMemory();
  void SetServing(bool serving);
  int StepsToServe() const;
  std::optional<std::string> WhyNotReady() const;

  const Options options;
  const Engines engines;
  const Router router;
  const std::int64_t memory_bytes;
  const std::shared_ptr<ByteBudget> budget;
  const std::shared_ptr<Metrics> metrics;
  Lanes::Costs costs{{CostModel(Backend::kCpu), CostModel(Backend::kGpu)}};
  CpuFactorizer factorizer;
  std::unique_ptr<SpanExporter> spans;
  ServiceContext context;
  Dispatcher dispatcher;
  WarmUp warm_up;
  Readiness readiness;
  FactorizationService service;
  std::optional<Lanes> lanes;
  ListenSecurity security;
  std::optional<FileRefresher> refresher;
  std::optional<Endpoints> endpoints;
  std::unique_ptr<HttpServer> http;
  std::unique_ptr<grpc::Server> grpc_server;
  std::vector<std::string> addresses;
  std::string metrics_address;
  std::optional<bool> drained;
};

BackendDescription Server::Parts::DescribeCpu() {
  return {.backend = Backend::kCpu,
          .name = engines.cpu_model,
          .library = DescriptionOf(engines.cpu_engine),
          .threads = engines.cpu_threads,
          .lanes = 1,
          .driver = "",
          .devices = {},
          .healthy = [] { return true; },
          .path_of = [this](const Spec& spec) { return factorizer.PathOf(spec); }};
}

BackendDescription Server::Parts::DescribeGpus() {
  const std::vector<std::string> names = engines.DeviceNames();
  const Gpu& first = engines.gpus.front();
  BackendDescription description{
      .backend = Backend::kGpu,
      .name = engines.gpus.size() == 1 ? first.name
                                       : absl::StrCat(engines.gpus.size(), " x ", first.name),
      .library = absl::StrCat("CUDA ", first.cuda),
      .threads = 0,
      .lanes = 0,
      .driver = first.driver,
      .devices = {},
      .healthy = [this] { return lanes->gpu_healthy(); },
      .path_of = [&first](const Spec& spec) { return first.factorizers[0]->PathOf(spec); }};
  for (std::size_t i = 0; i < engines.gpus.size(); ++i) {
    const Gpu& gpu = engines.gpus[i];
    const auto gpu_lanes = static_cast<int>(gpu.factorizers.size());
    description.lanes += gpu_lanes;
    description.devices.push_back({.name = names[i + 1],
                                   .model = gpu.name,
                                   .memory_bytes = static_cast<std::int64_t>(gpu.memory_bytes),
                                   .lanes = gpu_lanes,
                                   .healthy = [&gpu] { return gpu.healthy(); }});
  }
  return description;
}

void Server::Parts::SetDeviceMemory() {
  metrics->SetDeviceMemory(0, MemoryKind::kTotal, memory_bytes);
  for (std::size_t i = 0; i < engines.gpus.size(); ++i) {
    const Gpu& gpu = engines.gpus[i];
    const auto set = [&](MemoryKind kind, std::size_t bytes) {
      metrics->SetDeviceMemory(i + 1, kind, static_cast<std::int64_t>(bytes));
    };
    set(MemoryKind::kTotal, gpu.memory_bytes);
    set(MemoryKind::kReserved, gpu.reserved_bytes);
    set(MemoryKind::kPinned, gpu.pinned_bytes);
  }
}

void Server::Parts::DescribeContext() {
  metrics->SetBudget(budget->limit());
  SetDeviceMemory();
  context.dispatcher = &dispatcher;
  context.costs = &costs;
  context.route = [this](const RouteQuery& query) {
    return router.Decide(query, lanes->gpu_healthy());
  };
  context.routing = router.label();
  context.routing_table = router.Description();
  context.metrics = metrics;
  context.budget = budget;
  context.backends.push_back(DescribeCpu());
  if (!engines.gpus.empty()) context.backends.push_back(DescribeGpus());
  context.limits.max_message_bytes = options.max_message_bytes;
  context.limits.max_tensors = options.max_tensors;
  context.limits.memory_budget_bytes = budget->limit();
  context.version = FACTORD_VERSION;
  context.started = absl::Now();
  // A chunk has a few dozen bytes around its data.
  context.chunk_bytes = std::min(options.chunk_bytes, options.max_message_bytes - 4096);
  context.upload_timeout = options.upload_timeout;
  context.stall_timeout = options.stall_timeout;
}

absl::Status Server::Parts::StartTraces() {
  if (options.trace_file.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<SpanExporter>> opened = SpanExporter::Create(
      {.path = options.trace_file, .service_version = FACTORD_VERSION}, *metrics);
  if (!opened.ok()) {
    return absl::Status(opened.status().code(),
                        absl::StrCat("trace_file: ", opened.status().message()));
  }
  spans = *std::move(opened);
  context.spans = spans.get();
  context.trace_sample_ratio = options.trace_sample_ratio;
  return absl::OkStatus();
}

absl::Status Server::Parts::Start() {
  RETURN_IF_ERROR(OpenSecurity());
  DescribeContext();
  RETURN_IF_ERROR(StartTraces());
  std::optional<Listener> listener;
  if (!options.metrics_listen.empty()) {
    absl::StatusOr<Listener> opened = Listener::Open(options.metrics_listen);
    if (!opened.ok()) {
      return absl::Status(opened.status().code(),
                          absl::StrCat("metrics_listen: ", opened.status().message()));
    }
    listener.emplace(*std::move(opened));
  }
  StartLanes();
  if (listener) RETURN_IF_ERROR(StartHttp(*std::move(listener)));
  RETURN_IF_ERROR(StartGrpc());
  spdlog::info("the CPU engine is {}, {} threads", DescriptionOf(engines.cpu_engine),
               engines.cpu_threads);
  // gRPC's health service starts out with SERVING.
  if (StepsToServe() > 1) SetServing(false);
  readiness.StepDone();
  warm_up.Begin();
  return absl::OkStatus();
}

absl::Status Server::Parts::OpenSecurity() {
  std::vector<std::function<void()>> refreshes;
  if (!options.tls_cert.empty()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<TlsFiles> tls,
                     OpenTlsFiles(options.tls_cert, options.tls_key, options.tls_client_ca));
    refreshes.push_back([tls] { tls->Refresh(); });
    security.tls = tls;
  }
  if (!options.auth_token_file.empty()) {
    ASSIGN_OR_RETURN(const std::shared_ptr<TokenFile> tokens,
                     OpenTokenFile(options.auth_token_file));
    refreshes.push_back([tokens] { tokens->Refresh(); });
    security.tokens = context.tokens = tokens;
  }
  security.metrics = metrics;
  if (!refreshes.empty()) refresher.emplace(std::move(refreshes));
  WarnOfPlainTokens(options);
  return absl::OkStatus();
}

// Listening, and each lane that warms up.
int Server::Parts::StepsToServe() const {
  return options.warmup_shapes.empty() ? 1 : 1 + engines.lanes();
}

void Server::Parts::StartLanes() {
  Lanes::WarmUpLane warm_up_lane;
  if (!options.warmup_shapes.empty()) {
    warm_up_lane = [this](Backend backend, Factorizer& lanes_factorizer) {
      warm_up.Run(backend, lanes_factorizer);
      readiness.StepDone();
    };
  }
  lanes.emplace(factorizer, engines.gpus, dispatcher, costs, *metrics, std::move(warm_up_lane));
}

std::optional<std::string> Server::Parts::WhyNotReady() const {
  if (auto why = readiness.WhyNot()) return why;
  const bool works = std::any_of(context.backends.begin(), context.backends.end(),
                                 [](const auto& backend) { return backend.healthy(); });
  return works ? std::nullopt : std::optional<std::string>("no backend");
}

absl::Status Server::Parts::StartHttp(Listener listener) {
  endpoints.emplace(
      StatusSource{context, [this] { return WhyNotReady(); },
                   SettingsOf(options, engines, budget->limit(), router.Description())},
      *metrics);
  ASSIGN_OR_RETURN(http, HttpServer::Start(std::move(listener), [this](const HttpRequest& request) {
                     return endpoints->Answer(request);
                   }));
  metrics_address = http->address();
  return absl::OkStatus();
}

absl::Status Server::Parts::StartGrpc() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (!options.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  std::vector<int> ports(options.listen.size());
  for (std::size_t i = 0; i < options.listen.size(); ++i) {
    builder.AddListeningPort(options.listen[i], ListenCredentials(options.listen[i], security),
                             &ports[i]);
  }
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT,
                             0);  // a port that is taken is an error, not a coin toss
  // A client that vanished or froze holds the slices under way to it; pings find out. Clients may
  // do the same while they wait for a long answer.
  const auto stall_ms =
      static_cast<int>(std::min(absl::ToInt64Milliseconds(options.stall_timeout), kLongestPingMs));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, stall_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, stall_ms);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  grpc::ResourceQuota quota("factord");
  quota.Resize(
      static_cast<std::size_t>(memory_bytes / 4));  // of messages that no handler has seen yet
  builder.SetResourceQuota(quota);
  builder.RegisterService(&service);
  grpc_server = builder.BuildAndStart();
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (grpc_server == nullptr || ports[i] == 0) {
      return absl::UnavailableError(
          absl::StrCat("listen: can not listen on ", options.listen[i],
                       ": is it in use, or not an address of this machine?"));
    }
    addresses.push_back(WithPort(options.listen[i], ports[i]));
  }
  return absl::OkStatus();
}

void Server::Parts::SetServing(bool serving) {
  grpc_server->GetHealthCheckService()->SetServingStatus(serving);
  grpc_server->GetHealthCheckService()->SetServingStatus(v1::Factorization::service_full_name(),
                                                         serving);
  metrics->SetServing(serving);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const Options& options) {
  RETURN_IF_ERROR(options.Validate());
  ASSIGN_OR_RETURN(std::vector<WarmUpShape> shapes, ParseWarmUpShapes(options.warmup_shapes));
  ASSIGN_OR_RETURN(Engines engines, OpenEngines(options));
  ASSIGN_OR_RETURN(Router router, MakeRouter(options, engines.machine));
  std::unique_ptr<Server> server(new Server(
      std::make_unique<Parts>(options, std::move(engines), std::move(router), std::move(shapes))));
  RETURN_IF_ERROR(server->parts_->Start());
  return server;
}

Server::Server(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Server::~Server() {
  parts_->warm_up.Cancel();
  if (parts_->grpc_server != nullptr) {
    Drain();
    // What is left are health watchers and idle streams, or work that outlasted its grace period.
    parts_->grpc_server->Shutdown(std::chrono::system_clock::now());
  }
  parts_->dispatcher.Stop();
}

bool Server::Drain() {
  Parts& parts = *parts_;
  if (parts.drained) return *parts.drained;
  parts.warm_up.Cancel();
  parts.readiness.Drain();
  absl::SleepFor(parts.options.drain_delay);
  parts.service.BeginDrain();
  parts.dispatcher.BeginDrain();
  parts.drained = parts.context.WaitForCalls(absl::Now() + parts.options.grace_period);
  // What is queued ends now; what runs can't be stopped, and is not waited for.
  parts.dispatcher.Stop();
  if (!*parts.drained) parts.context.WaitForCalls(absl::Now() + kRefusalsLeave);
  parts.context.request_log->Tick(absl::InfiniteFuture());
  if (parts.spans != nullptr && !parts.spans->Flush(absl::Now() + kSpansLeave)) {
    spdlog::warn("traces: the last spans could not be written in time");
  }
  return *parts.drained;
}

void Server::ReopenFiles() {
  if (parts_->spans != nullptr) parts_->spans->Reopen();
}

const std::vector<std::string>& Server::addresses() const { return parts_->addresses; }

const std::string& Server::metrics_address() const { return parts_->metrics_address; }

bool Server::warming_up() const { return parts_->warm_up.running(); }

}  // namespace factord

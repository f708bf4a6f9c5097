#include "server/rpc/explain.h"

#include <string>
#include <utility>

#include "server/batching/bucket.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/reduction/block_shape.h"
#include "server/rpc/decode_message.h"
#include "server/rpc/request.h"

namespace factord {
namespace {

absl::StatusOr<DecodedRequest> DecodeShapes(const v1::ExplainRequest& request,
                                            std::span<const std::int64_t> payload_sizes,
                                            const Limits& limits) {
  switch (request.operation_case()) {
    case v1::ExplainRequest::kFactorize:
      return Decode(request.factorize(), DataMode::kShapeOnly, payload_sizes, limits);
    case v1::ExplainRequest::kFormQ:
      return Decode(request.form_q(), DataMode::kShapeOnly, payload_sizes, limits);
    case v1::ExplainRequest::kApplyQ:
      return Decode(request.apply_q(), DataMode::kShapeOnly, payload_sizes, limits);
    case v1::ExplainRequest::kSolve:
      return Decode(request.solve(), DataMode::kShapeOnly, payload_sizes, limits);
    case v1::ExplainRequest::OPERATION_NOT_SET:
      break;
  }
  return InvalidField("operation", "is not set");
}

const BackendDescription& DescriptionOf(Backend backend, const ServiceContext& context) {
  for (const BackendDescription& description : context.backends) {
    if (description.backend == backend) return description;
  }
  return context.backends.front();
}

v1::RouteLabel ToProto(RouteLabel label) {
  switch (label) {
    case RouteLabel::kMeasured:
      return v1::ROUTE_LABEL_MEASURED;
    case RouteLabel::kEstimated:
      return v1::ROUTE_LABEL_ESTIMATED;
    case RouteLabel::kDefault:
      return v1::ROUTE_LABEL_DEFAULT;
  }
  return v1::ROUTE_LABEL_UNSPECIFIED;
}

void Describe(const BackendDescription& backend, v1::BackendInfo& info) {
  info.set_backend(ToProto(backend.backend));
  info.set_name(backend.name);
  info.set_library(backend.library);
  info.set_threads(backend.threads);
  info.set_lanes(backend.lanes);
  info.set_healthy(backend.healthy());
  info.set_driver(backend.driver);
  for (const DeviceDescription& device : backend.devices) {
    v1::Device& out = *info.add_devices();
    out.set_name(device.name);
    out.set_model(device.model);
    out.set_memory_bytes(device.memory_bytes);
    out.set_lanes(device.lanes);
    out.set_healthy(device.healthy());
  }
}

// Of running it alone: from such runs here; before there were any, what the choice of the backend
// rests on, where it is known.
Prediction PredictionOf(const Route& route, const Spec& spec, std::int64_t count,
                        const ServiceContext& context) {
  Prediction prediction = context.CostsOf(route.backend).Predict(spec, count);
  const absl::Duration time = route.backend == Backend::kGpu ? route.times.gpu : route.times.cpu;
  if (!prediction.measured && !route.reproducible && time > absl::ZeroDuration()) {
    prediction.time = time;
  }
  return prediction;
}

v1::Explanation ExplainItem(const DecodedRequest& decoded, std::size_t index,
                            const ServiceContext& context) {
  const Item& item = decoded.items[index];
  const Route route = RouteOf(decoded, item, context, /*explain=*/true);
  const BackendDescription& backend = DescriptionOf(route.backend, context);
  // Empty results are no work, however many matrices there are.
  const std::int64_t count = item.output_bytes == 0 ? 0 : item.count;
  const Prediction prediction = PredictionOf(route, item.spec, count, context);
  const std::int64_t step = MatricesPerJob(item.spec, route.backend, context);
  v1::Explanation explanation;
  explanation.set_bucket(BucketOf(item.spec).Name());
  explanation.set_backend(ToProto(backend.backend));
  explanation.set_path(std::string(backend.path_of(item.spec)));
  explanation.set_jobs(count / step + (count % step != 0 ? 1 : 0));
  explanation.set_flops(FlopsOf(item.spec) * static_cast<double>(count));
  explanation.set_input_bytes(item.input_bytes);
  explanation.set_output_bytes(item.output_bytes);
  explanation.set_predicted_ns(absl::ToInt64Nanoseconds(prediction.time));
  explanation.set_measured(prediction.measured);
  explanation.set_reason(route.Explanation());
  explanation.set_device(backend.name);
  explanation.set_label(ToProto(route.times.label));
  explanation.set_cpu_ns(absl::ToInt64Nanoseconds(route.times.cpu));
  explanation.set_gpu_ns(absl::ToInt64Nanoseconds(route.times.gpu));
  return explanation;
}

absl::StatusOr<v1::ExplainResponse> ExplainDecoded(const v1::ExplainRequest& request,
                                                   std::span<const std::int64_t> payload_sizes,
                                                   const ServiceContext& context) {
  ASSIGN_OR_RETURN(const DecodedRequest decoded,
                   DecodeShapes(request, payload_sizes, context.limits));
  RETURN_IF_ERROR(CheckBackend(decoded, context));
  v1::ExplainResponse response;
  for (std::size_t i = 0; i < decoded.items.size(); ++i) {
    *response.add_explanations() = ExplainItem(decoded, i, context);
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::ExplainResponse> ExplainShapes(const v1::ExplainRequest& request,
                                                  const ServiceContext& context) {
  return ExplainDecoded(request, {}, context);
}

absl::StatusOr<v1::ExplainResponse> Explain(const grpc::ByteBuffer& request,
                                            const ServiceContext& context) {
  ASSIGN_OR_RETURN(const auto message,
                   DecodeMessage<v1::ExplainRequest>(
                       request, WireLimits::ForTensors(context.limits.max_tensors)));
  return ExplainDecoded(message.proto, message.payload_sizes, context);
}

absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const grpc::ByteBuffer& request,
                                                        const ServiceContext& context) {
  RETURN_IF_ERROR(DecodeMessage<v1::GetServerInfoRequest>(request, WireLimits{}).status());
  v1::GetServerInfoResponse response;
  response.set_version(context.version);
  for (const BackendDescription& backend : context.backends) {
    Describe(backend, *response.add_backends());
  }
  response.set_routing(ToProto(context.routing));
  response.set_routing_table(context.routing_table);
  response.set_max_message_bytes(context.limits.max_message_bytes);
  response.set_max_matrix_elements(context.limits.max_matrix_elements);
  response.set_max_tensors(context.limits.max_tensors);
  response.set_max_reduced_columns(kMaxReducedColumns);
  response.set_memory_budget_bytes(context.budget->limit());
  response.set_memory_in_flight_bytes(context.budget->used());
  const timespec uptime = absl::ToTimespec(absl::Now() - context.started);
  response.mutable_uptime()->set_seconds(uptime.tv_sec);
  response.mutable_uptime()->set_nanos(static_cast<std::int32_t>(uptime.tv_nsec));
  for (int rpc = 0; rpc < kRpcs; ++rpc) response.add_rpcs(std::string(Name(static_cast<Rpc>(rpc))));
  return response;
}

}  // namespace factord

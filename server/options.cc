#include "server/options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/core/address.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "server/warm_up_shapes.h"

namespace factord {
namespace {

template <typename T>
absl::Status AtLeast(absl::string_view field, T value, T least) {
  if (value >= least) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("is ", value, "; must be at least ", least));
}

absl::Status NotNegative(absl::string_view field, absl::Duration value) {
  if (value >= absl::ZeroDuration()) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("is ", absl::FormatDuration(value), "; must not be negative"));
}

absl::Status Positive(absl::string_view field, absl::Duration value) {
  if (value > absl::ZeroDuration()) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("is ", absl::FormatDuration(value), "; must be positive"));
}

absl::Status OneOf(absl::string_view field, absl::string_view value,
                   std::initializer_list<absl::string_view> values) {
  if (std::find(values.begin(), values.end(), value) != values.end()) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat("is \"", value, "\"; must be one of ", absl::StrJoin(values, ", ")));
}

absl::Status DeviceNumbers(absl::string_view field, const std::vector<std::string>& values) {
  std::vector<int> seen;
  for (const std::string& value : values) {
    int number = -1;
    if (!absl::SimpleAtoi(value, &number) || number < 0) {
      return InvalidField(field, absl::StrCat("\"", value, "\" is no device number"));
    }
    if (std::find(seen.begin(), seen.end(), number) != seen.end()) {
      return InvalidField(field, absl::StrCat("names ", number, " twice"));
    }
    seen.push_back(number);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<int> Options::GpuDevices() const {
  std::vector<int> numbers;
  for (const std::string& device : gpu_devices) {
    static_cast<void>(absl::SimpleAtoi(device, &numbers.emplace_back()));
  }
  return numbers;
}

absl::Status Options::Validate() const {
  if (listen.empty()) return InvalidField("listen", "names no address");
  for (const std::string& address : listen) {
    if (!NamesUnixSocket(address) && address.rfind(':') == std::string::npos) {
      return InvalidField("listen",
                          absl::StrCat("\"", address, "\" is neither HOST:PORT nor unix:PATH"));
    }
  }
  if (tls_cert.empty() != tls_key.empty()) {
    return tls_key.empty() ? InvalidField("tls_cert", "is set, but tls_key is not")
                           : InvalidField("tls_key", "is set, but tls_cert is not");
  }
  if (tls_cert.empty() && !tls_client_ca.empty()) {
    return InvalidField("tls_client_ca", "is set, but tls_cert and tls_key are not");
  }
  RETURN_IF_ERROR(ParseWarmUpShapes(warmup_shapes).status());
  RETURN_IF_ERROR(AtLeast("cpu_threads", cpu_threads, 0));
  RETURN_IF_ERROR(OneOf("cpu_engine", cpu_engine, {"simd", "lapack"}));
  RETURN_IF_ERROR(OneOf("backend", backend, {"auto", "cpu", "gpu"}));
  RETURN_IF_ERROR(OneOf("gpu", gpu, {"auto", "off", "required"}));
  if (backend == "gpu" && gpu == "off") return InvalidField("backend", "is gpu, but gpu is off");
  RETURN_IF_ERROR(DeviceNumbers("gpu_devices", gpu_devices));
  RETURN_IF_ERROR(AtLeast("gpu_lanes", gpu_lanes, 1));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("gpu_memory_bytes", gpu_memory_bytes, 0));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("gpu_pinned_bytes", gpu_pinned_bytes, 1 << 20));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("gpu_min_flops", gpu_min_flops, 0));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("max_message_bytes", max_message_bytes, 64 << 10));
  if (max_message_bytes > INT32_MAX) {
    return InvalidField("max_message_bytes", absl::StrCat("is ", max_message_bytes,
                                                          "; gRPC's own limit is ", INT32_MAX));
  }
  RETURN_IF_ERROR(AtLeast<std::int64_t>("max_tensors", max_tensors, 1));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("memory_budget_bytes", memory_budget_bytes, 0));
  RETURN_IF_ERROR(AtLeast("max_concurrent_streams", max_concurrent_streams, 1));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("max_queued_jobs", max_queued_jobs, 1));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("max_batch_matrices", max_batch_matrices, 1));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("max_batch_bytes", max_batch_bytes, 1));
  RETURN_IF_ERROR(AtLeast<std::int64_t>("chunk_bytes", chunk_bytes, 1));
  RETURN_IF_ERROR(NotNegative("max_batch_cost", max_batch_cost));
  RETURN_IF_ERROR(NotNegative("max_batch_delay", max_batch_delay));
  RETURN_IF_ERROR(NotNegative("low_priority_ageing", low_priority_ageing));
  RETURN_IF_ERROR(Positive("upload_timeout", upload_timeout));
  RETURN_IF_ERROR(Positive("stall_timeout", stall_timeout));
  RETURN_IF_ERROR(NotNegative("drain_delay", drain_delay));
  RETURN_IF_ERROR(NotNegative("grace_period", grace_period));
  RETURN_IF_ERROR(OneOf("log_format", log_format, {"human", "json"}));
  RETURN_IF_ERROR(
      OneOf("log_level", log_level, {"trace", "debug", "info", "warning", "error", "off"}));
  if (!(trace_sample_ratio >= 0 && trace_sample_ratio <= 1)) {
    return InvalidField("trace_sample_ratio",
                        absl::StrCat("is ", trace_sample_ratio, "; must be 0 to 1"));
  }
  if (trace_sample_ratio > 0 && trace_file.empty()) {
    return InvalidField("trace_sample_ratio", "needs a trace_file to write to");
  }
  return absl::OkStatus();
}

}  // namespace factord

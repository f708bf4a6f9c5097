#include "server/options.h"

#include "gtest/gtest.h"
#include "server/core/errors.h"

namespace factord {
namespace {

TEST(Options, DefaultsAreValid_AndLoopbackOnly) {
  const Options options;
  EXPECT_TRUE(options.Validate().ok());
  EXPECT_EQ(options.listen, std::vector<std::string>{"127.0.0.1:50051"});
  EXPECT_EQ(options.metrics_listen, "127.0.0.1:9464");
}

TEST(Options, Validate_NamesTheField) {
  const auto field_of = [](auto change) {
    Options options;
    change(options);
    return FieldOf(options.Validate()).value_or("none");
  };
  EXPECT_EQ(field_of([](Options& o) { o.listen = {}; }), "listen");
  EXPECT_EQ(field_of([](Options& o) { o.listen = {"localhost"}; }), "listen");
  EXPECT_EQ(field_of([](Options& o) { o.tls_cert = "a"; }), "tls_cert");
  EXPECT_EQ(field_of([](Options& o) { o.tls_key = "a"; }), "tls_key");
  EXPECT_EQ(field_of([](Options& o) { o.tls_client_ca = "a"; }), "tls_client_ca");
  EXPECT_EQ(field_of([](Options& o) { o.warmup_shapes = {"3x4"}; }), "warmup_shapes");
  EXPECT_EQ(field_of([](Options& o) { o.cpu_threads = -1; }), "cpu_threads");
  EXPECT_EQ(field_of([](Options& o) { o.cpu_engine = "mkl"; }), "cpu_engine");
  EXPECT_EQ(field_of([](Options& o) { o.max_message_bytes = 0; }), "max_message_bytes");
  EXPECT_EQ(field_of([](Options& o) { o.max_message_bytes = std::int64_t{1} << 31; }),
            "max_message_bytes");
  EXPECT_EQ(field_of([](Options& o) { o.max_queued_jobs = 0; }), "max_queued_jobs");
  EXPECT_EQ(field_of([](Options& o) { o.chunk_bytes = 0; }), "chunk_bytes");
  EXPECT_EQ(field_of([](Options& o) { o.backend = "tpu"; }), "backend");
  EXPECT_EQ(field_of([](Options& o) { o.gpu = "yes"; }), "gpu");
  EXPECT_EQ(field_of([](Options& o) { o.backend = "gpu", o.gpu = "off"; }), "backend");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_devices = {"0", "x"}; }), "gpu_devices");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_devices = {"-1"}; }), "gpu_devices");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_devices = {"1", "1"}; }), "gpu_devices");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_lanes = 0; }), "gpu_lanes");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_memory_bytes = -1; }), "gpu_memory_bytes");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_pinned_bytes = 0; }), "gpu_pinned_bytes");
  EXPECT_EQ(field_of([](Options& o) { o.gpu_min_flops = -1; }), "gpu_min_flops");
  EXPECT_EQ(field_of([](Options& o) { o.stall_timeout = absl::ZeroDuration(); }), "stall_timeout");
  EXPECT_EQ(field_of([](Options& o) { o.grace_period = absl::Seconds(-1); }), "grace_period");
  EXPECT_EQ(field_of([](Options& o) { o.log_format = "xml"; }), "log_format");
  EXPECT_EQ(field_of([](Options& o) { o.log_level = "loud"; }), "log_level");
  EXPECT_EQ(field_of([](Options& o) { o.trace_sample_ratio = 1.5, o.trace_file = "t"; }),
            "trace_sample_ratio");
  EXPECT_EQ(field_of([](Options& o) { o.trace_sample_ratio = 0.5; }), "trace_sample_ratio");
  EXPECT_EQ(field_of([](Options& o) { o.trace_sample_ratio = 0.5, o.trace_file = "t"; }), "none");
  EXPECT_EQ(field_of([](Options& o) { o.listen = {"unix:/run/factord.sock"}; }), "none");
}

TEST(Options, GpuDevices_AreNumbers) {
  Options options;
  EXPECT_TRUE(options.GpuDevices().empty());
  options.gpu_devices = {"3", "0"};
  ASSERT_TRUE(options.Validate().ok());
  EXPECT_EQ(options.GpuDevices(), (std::vector<int>{3, 0}));
}

}  // namespace
}  // namespace factord

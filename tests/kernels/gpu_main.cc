// main() of the tests that need a GPU. Where there is none they are skipped (exit code 77), or fail
// if FACTORD_REQUIRE_GPU=1 says that there must be one.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

constexpr int kSkipped = 77;

int WithoutDevice(cudaError_t error) {
  const char* required = std::getenv("FACTORD_REQUIRE_GPU");
  const bool must = required != nullptr && std::string_view(required) == "1";
  std::fprintf(stderr, "no CUDA device (%s): %s\n", cudaGetErrorString(error),
               must ? "FACTORD_REQUIRE_GPU=1 asks for one" : "skipped");
  return must ? EXIT_FAILURE : kSkipped;
}

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (devices == 0) return WithoutDevice(error);
  return RUN_ALL_TESTS();
}

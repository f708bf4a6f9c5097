#include "bench/gpu/case.h"

#include <algorithm>

namespace factord::bench {
namespace {

struct Shape {
  std::int64_t batch;
  int m, n;
};
constexpr Shape kShapes[] = {
    {20, 32, 32},     {40, 176, 176},    {40, 352, 352},  {640, 512, 512},   {60, 1024, 1024},
    {8, 2048, 2048},  {2, 4096, 4096},   {270'000, 3, 3}, {100'000, 8, 8},   {10'000, 16, 16},
    {10'000, 32, 32}, {100'000, 32, 32}, {5'000, 56, 56}, {10'000, 256, 32},
};

// Columns of one matrix of 1 GiB, and of one so small that what is fixed decides.
constexpr int kSkinny[] = {4, 8, 16, 32, 64};
constexpr int kFewRows = 65'536;

// Of one matrix, m >= n: LAPACK working note 41; orgqr's for n columns is the same as geqrf's.
double Flops(const Case& c) {
  const double m = c.m, n = c.n;
  const double geqrf = 2 * n * n * (m - n / 3);
  return c.operation == Operation::kQr ? 2 * geqrf : geqrf;
}

int SizeOf(kernels::Dtype dtype) { return dtype == kernels::Dtype::kF32 ? 4 : 8; }

// Of one matrix, read and written once.
double Bytes(const Case& c) {
  const double m = c.m, n = c.n;
  if (c.operation == Operation::kR) return (m * n + n * n) * SizeOf(c.dtype);
  const double tau = c.operation == Operation::kQr ? 0 : n;
  const double r = c.operation == Operation::kQr ? n * n : 0;
  return (m * n + m * n + tau + r) * SizeOf(c.dtype);
}

}  // namespace

const char* Name(Operation operation) {
  switch (operation) {
    case Operation::kGeqrf:
      return "geqrf";
    case Operation::kOrgqr:
      return "orgqr";
    case Operation::kQr:
      return "qr";
    case Operation::kR:
      break;
  }
  return "r";
}

const char* Name(kernels::Dtype dtype) { return dtype == kernels::Dtype::kF32 ? "f32" : "f64"; }

std::string Case::Name() const {
  return std::string(bench::Name(operation)) + "/" + bench::Name(dtype) + "/" +
         std::to_string(batch) + "x" + std::to_string(m) + "x" + std::to_string(n);
}

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (Operation operation : {Operation::kGeqrf, Operation::kOrgqr, Operation::kQr}) {
    for (kernels::Dtype dtype : {kernels::Dtype::kF32, kernels::Dtype::kF64}) {
      for (const Shape& shape : kShapes)
        cases.push_back({operation, dtype, shape.batch, shape.m, shape.n});
    }
  }
  for (kernels::Dtype dtype : {kernels::Dtype::kF32, kernels::Dtype::kF64}) {
    for (int n : kSkinny) cases.push_back({Operation::kR, dtype, 1, kFewRows, n});
    for (int n : kSkinny)
      cases.push_back({Operation::kR, dtype, 1, (1 << 30) / SizeOf(dtype) / n, n});
  }
  return cases;
}

double FloorSeconds(const Case& c) {
  if (c.operation == Operation::kR) return static_cast<double>(c.batch) * Bytes(c) / kCopyBandwidth;
  const double rate = c.dtype == kernels::Dtype::kF32 ? kFlopsF32 : kFlopsF64;
  return static_cast<double>(c.batch) * std::max(Bytes(c) / kCopyBandwidth, Flops(c) / rate);
}

}  // namespace factord::bench

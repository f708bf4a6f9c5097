#include "bench/cpu/case.h"

#include <algorithm>

namespace factord::bench::cpu {
namespace {

struct Shape {
  int m, n;
};
using Shapes = std::vector<Shape>;

const Shapes kSquares = {{3, 3},     {4, 4},     {6, 6},     {8, 8},      {12, 12}, {16, 16},
                         {24, 24},   {32, 32},   {48, 48},   {64, 64},    {96, 96}, {128, 128},
                         {176, 176}, {256, 256}, {512, 512}, {1024, 1024}};
const Shapes kOthers = {{64, 8},  {256, 16}, {256, 32}, {2048, 16}, {4096, 64}, {100'000, 8},
                        {20, 64}, {64, 256}, {16, 200}, {8, 4096},  {500, 333}, {640, 512}};
// Enough to see where complex numbers and the application of Q stand.
const Shapes kFewSquares = {{4, 4},   {8, 8},     {16, 16},   {32, 32},
                            {64, 64}, {128, 128}, {256, 256}, {512, 512}};
const Shapes kFewOthers = {{256, 16}, {4096, 64}, {20, 64}, {640, 512}};
const Shapes kQuick = {{8, 8}, {32, 32}, {128, 128}, {512, 512}, {256, 16}};

constexpr std::int64_t kBatchBytes = 8 << 20;
constexpr std::int64_t kAloneBytes = 128 << 10;  // of inputs that are timed together: cached
constexpr std::int64_t kMostAlone = 256;

bool IsComplex(Type type) { return type == Type::kC64 || type == Type::kC128; }

std::int64_t Bytes(const Case& c) {
  const std::int64_t size = c.type == Type::kF32 ? 4 : c.type == Type::kC128 ? 16 : 8;
  return size * c.m * c.n;
}

Shapes operator+(Shapes x, const Shapes& y) {
  x.insert(x.end(), y.begin(), y.end());
  return x;
}

Shapes ShapesOf(Operation operation, Type type) {
  if (IsComplex(type) || operation == Operation::kOrmqr) return kFewSquares + kFewOthers;
  return kSquares + kOthers;
}

// Left out: batches of matrices that are larger than a batch; Q of a wide matrix, which is that of
// its first m columns; two threads where the first operation has shown what they give, and on one
// small matrix.
bool IsMeasured(const Case& c) {
  const bool reads_q = c.operation == Operation::kOrgqr || c.operation == Operation::kOrmqr;
  if (reads_q && c.m < c.n) return false;
  if (!c.alone && Bytes(c) > kBatchBytes) return false;
  if (c.threads == 1) return true;
  return c.operation == Operation::kGeqrf && (!c.alone || std::int64_t{c.m} * c.n >= 256 * 256);
}

}  // namespace

const char* Name(Operation operation) {
  switch (operation) {
    case Operation::kGeqrf:
      return "geqrf";
    case Operation::kOrgqr:
      return "orgqr";
    case Operation::kOrmqr:
      return "ormqr";
    case Operation::kQr:
      break;
  }
  return "qr";
}

const char* Name(Type type) {
  switch (type) {
    case Type::kF32:
      return "f32";
    case Type::kF64:
      return "f64";
    case Type::kC64:
      return "c64";
    case Type::kC128:
      break;
  }
  return "c128";
}

std::int64_t Case::count() const {
  if (alone) return std::clamp<std::int64_t>(kAloneBytes / Bytes(*this), 1, kMostAlone);
  return std::max<std::int64_t>(kBatchBytes / Bytes(*this) / 2 * 2, 2);
}

std::string Case::Name() const {
  return std::string(cpu::Name(operation)) + "/" + cpu::Name(type) +
         (alone ? "/alone/" : "/batch/") + std::to_string(m) + "x" + std::to_string(n) + "/" +
         std::to_string(threads);
}

// LAPACK working note 41, leading terms.
double Case::Flops() const {
  const double rows = std::max(m, n), cols = k();
  const double geqrf = 2 * cols * cols * (rows - cols / 3);  // orgqr's for k columns is the same
  const double orgqr = 2 * cols * cols * (m - cols / 3);
  const double ormqr = 2.0 * n * cols * (2 * m - cols);
  const double flops = operation == Operation::kGeqrf   ? geqrf
                       : operation == Operation::kOrgqr ? orgqr
                       : operation == Operation::kOrmqr ? ormqr
                                                        : geqrf + orgqr;
  return IsComplex(type) ? 4 * flops : flops;
}

std::vector<Case> AllCases(bool quick) {
  std::vector<Case> cases;
  for (Operation operation :
       {Operation::kGeqrf, Operation::kOrgqr, Operation::kOrmqr, Operation::kQr}) {
    for (int threads : {1, 2}) {
      for (bool alone : {false, true}) {
        for (Type type : {Type::kF32, Type::kF64, Type::kC64, Type::kC128}) {
          for (const Shape& shape : quick ? kQuick : ShapesOf(operation, type)) {
            const Case c{operation, type, alone, threads, shape.m, shape.n};
            if (IsMeasured(c)) cases.push_back(c);
          }
        }
      }
    }
  }
  return cases;
}

}  // namespace factord::bench::cpu

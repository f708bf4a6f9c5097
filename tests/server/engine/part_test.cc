// How batches are cut for a device, and how the parts are laid out.
#include "server/engine/part.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <random>
#include <set>

#include "kernels/problem.h"
#include "tests/server/engine/engine_harness.h"

namespace factord::testing {
namespace {

constexpr std::size_t kDescriptor = sizeof(kernels::Run<float>);
constexpr auto kAnyRoom = [](std::size_t, std::int64_t) { return true; };
PartLimits Unlimited() {
  return {.has_room = kAnyRoom,
          .enough_bytes = std::numeric_limits<std::size_t>::max(),
          .enough_matrices = 1};
}

PartLimits AtMost(std::size_t bytes) {
  PartLimits limits = Unlimited();
  limits.has_room = [bytes](std::size_t image, std::int64_t) { return image <= bytes; };
  return limits;
}

struct Shape {
  std::int64_t m, n, count;
};

// Jobs of no memory: nothing here touches it.
Batch BatchOf(std::initializer_list<Shape> shapes) {
  Batch batch;
  for (const Shape& shape : shapes) {
    batch.jobs.push_back(std::make_unique<Job>());
    batch.jobs.back()->spec = FactorizeSpec<float>(shape.m, shape.n);
    batch.jobs.back()->count = shape.count;
  }
  return batch;
}

std::vector<Part> Cut(const Batch& batch, const PartLimits& limits) {
  auto parts = CutIntoParts(batch, limits);
  EXPECT_TRUE(parts.ok()) << parts.status();
  return parts.ok() ? *std::move(parts) : std::vector<Part>();
}

// What must hold of any cut: every matrix once, in order; runs without gaps; operands aligned, in
// order, apart, and all inside the image.
void CheckParts(const Batch& batch, const std::vector<Part>& parts) {
  std::vector<std::pair<const Job*, std::int64_t>> expected, got;
  for (const auto& job : batch.jobs) {
    for (std::int64_t i = 0; i < job->count; ++i) expected.emplace_back(job.get(), i);
  }
  for (const Part& part : parts) {
    std::int64_t count = 0;
    std::size_t end = part.runs.size() * kDescriptor;
    const auto check = [&](const Part::Run& run, Operand operand) {
      if (operand == Operand::kRank) return;  // is not sent
      const std::size_t at = run.at[static_cast<std::size_t>(operand)];
      EXPECT_EQ(at % 16, 0u);
      EXPECT_GE(at, end);
      end = at + static_cast<std::size_t>(MatrixBytes(run.spec, operand) * run.count);
    };
    for (const Part::Run& run : part.runs) {
      for (Operand operand : InputsOf(run.spec)) check(run, operand);
    }
    EXPECT_EQ(part.out_begin % 16, 0u);
    EXPECT_GE(part.out_begin, end);
    end = part.out_begin + static_cast<std::size_t>(part.count) * 4;
    for (const Part::Run& run : part.runs) {
      EXPECT_EQ(run.first, count);
      std::int64_t in_run = 0;
      for (const Piece& piece : run.pieces) {
        EXPECT_GT(piece.count, 0);
        EXPECT_EQ(piece.job->spec.m, run.spec.m);
        EXPECT_EQ(piece.job->spec.n, run.spec.n);
        for (std::int64_t i = 0; i < piece.count; ++i) got.emplace_back(piece.job, piece.first + i);
        in_run += piece.count;
      }
      EXPECT_EQ(run.count, in_run);
      count += run.count;
      for (Operand operand : OutputsOf(run.spec)) check(run, operand);
    }
    EXPECT_EQ(part.count, count);
    EXPECT_GE(part.bytes, end);
    EXPECT_LT(part.bytes, end + 16);
  }
  EXPECT_EQ(got, expected);
}

TEST(CutIntoParts, EqualNeighboursShareARun) {
  const Batch batch = BatchOf({{4, 3, 5}, {4, 3, 2}, {3, 4, 1}, {4, 3, 0}, {3, 4, 2}, {4, 3, 1}});
  const std::vector<Part> parts = Cut(batch, Unlimited());
  ASSERT_EQ(parts.size(), 1u);
  ASSERT_EQ(parts[0].runs.size(), 3u);
  EXPECT_EQ(parts[0].runs[0].count, 7);
  EXPECT_EQ(parts[0].runs[1].count, 3);
  CheckParts(batch, parts);
}

TEST(CutIntoParts, TolerancesOfTheirOwnNeedRunsOfTheirOwn) {
  Batch batch = BatchOf({{4, 3, 1}, {4, 3, 1}});
  batch.jobs[1]->spec.rcond = 1e-3;
  EXPECT_EQ(Cut(batch, Unlimited())[0].runs.size(), 2u);
}

TEST(CutIntoParts, NothingToDoIsNoPart) {
  EXPECT_TRUE(Cut(BatchOf({{4, 3, 0}}), Unlimited()).empty());
}

TEST(CutIntoParts, EveryPartIsAsLargeAsHasRoom) {
  const Batch batch = BatchOf({{8, 8, 1000}});
  const std::vector<Part> parts = Cut(batch, AtMost(10'000));
  CheckParts(batch, parts);
  ASSERT_GT(parts.size(), 100u);
  const std::size_t matrix = 3 * 256 + 256 + 32 + 4;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    EXPECT_LE(parts[i].bytes, 10'000u);
    EXPECT_GT(parts[i].bytes + matrix, 10'000u);
  }
}

TEST(CutIntoParts, AMatrixWithoutRoomIsAnError) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      CutIntoParts(BatchOf({{8, 8, 1}, {100, 100, 1}}), AtMost(10'000)).status()));
}

TEST(CutIntoParts, EnoughIsBytesAndMatrices) {
  PartLimits limits = Unlimited();
  limits.enough_bytes = 10'000;
  limits.enough_matrices = 4;
  const Batch small = BatchOf({{2, 2, 1000}}), large_matrices = BatchOf({{64, 64, 10}});
  const std::vector<Part> many = Cut(small, limits);
  for (const Part& part : many) EXPECT_LE(part.bytes, 10'000u);
  const std::vector<Part> large = Cut(large_matrices, limits);
  ASSERT_EQ(large.size(), 3u);
  EXPECT_EQ(large[0].count, 4);
  EXPECT_EQ(large[2].count, 2);
}

TEST(CutIntoParts, RandomBatchesAreCutWhole) {
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    Batch batch;
    for (unsigned jobs = 1 + random() % 8; jobs > 0; --jobs) {
      auto job = std::make_unique<Job>();
      job->spec = FactorizeSpec<double>(1 + random() % 3, 1 + random() % 3);
      job->spec.op = static_cast<Op>(i % kOps);
      job->spec.p = 1 + random() % 2;
      job->count = random() % 30;
      batch.jobs.push_back(std::move(job));
    }
    const std::size_t room = 600 + random() % 4000;
    const std::vector<Part> parts = Cut(batch, AtMost(room));
    CheckParts(batch, parts);
    for (const Part& part : parts) EXPECT_LE(part.bytes, room);
  }
}

}  // namespace
}  // namespace factord::testing

#include "server/engine/cpu_pieces.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <utility>

namespace factord {
namespace {

constexpr Pace kPace = {.flops_per_ns = 10, .overhead_flops = 1000, .team_ns = 1e6, .group = 16};

struct Shape {
  std::int64_t n, count;
};

Batch BatchOf(const std::vector<Shape>& shapes) {
  Batch batch;
  for (const Shape& shape : shapes) {
    batch.jobs.push_back(std::make_unique<Job>());
    Job& job = *batch.jobs.back();
    job.spec.m = job.spec.n = shape.n;
    job.spec.r = true;
    job.count = shape.count;
  }
  return batch;
}

CpuPieces Cut(const Batch& batch, int threads, const Pace& pace = kPace) {
  CpuPieces pieces;
  pieces.shared.resize(3);  // of an earlier batch
  pieces.together.resize(2);
  pieces.chunk_ends = {1, 3};
  CutForCpu(
      batch, threads, [&](const Spec&) { return pace; }, pieces);
  return pieces;
}

// Of the batch's one job.
std::vector<std::int64_t> Counts(const std::vector<Piece>& pieces) {
  std::vector<std::int64_t> counts;
  for (const Piece& piece : pieces) counts.push_back(piece.count);
  return counts;
}

void ExpectWhole(const Batch& batch, const CpuPieces& pieces) {
  std::map<const Job*, std::int64_t> next;
  for (const auto* list : {&pieces.together, &pieces.shared}) {
    for (const Piece& piece : *list) {
      EXPECT_EQ(piece.first, next[piece.job]);
      EXPECT_GE(piece.count, 1);
      next[piece.job] += piece.count;
    }
  }
  for (const auto& job : batch.jobs) EXPECT_EQ(next[job.get()], job->count);
  std::size_t last = 0;
  for (std::size_t end : pieces.chunk_ends) {
    EXPECT_GT(end, last);
    last = end;
  }
  EXPECT_EQ(last, pieces.shared.size());
}

TEST(CpuPieces, EveryMatrixIsInOnePiece) {
  std::mt19937 random(1);
  const auto upto = [&](int most) { return static_cast<std::int64_t>(random() % most); };
  for (int round = 0; round < 500; ++round) {
    std::vector<Shape> shapes(static_cast<std::size_t>(1 + upto(6)));
    for (Shape& shape : shapes) shape = {1 + upto(1 << upto(11)), upto(1 << upto(10))};
    const Batch batch = BatchOf(shapes);
    for (int threads : {1, 2, 7, 64}) ExpectWhole(batch, Cut(batch, threads));
  }
}

TEST(CpuPieces, ASmallBatchIsOneChunk) {
  const CpuPieces pieces = Cut(BatchOf({{8, 100}, {3, 5}, {4, 0}}), 8);
  EXPECT_EQ(Counts(pieces.shared), (std::vector<std::int64_t>{100, 5}));
  EXPECT_EQ(pieces.chunk_ends, std::vector<std::size_t>{2});
  EXPECT_TRUE(pieces.together.empty());
}

TEST(CpuPieces, OneThreadHasOneChunk) {
  const CpuPieces pieces = Cut(BatchOf({{8, 100'000}, {100, 5}}), 1);
  EXPECT_EQ(Counts(pieces.shared), (std::vector<std::int64_t>{100'000, 5}));
  EXPECT_EQ(pieces.chunk_ends, std::vector<std::size_t>{2});
}

TEST(CpuPieces, OnlyAJobsLastPieceIsNoWholeGroup) {
  // Several groups a chunk, one that fills it, and one that overfills it.
  for (std::int64_t n : {8, 24, 40}) {
    const Batch batch = BatchOf({{n, 3005}, {n, 3007}});
    const CpuPieces pieces = Cut(batch, 4);
    EXPECT_GT(pieces.chunk_ends.size(), 8u);
    for (const Piece& piece : pieces.shared) {
      if (piece.first + piece.count < piece.job->count) {
        EXPECT_EQ(piece.count % kPace.group, 0) << n;
      }
    }
  }
}

TEST(CpuPieces, GroupsAreTornApartRatherThanThreadsLeftIdle) {
  const CpuPieces pieces = Cut(BatchOf({{48, 20}}), 8);
  EXPECT_EQ(Counts(pieces.shared), std::vector<std::int64_t>(5, 4));
  EXPECT_EQ(pieces.chunk_ends.size(), 5u);
}

TEST(CpuPieces, MatricesTooLargeForCompanyAreSharedOutOneByOne) {
  const CpuPieces pieces = Cut(BatchOf({{128, 300}}), 2);
  EXPECT_EQ(Counts(pieces.shared), std::vector<std::int64_t>(300, 1));
}

TEST(CpuPieces, FewLargeMatricesHaveAllThreads) {
  const Shape large = {256, 1};
  EXPECT_EQ(Counts(Cut(BatchOf({large}), 2).together), (std::vector<std::int64_t>{1}));
  // Twice as many as threads keep them busy by themselves.
  EXPECT_EQ(Counts(Cut(BatchOf({{256, 7}}), 4).together), (std::vector<std::int64_t>{7}));
  EXPECT_EQ(Counts(Cut(BatchOf({{256, 8}}), 4).shared), std::vector<std::int64_t>(8, 1));
  // Not large enough.
  EXPECT_TRUE(Cut(BatchOf({{100, 1}}), 2).together.empty());
}

TEST(CpuPieces, VeryLargeMatricesHaveAllThreadsHoweverMany) {
  EXPECT_EQ(Counts(Cut(BatchOf({{3000, 9}}), 2).together), (std::vector<std::int64_t>{9}));
}

TEST(CpuPieces, EachJobHasItsOwnPace) {
  const Batch batch = BatchOf({{200, 1}, {201, 1}});
  CpuPieces pieces;
  CutForCpu(
      batch, 4,
      [](const Spec& spec) {
        Pace pace = kPace;
        if (spec.n == 201) pace.team_ns = 1e9;
        return pace;
      },
      pieces);
  ASSERT_EQ(Counts(pieces.together), std::vector<std::int64_t>{1});
  EXPECT_EQ(pieces.together[0].job, batch.jobs[0].get());
  EXPECT_EQ(Counts(pieces.shared), std::vector<std::int64_t>{1});
}

}  // namespace
}  // namespace factord

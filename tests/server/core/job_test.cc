#include "server/core/job.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "server/core/batch.h"

namespace factord {
namespace {

std::unique_ptr<Job> Factorization(std::int64_t count) {
  auto job = std::make_unique<Job>();
  job->spec.m = 5;
  job->spec.n = 3;
  job->spec.q = QMode::kReduced;
  job->spec.r = true;
  job->count = count;
  return job;
}

TEST(Job, BytesAreOfAllInputsAndOutputs) {
  EXPECT_EQ(Factorization(1)->bytes(), (5 * 3 + 5 * 3 + 3 * 3) * 4);
  EXPECT_EQ(Factorization(7)->bytes(), 7 * Factorization(1)->bytes());
  EXPECT_EQ(Factorization(0)->bytes(), 0);
}

TEST(Job, MatricesFollowDensely) {
  auto job = Factorization(2);
  std::vector<float> a(2 * 5 * 3);
  job->operands[static_cast<std::size_t>(Operand::kA)] = reinterpret_cast<std::byte*>(a.data());

  EXPECT_EQ(job->matrix<float>(Operand::kA, 0), a.data());
  EXPECT_EQ(job->matrix<float>(Operand::kA, 1), a.data() + 15);
}

TEST(Job, IsCancelledOnlyByItsFlag) {
  auto job = Factorization(1);
  EXPECT_FALSE(job->is_cancelled());
  auto flag = std::make_shared<std::atomic<bool>>(false);
  job->cancelled = flag;
  EXPECT_FALSE(job->is_cancelled());

  *flag = true;

  EXPECT_TRUE(job->is_cancelled());
}

TEST(Job, CompleteCallsDoneOnceWithTheJob) {
  auto job = Factorization(1);
  Job* const address = job.get();
  int calls = 0;
  job->done = [&](Job& ended, const absl::Status& status) {
    ++calls;
    EXPECT_EQ(&ended, address);
    EXPECT_TRUE(absl::IsAborted(status));
  };

  Complete(std::move(job), absl::AbortedError("x"));

  EXPECT_EQ(calls, 1);
}

TEST(Batch, CountsItsMatrices) {
  Batch batch;
  EXPECT_EQ(batch.matrices(), 0);
  batch.jobs.push_back(Factorization(3));
  batch.jobs.push_back(Factorization(4));
  EXPECT_EQ(batch.matrices(), 7);
}

}  // namespace
}  // namespace factord

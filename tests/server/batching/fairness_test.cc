// Who waits for how long: in predicted cost, with one lane whose batches take exactly what was
// predicted.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/batching/batcher.h"
#include "tests/server/batching/make_job.h"

namespace factord {
namespace {

using absl::Milliseconds;

class OneLane {
 public:
  explicit OneLane(const BatcherOptions& options) : batcher(options) {}

  void Add(const JobTraits& traits) { batcher.Add(MakeJob(traits), now); }

  // Runs one batch, to its end; false if there was none.
  bool Step() {
    batch = batcher.TakeReady(now);
    if (!batch) return false;
    for (const auto& job : batch->jobs) {
      now += job->predicted;
      served[job->client] += job->predicted;
    }
    return true;
  }

  bool Ran(std::int64_t id) const {
    const auto ids = IdsOf(*batch);
    return std::ranges::find(ids, id) != ids.end();
  }

  Batcher batcher;
  absl::Time now = kStart;
  std::optional<Batch> batch;                    // the last one
  std::map<std::string, absl::Duration> served;  // by client
};

JobTraits Big(const std::string& client) {
  return {.client = client, .size = 4096, .predicted = absl::Seconds(2)};
}

JobTraits Small(const std::string& client, std::int64_t id = 0) {
  return {.id = id, .client = client, .size = 32, .predicted = Milliseconds(1)};
}

TEST(Fairness, AFloodOfBigJobsNeverStarvesSmallOnes) {
  OneLane lane({});
  for (int i = 0; i < 1000; ++i) lane.Add(Big("flood"));
  ASSERT_TRUE(lane.Step());

  // One at a time, each right after the last: none waits for more than the batch that is on the
  // lane.
  for (int id = 1; id <= 100; ++id) {
    lane.Add(Small("other", id));
    ASSERT_TRUE(lane.Step());
    EXPECT_TRUE(lane.Ran(id)) << id;
  }
}

TEST(Fairness, ManyFloodingClientsDelayASmallJobByOneBatchEachAtMost) {
  for (int seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(static_cast<unsigned>(seed));
    OneLane lane({});
    constexpr int kClients = 10;
    for (int i = 0; i < 500; ++i) {
      JobTraits job = Big(absl::StrCat("flood ", i % kClients));
      job.size += i % kClients * 1024;  // a bucket each
      job.predicted = Milliseconds(100 + random() % 1900);
      lane.Add(job);
    }
    for (unsigned i = random() % 200; i > 0; --i) ASSERT_TRUE(lane.Step());
    lane.Add(Small("other", 7));

    int batches = 0;
    do {
      ASSERT_TRUE(lane.Step());
    } while (++batches < 1000 && !lane.Ran(7));

    EXPECT_LE(batches, kClients + 1);
  }
}

TEST(Fairness, BackloggedClientsGetEqualServiceWhateverTheirSizes) {
  OneLane lane({.max_batch_cost = Milliseconds(20)});
  const absl::Duration costs[] = {Milliseconds(1), Milliseconds(7), Milliseconds(300)};
  for (int client = 0; client < 3; ++client) {
    for (absl::Duration queued; queued < absl::Seconds(30); queued += costs[client]) {
      lane.Add({.client = absl::StrCat(client), .size = 32 << client, .predicted = costs[client]});
    }
  }

  while (lane.now < kStart + absl::Seconds(45)) {
    ASSERT_TRUE(lane.Step());
    const auto [least, most] = std::minmax({lane.served["0"], lane.served["1"], lane.served["2"]});
    ASSERT_LE(most - least, Milliseconds(300 + 20));
  }
}

// A client that sends one job at a time, and leaves in between, must not get more than its share.
TEST(Fairness, LeavingAndReturningGainsNothing) {
  OneLane lane({.max_batch_cost = {}});
  for (int i = 0; i < 2000; ++i) lane.Add({.client = "steady", .size = 64});
  bool away = true;
  for (int step = 0; lane.served["steady"] < absl::Seconds(1); ++step) {
    ASSERT_LT(step, 5000);
    if (away) lane.Add({.id = 1, .client = "sly", .size = 32, .predicted = Milliseconds(5)});
    ASSERT_TRUE(lane.Step());
    away = lane.Ran(1);
  }

  EXPECT_LE(lane.served["sly"], absl::Seconds(1) + Milliseconds(2 * 5));
}

// Nor may a stream of clients that were never seen before keep a known one waiting for ever.
TEST(Fairness, NewcomersDoNotStarveAClientInDebt) {
  OneLane lane({.max_batch_cost = {}});
  for (int i = 0; i < 100; ++i) {
    lane.Add({.client = "known", .size = 64, .predicted = Milliseconds(50)});
  }
  int newcomer = 0;
  const auto arrive = [&] {
    lane.Add({.client = absl::StrCat("new ", newcomer++), .predicted = Milliseconds(10)});
  };
  for (int i = 0; i < 20; ++i) arrive();
  for (int i = 0; i < 1000; ++i) {
    arrive();  // as many as are served: always 20 or so wait
    ASSERT_TRUE(lane.Step());
  }

  // Twenty of them share the lane with one: of 10 s and more, a twentieth or so each.
  EXPECT_GE(lane.served["known"], Milliseconds(300));
}

TEST(Fairness, AbsenceEarnsNoCredit) {
  OneLane lane({.max_batch_cost = {}});
  lane.Add({.client = "late", .size = 32});
  lane.Add({.client = "steady", .size = 64});
  while (lane.Step()) {
  }
  for (int i = 0; i < 1000; ++i) lane.Add({.client = "steady", .size = 64});
  for (int i = 0; i < 500; ++i) ASSERT_TRUE(lane.Step());
  lane.served.clear();

  for (int i = 0; i < 500; ++i) lane.Add({.client = "late", .size = 32});
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(lane.Step());

  EXPECT_LE(lane.served["late"], Milliseconds(101));
}

// What a client got in another bucket's batch counts when its turn comes.
TEST(Fairness, ChargesForCompany) {
  OneLane lane({});
  lane.Add({.id = 1, .client = "alice", .size = 8, .predicted = Milliseconds(1)});
  lane.Add({.id = 2, .client = "bob", .size = 64, .predicted = Milliseconds(3)});
  lane.Add({.id = 3, .client = "bob", .size = 8, .predicted = Milliseconds(10)});
  lane.Add({.id = 4, .client = "carol", .size = 128, .predicted = Milliseconds(5)});

  ASSERT_TRUE(lane.Step());
  EXPECT_THAT(IdsOf(*lane.batch), testing::ElementsAre(1, 3));
  ASSERT_TRUE(lane.Step());
  EXPECT_THAT(IdsOf(*lane.batch), testing::ElementsAre(4));
}

// Urgent work that nobody else was waiting for is not held against a client later.
TEST(Fairness, UncontestedUrgentWorkLeavesNoDebt) {
  OneLane lane({});
  for (int i = 0; i < 100; ++i) {
    lane.Add({.client = "hurried",
              .predicted = Milliseconds(20),
              .deadline = lane.now + Milliseconds(30)});
    ASSERT_TRUE(lane.Step());
  }
  for (int i = 0; i < 100; ++i) lane.Add(Small("other"));
  lane.Add({.id = 7, .client = "hurried", .size = 64});

  ASSERT_TRUE(lane.Step());
  ASSERT_TRUE(lane.Step());

  EXPECT_TRUE(lane.Ran(7));
}

TEST(Fairness, RemembersABoundedNumberOfClients) {
  OneLane lane({.max_batch_cost = {}});
  for (int i = 0; i < 30'000; ++i) {
    lane.Add({.client = absl::StrCat("a ", i), .predicted = Milliseconds(1 + i % 7)});
    lane.Add({.client = absl::StrCat("b ", i), .predicted = Milliseconds(1 + i % 5)});
    ASSERT_TRUE(lane.Step());
    if (i % 2 == 0) {
      ASSERT_TRUE(lane.Step());
    }
    ASSERT_LE(lane.batcher.known_clients(),
              FairClock::kMaxParked + static_cast<std::size_t>(lane.batcher.queued().jobs));
  }
  while (lane.Step()) {
  }
  lane.Add(Small("last"));
  EXPECT_EQ(lane.batcher.known_clients(), 1u);
}

// Cases S24: a high one passes a thousand low ones; a low one gets through a steady stream of high
// ones.
TEST(Priorities, AHighJobPassesAThousandLowOnes) {
  OneLane lane({});
  for (int i = 0; i < 1000; ++i) {
    lane.Add({.size = 256, .priority = Priority::kLow});
  }
  ASSERT_TRUE(lane.Step());
  lane.Add({.id = 1, .client = "high", .size = 8});

  ASSERT_TRUE(lane.Step());

  EXPECT_TRUE(lane.Ran(1));
}

TEST(Priorities, ALowJobIsServedWithinTheAgeingBound) {
  for (const char* client : {"high", "low"}) {  // the same client, and another
    OneLane lane({.low_priority_ageing = Milliseconds(500)});
    lane.Add({.id = -1, .client = client, .size = 256, .priority = Priority::kLow});
    absl::Time arrivals = kStart;
    absl::Time served = absl::InfiniteFuture();
    for (int i = 0; i < 2000 && served == absl::InfiniteFuture(); ++i) {
      // Overload: 1 ms of work every 0.9 ms, so that only ageing lets the low one through.
      for (; arrivals <= lane.now; arrivals += absl::Microseconds(900)) {
        lane.Add({.client = "high", .size = 8});
      }
      const absl::Time start = lane.now;
      ASSERT_TRUE(lane.Step());
      if (lane.Ran(-1)) served = start;
    }

    EXPECT_GE(served, kStart + Milliseconds(400));
    EXPECT_LE(served, kStart + Milliseconds(500 + 2 * 20)) << client;
  }
}

// Once aged, a flood of low ones gets a share, not everything.
TEST(Priorities, AFloodOfAgedLowJobsDoesNotStarveNormalOnes) {
  OneLane lane({.low_priority_ageing = Milliseconds(100)});
  for (int i = 0; i < 5000; ++i) {
    lane.Add({.client = "low", .size = 256, .priority = Priority::kLow});
  }
  for (int i = 0; i < 150; ++i) {
    lane.Add({.id = i, .client = "high", .size = 8, .predicted = Milliseconds(2)});
    absl::Time submitted = lane.now;
    do {
      ASSERT_TRUE(lane.Step());
    } while (!lane.Ran(i));
    ASSERT_LE(lane.now - submitted, Milliseconds(2 * 20 + 2)) << i;
  }
}

// Cases S22: 64 clients, 40 shapes, arriving all the time, with a delay and without.
TEST(MixedShapes, LeaveWithinTheDelayAndOneRoundAndAreBatched) {
  for (const absl::Duration delay : {absl::ZeroDuration(), Milliseconds(5)}) {
    std::mt19937 random(3);
    Batcher batcher({.max_delay = delay});
    absl::Time now = kStart;
    absl::Duration longest;
    int jobs = 0, batches = 0;
    for (int tick = 0; tick < 20'000; ++tick) {
      now += absl::Microseconds(50);
      if (random() % 2 == 0) {
        auto job =
            MakeJob({.client = absl::StrCat(random() % 64), .predicted = absl::Microseconds(30)});
        const unsigned shape = random() % 40;
        job->spec = Factorization(20 + shape % 8, 6 + shape / 8);
        batcher.Add(std::move(job), now);
      }
      if (tick % 8 != 0) continue;  // a lane comes free every 0.4 ms
      if (const auto batch = batcher.TakeReady(now)) {
        ++batches;
        jobs += static_cast<int>(batch->jobs.size());
        for (const auto& job : batch->jobs) longest = std::max(longest, job->times.queue);
      }
    }

    const double mean = static_cast<double>(jobs) / batches;
    EXPECT_GT(mean, 1.5) << delay;
    EXPECT_LE(longest, delay + Milliseconds(15)) << delay;
  }
}

// Cases S01: of two hundred jobs with short deadlines behind slow work, the late ones cost nothing.
TEST(Overload, LateJobsCostNoLaneTime) {
  OneLane lane({});
  for (int i = 0; i < 5; ++i)
    lane.Add({.id = -1, .client = "slow", .size = 4096, .predicted = Milliseconds(90)});
  ASSERT_TRUE(lane.Step());
  for (int i = 0; i < 200; ++i) {
    lane.Add({.client = "hurried",
              .size = 256,
              .predicted = Milliseconds(5),
              .measured = true,
              .deadline = lane.now + Milliseconds(100)});
  }

  absl::Duration late;
  while (lane.Step()) {
    for (const auto& job : lane.batch->jobs) late = std::max(late, lane.now - job->deadline);
  }

  // A batch may run over, by its own length; nothing starts late.
  EXPECT_LE(late, Milliseconds(20));
  EXPECT_GE(lane.batcher.TakeDead(lane.now).size(), 170u);
}

TEST(Scale, AHundredThousandJobsOfTwoThousandClients) {
  Batcher batcher({.max_batch_matrices = 16});
  for (int i = 0; i < 100'000; ++i) {
    batcher.Add(MakeJob({.client = absl::StrCat(i % 2000),
                         .size = i % 97,
                         .priority = i % 3 == 0 ? Priority::kLow : Priority::kNormal,
                         .deadline = kStart + absl::Seconds(1 + i % 50)}),
                kStart);
  }
  std::size_t left = 0;
  absl::Time now = kStart;
  while (const auto batch = batcher.TakeReady(now += absl::Microseconds(10))) {
    left += batch->jobs.size();
  }

  EXPECT_EQ(left, 100'000u);
}

}  // namespace
}  // namespace factord

#include "server/http/plan_query.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/routed_context.h"

namespace factord {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ProblemOf(const std::map<std::string, std::string>& arguments) {
  const auto request = ParsePlanQuery(arguments);
  EXPECT_TRUE(absl::IsInvalidArgument(request.status()));
  return std::string(request.status().message());
}

TEST(PlanQuery, BecomesTheRequestThatExplainTakes) {
  const auto request = ParsePlanQuery({{"m", "8"}, {"n", "4"}, {"batch", "9"}, {"dtype", "c64"}});
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_THAT(request->factorize().a(0).dims(), ElementsAre(9, 8, 4));
  EXPECT_EQ(request->factorize().a(0).dtype(), v1::DTYPE_C64);
  EXPECT_EQ(request->factorize().qr().q(), v1::Q_MODE_REDUCED);
  EXPECT_TRUE(request->factorize().qr().r());
}

TEST(PlanQuery, HasEveryOperation) {
  testing::RoutedContext routed;
  for (const char* op : {"factorize", "form_q", "apply_q", "solve"}) {
    for (const char* m : {"0", "3", "8"}) {
      const auto answer =
          AnswerPlanQuery({{"op", op}, {"m", m}, {"n", "4"}, {"p", "2"}}, routed.context);
      ASSERT_TRUE(answer.ok()) << op << " " << m << " " << answer.status();
      EXPECT_EQ(answer->explanations_size(), 1);
    }
  }
}

TEST(PlanQuery, NamesTheArgumentThatMakesNoSense) {
  EXPECT_EQ(ProblemOf({{"n", "4"}}), "m: is missing");
  EXPECT_THAT(ProblemOf({{"m", "-3"}, {"n", "4"}}), HasSubstr("m: is \"-3\"; must be a whole"));
  EXPECT_THAT(ProblemOf({{"m", "4"}, {"n", "1e3"}}), HasSubstr("n: "));
  EXPECT_THAT(ProblemOf({{"m", "4"}, {"n", "99999999999999999999"}}), HasSubstr("n: "));
  EXPECT_THAT(ProblemOf({{"m", "4"}, {"n", "4"}, {"batch", ""}}), HasSubstr("batch: "));
  EXPECT_EQ(ProblemOf({{"m", "4"}, {"n", "4"}, {"dtype", "f16"}}),
            "dtype: is \"f16\"; must be one of f32, f64, c64, c128");
  EXPECT_THAT(ProblemOf({{"m", "4"}, {"n", "4"}, {"op", "lu"}}), HasSubstr("op: is \"lu\""));
  EXPECT_THAT(ProblemOf({{"rows", "4"}}), HasSubstr("\"rows\" is none of the arguments op, m"));
  EXPECT_LT(ProblemOf({{"m", std::string(100'000, '9')}, {"n", "4"}}).size(), 200);
}

TEST(PlanQuery, WhatNoRequestMayHaveIsRefusedInTheArgumentsNames) {
  testing::RoutedContext routed;
  const auto problem = [&](const char* batch, const char* m, const char* n) {
    const auto answer = AnswerPlanQuery({{"batch", batch}, {"m", m}, {"n", n}}, routed.context);
    EXPECT_FALSE(answer.ok());
    return std::string(answer.status().message());
  };
  EXPECT_THAT(problem("1", "100000", "100000"),
              HasSubstr("batch, m, n, p: a matrix of 100000x100000 elements; the limit is"));
  EXPECT_THAT(problem("9223372036854775807", "9", "9"), HasSubstr("batch, m, n, p: "));
  EXPECT_THAT(problem("100000000", "100", "100"), HasSubstr("memory budget"));
}

}  // namespace
}  // namespace factord

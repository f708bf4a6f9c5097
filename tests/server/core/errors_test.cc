#include "server/core/errors.h"

#include <string>

#include "gtest/gtest.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

TEST(Errors, InvalidFieldNamesTheField) {
  const absl::Status status = InvalidField("a[2].dims", "is -1, must not be negative");

  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "a[2].dims: is -1, must not be negative");
  EXPECT_EQ(FieldOf(status), "a[2].dims");
  EXPECT_EQ(ReasonOf(status), std::nullopt);
  EXPECT_EQ(RetryDelayOf(status), std::nullopt);
}

TEST(Errors, OverloadedSaysWhyAndWhenToRetry) {
  const absl::Status status = Overloaded("QUEUE_FULL", "5 of 5", absl::Microseconds(1500));

  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "5 of 5");
  EXPECT_EQ(ReasonOf(status), "QUEUE_FULL");
  EXPECT_EQ(RetryDelayOf(status), absl::Microseconds(1500));
  EXPECT_EQ(FieldOf(status), std::nullopt);
}

TEST(Errors, OthersCarryNothing) {
  for (const absl::Status& status : {absl::OkStatus(), absl::InternalError("x")}) {
    EXPECT_EQ(FieldOf(status), std::nullopt);
    EXPECT_EQ(ReasonOf(status), std::nullopt);
    EXPECT_EQ(RetryDelayOf(status), std::nullopt);
  }
}

absl::Status Fail(bool fail) { return fail ? absl::AbortedError("no") : absl::OkStatus(); }

absl::StatusOr<std::string> Text(bool fail) {
  RETURN_IF_ERROR(Fail(fail));
  return std::string("text");
}

absl::StatusOr<std::size_t> Length(bool fail) {
  ASSIGN_OR_RETURN(const std::string text, Text(fail));
  return text.size();
}

TEST(StatusMacros, PassErrorsOnAndValuesThrough) {
  EXPECT_EQ(Length(false).value(), 4u);
  EXPECT_TRUE(absl::IsAborted(Length(true).status()));
}

}  // namespace
}  // namespace factord

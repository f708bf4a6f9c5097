#include "server/http/listener.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Listener, SaysWhichPortItGot) {
  const auto listener = Listener::Open("127.0.0.1:0");
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_THAT(listener->address(), MatchesRegex("127.0.0.1:[1-9][0-9]*"));
}

TEST(Listener, ATakenPortIsUnavailableAndNamed) {
  const auto first = Listener::Open("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = Listener::Open(first->address());
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(first->address()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("in use"));
}

TEST(Listener, ThePortIsFreeAgainAfterwards) {
  std::string address;
  {
    const auto first = Listener::Open("localhost:0");
    ASSERT_TRUE(first.ok());
    address = first->address();
  }
  EXPECT_TRUE(Listener::Open(address).ok());
}

TEST(Listener, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "9464", ":9464", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x",
                           "127.0.0.1:65536", "127.0.0.1:-1", "::"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Listener::Open(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsUnavailable(Listener::Open("no.such.host.invalid:0").status()));
}

}  // namespace
}  // namespace factord

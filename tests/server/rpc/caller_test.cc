#include "server/rpc/caller.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(Caller, FairnessKey_IsTheFirstThingThatTellsWhoItIs) {
  Origin origin = {
      .client = "radar", .token = "t", .certificate = "c", .peer = "ipv4:127.0.0.1:54321"};
  EXPECT_EQ(FairnessKey(origin), "radar");
  origin.client = "";
  EXPECT_EQ(FairnessKey(origin), "token:t");
  origin.token = "";
  EXPECT_EQ(FairnessKey(origin), "certificate:c");
  origin.certificate = "";
  EXPECT_EQ(FairnessKey(origin), "ipv4:127.0.0.1");
}

TEST(Caller, FairnessKey_OfAPeerIsItsAddressWithoutThePort) {
  EXPECT_EQ(FairnessKey({.peer = "ipv6:[::1]:54321"}), "ipv6:[::1]");
  EXPECT_EQ(FairnessKey({.peer = "unix:/run/factord.sock"}), "unix:/run/factord.sock");
}

}  // namespace
}  // namespace factord

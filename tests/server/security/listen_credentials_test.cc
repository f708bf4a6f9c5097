#include "server/security/listen_credentials.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(ListenCredentials, IsLocalAddress_WhatOnlyThisMachineReaches) {
  for (const char* local : {"127.0.0.1:50051", "127.8.8.8:1", "localhost:0", "[::1]:5", "unix:/a"})
    EXPECT_TRUE(IsLocalAddress(local)) << local;
  for (const char* open : {"0.0.0.0:50051", "[::]:50051", "10.0.0.7:1", "localhost.example:1"})
    EXPECT_FALSE(IsLocalAddress(open)) << open;
}

}  // namespace
}  // namespace factord

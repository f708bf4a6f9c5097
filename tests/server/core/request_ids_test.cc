#include "server/core/request_ids.h"

#include <set>

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(RequestIds, VisibleAsciiOfBoundedLengthIsTaken) {
  EXPECT_TRUE(IsRequestId("a"));
  EXPECT_TRUE(IsRequestId("!~\"{}/=,;"));
  EXPECT_TRUE(IsRequestId(std::string(128, 'x')));
  EXPECT_FALSE(IsRequestId(""));
  EXPECT_FALSE(IsRequestId(std::string(129, 'x')));
  for (const char* id : {"a b", " a", "a\n", "a\tb", "\x7f", "\x1b[31m", "caf\xC3\xA9"}) {
    EXPECT_FALSE(IsRequestId(id)) << id;
  }
  EXPECT_FALSE(IsRequestId(absl::string_view("a\0b", 3)));
}

TEST(RequestIds, NewOnesAreValidAndDiffer) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewRequestId());
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_TRUE(IsRequestId(*ids.begin()));
  EXPECT_EQ(ids.begin()->size(), 32u);
}

}  // namespace
}  // namespace factord

#include "server/core/slab.h"

#include <cstdint>
#include <cstring>

#include "gtest/gtest.h"

namespace factord {
namespace {

TEST(Slab, IsAlignedAndWritable) {
  for (std::int64_t bytes : {1, 63, 64, 65, 100'000}) {
    const auto slab = Slab::Create(bytes);
    ASSERT_TRUE(slab.ok());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slab->data()) % 64, 0);
    std::memset(slab->data(), 7, static_cast<std::size_t>(bytes));
  }
}

TEST(Slab, OfNothing_HasNoMemory) {
  const auto slab = Slab::Create(0);
  ASSERT_TRUE(slab.ok());
  EXPECT_EQ(slab->data(), nullptr);
}

TEST(Slab, MoreThanThereIs_IsAnError) {
  const auto slab = Slab::Create(std::int64_t{1} << 60);
  EXPECT_EQ(slab.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(AlignedBytes, RoundsUp) {
  EXPECT_EQ(AlignedBytes(0), 0);
  EXPECT_EQ(AlignedBytes(1), 64);
  EXPECT_EQ(AlignedBytes(64), 64);
  EXPECT_EQ(AlignedBytes(65), 128);
}

}  // namespace
}  // namespace factord

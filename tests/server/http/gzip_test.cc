#include "server/http/gzip.h"

#include <zlib.h>

#include "gtest/gtest.h"

namespace factord {
namespace {

std::string Unpack(const std::string& packed) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string plain(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_out = static_cast<uInt>(plain.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  plain.resize(stream.total_out);
  inflateEnd(&stream);
  return plain;
}

TEST(Gzip, GivesBackWhatWentIn) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919);
  for (const std::string& plain : {text, std::string(), std::string("x")}) {
    EXPECT_EQ(Unpack(Gzip(plain)), plain);
  }
  EXPECT_LT(Gzip(text).size(), text.size());
}

TEST(Gzip, IsUsedForThoseWhoAskForIt) {
  EXPECT_TRUE(AcceptsGzip("gzip"));
  EXPECT_TRUE(AcceptsGzip("deflate, GZIP;q=0.5"));
  EXPECT_TRUE(AcceptsGzip("*"));
  EXPECT_FALSE(AcceptsGzip(""));
  EXPECT_FALSE(AcceptsGzip("identity, br"));
  EXPECT_FALSE(AcceptsGzip("gzip;q=0"));
  EXPECT_FALSE(AcceptsGzip("gzip; q=0.0"));
  EXPECT_FALSE(AcceptsGzip("gzip;q=;;,"));
  EXPECT_FALSE(AcceptsGzip("xgzip"));
}

}  // namespace
}  // namespace factord

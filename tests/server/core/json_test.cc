#include "server/core/json.h"

#include "gtest/gtest.h"

namespace factord {
namespace {

constexpr char kBad[] = "\xEF\xBF\xBD";

std::string Json(absl::string_view text) {
  std::string json;
  AppendJsonString(text, json);
  return json;
}

TEST(Json, PlainTextIsQuoted) {
  EXPECT_EQ(Json(""), "\"\"");
  EXPECT_EQ(Json("a b/c"), "\"a b/c\"");
}

TEST(Json, QuotesBackslashesAndControlCharactersAreEscaped) {
  EXPECT_EQ(Json("\"\\"), "\"\\\"\\\\\"");
  EXPECT_EQ(Json("\n\r\t"), "\"\\n\\r\\t\"");
  EXPECT_EQ(Json(absl::string_view("\0\x01\x1f\x7f", 4)), "\"\\u0000\\u0001\\u001f\\u007f\"");
}

TEST(Json, CharactersOfEachSizePass) {
  for (const char* text : {"\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(Json(text), std::string("\"") + text + "\"");
  }
}

TEST(Json, BytesThatAreNoCharacterAreReplacedOneByOne) {
  EXPECT_EQ(Json("a\xFFz"), std::string("\"a") + kBad + "z\"");
  EXPECT_EQ(Json("\x80"), std::string("\"") + kBad + "\"");
  // Cut short; what follows is still read.
  EXPECT_EQ(Json("\xE2\x82"), std::string("\"") + kBad + kBad + "\"");
  EXPECT_EQ(Json("\xC3\""), std::string("\"") + kBad + "\\\"\"");
  // Overlong, a surrogate, beyond U+10FFFF.
  for (absl::string_view text : {"\xC0\xAF", "\xC1\xBF"}) {
    EXPECT_EQ(Json(text), std::string("\"") + kBad + kBad + "\"");
  }
  for (absl::string_view text : {"\xE0\x9F\xBF", "\xED\xA0\x80"}) {
    EXPECT_EQ(Json(text), std::string("\"") + kBad + kBad + kBad + "\"");
  }
  for (absl::string_view text : {"\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(Json(text), std::string("\"") + kBad + kBad + kBad + kBad + "\"");
  }
}

}  // namespace
}  // namespace factord

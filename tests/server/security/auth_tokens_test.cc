#include "server/security/auth_tokens.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/errors.h"

namespace factord {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Optional;

absl::StatusOr<AuthTokens> Parse(const std::string& text) {
  return AuthTokens::Parse({{.file = {.flag = "auth_token_file", .path = "/t"}, .text = text}});
}

TEST(AuthTokens, Parse_TakesNamesAndSkipsCommentsAndBlankLines) {
  const auto tokens = Parse("# who may call\n\n  abc123== \r\nradar:x-._~+/9\n");

  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_THAT(tokens->NameOf("Bearer abc123=="), Optional(std::string()));
  EXPECT_THAT(tokens->NameOf("Bearer x-._~+/9"), Optional(std::string("radar")));
  EXPECT_THAT(tokens->NameOf("bearer  x-._~+/9 "), Optional(std::string("radar")));
}

TEST(AuthTokens, NameOf_KnowsNothingElse) {
  const auto tokens = Parse("abc\nradar:xyz");

  ASSERT_TRUE(tokens.ok()) << tokens.status();
  for (const char* other :
       {"", "abc", "Bearer", "Bearer ", "Bearer ab", "Bearer abcd", "Bearer ABC", "Basic abc",
        "Bearer radar:xyz", "Bearer radar", "Bearer abc\nxyz", "Bearer # who may call"}) {
    EXPECT_EQ(tokens->NameOf(other), std::nullopt) << other;
  }
}

TEST(AuthTokens, Parse_NamesTheLineAndNeverWhatIsInIt) {
  const auto message = [](const std::string& text) {
    return std::string(Parse(text).status().message());
  };
  EXPECT_THAT(message("abc\nse cret\n"), HasSubstr("auth_token_file: line 2 of /t is neither"));
  EXPECT_THAT(message("abc\nse cret\n"), Not(HasSubstr("cret")));
  EXPECT_THAT(message("a:b:secret"), HasSubstr("line 1 of /t is neither"));
  EXPECT_THAT(message("a:"), HasSubstr("line 1 of /t is neither"));
  EXPECT_THAT(message(":secret"), HasSubstr("line 1 of /t has a name that is empty"));
  EXPECT_THAT(message("a b:secret"), HasSubstr("line 1 of /t has a name that is empty"));
  EXPECT_THAT(message("abc\n\nradar:abc"), HasSubstr("line 3 of /t repeats an earlier token"));
  EXPECT_THAT(message("# none\n\n"), HasSubstr("/t holds no token"));
}

}  // namespace
}  // namespace factord

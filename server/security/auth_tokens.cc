#include "server/security/auth_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/core/errors.h"

namespace factord {
namespace {

constexpr absl::string_view kScheme = "Bearer ";

bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("-._~+/=", c);
}

}  // namespace

absl::Status AuthTokens::Add(absl::string_view line) {
  const std::size_t colon = line.find(':');
  const bool has_name = colon != absl::string_view::npos;
  const absl::string_view name = has_name ? line.substr(0, colon) : "";
  const absl::string_view token = has_name ? line.substr(colon + 1) : line;
  if (has_name && (name.empty() || !std::all_of(name.begin(), name.end(), absl::ascii_isgraph))) {
    return absl::InvalidArgumentError("has a name that is empty or has spaces in it");
  }
  if (token.empty() || !std::all_of(token.begin(), token.end(), IsTokenCharacter)) {
    return absl::InvalidArgumentError(
        "is neither TOKEN nor NAME:TOKEN, with a token of letters, digits and -._~+/=");
  }
  const Digest digest = DigestOf(token);
  for (const Entry& entry : entries_) {
    if (entry.digest == digest) return absl::InvalidArgumentError("repeats an earlier token");
  }
  entries_.push_back({.name = std::string(name), .digest = digest});
  return absl::OkStatus();
}

absl::StatusOr<AuthTokens> AuthTokens::Parse(const std::vector<FileText>& files) {
  AuthTokens tokens;
  for (const FileText& file : files) {
    int number = 0;
    for (absl::string_view line : absl::StrSplit(file.text, '\n')) {
      ++number;
      line = absl::StripAsciiWhitespace(line);
      if (line.empty() || line.front() == '#') continue;
      if (const absl::Status status = tokens.Add(line); !status.ok()) {
        return InvalidField(file.file.flag, absl::StrCat("line ", number, " of ", file.file.path,
                                                         " ", status.message()));
      }
    }
    // Nobody could call: rather a slip than a wish.
    if (tokens.entries_.empty()) {
      return InvalidField(file.file.flag, absl::StrCat(file.file.path, " holds no token"));
    }
  }
  return tokens;
}

std::optional<std::string> AuthTokens::NameOf(absl::string_view authorization) const {
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return std::nullopt;
  const Digest digest = DigestOf(absl::StripAsciiWhitespace(authorization.substr(kScheme.size())));
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (EqualInConstantTime(entry.digest, digest)) found = &entry;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

absl::StatusOr<std::shared_ptr<TokenFile>> OpenTokenFile(const std::string& path) {
  return TokenFile::Open({{.flag = "auth_token_file", .path = path}}, AuthTokens::Parse);
}

}  // namespace factord

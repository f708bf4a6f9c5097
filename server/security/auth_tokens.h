// AuthTokens: the bearer tokens of --auth_token_file.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/security/digest.h"
#include "server/security/watched_files.h"

namespace factord {

// A line is TOKEN or NAME:TOKEN; blank lines and those that start with # count for nothing. Tokens
// are letters, digits and any of -._~+/=, so that they fit into a header as they are. Kept as
// digests. Immutable.
class AuthTokens {
 public:
  // Errors name the line, never what is in it.
  static absl::StatusOr<AuthTokens> Parse(const std::vector<FileText>& files);

  // The name of the token in an authorization header, "Bearer TOKEN": empty where its line has
  // none; nullopt where it is no token of ours. Takes as long for every token.
  std::optional<std::string> NameOf(absl::string_view authorization) const;

 private:
  struct Entry {
    std::string name;
    Digest digest;
  };
  absl::Status Add(absl::string_view line);

  std::vector<Entry> entries_;
};

using TokenFile = WatchedFiles<AuthTokens>;

// As a flag named it.
absl::StatusOr<std::shared_ptr<TokenFile>> OpenTokenFile(const std::string& path);

}  // namespace factord

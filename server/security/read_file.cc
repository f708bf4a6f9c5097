#include "server/security/read_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"

namespace factord {
namespace {

// Certificates and tokens; a path like /dev/zero has an end too.
constexpr std::size_t kMaxFileBytes = 1 << 20;

absl::StatusOr<std::string> ReadFile(const FlagFile& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.path.c_str(), "rb"),
                                                               std::fclose);
  std::string text(kMaxFileBytes + 1, '\0');
  if (stream != nullptr) text.resize(std::fread(text.data(), 1, text.size(), stream.get()));
  if (stream == nullptr || std::ferror(stream.get()) != 0) {
    return InvalidField(file.flag,
                        absl::StrCat("can not read ", file.path, ": ", std::strerror(errno)));
  }
  if (text.size() > kMaxFileBytes) {
    return InvalidField(file.flag,
                        absl::StrCat(file.path, " is larger than ", kMaxFileBytes, " bytes"));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<FileText>> ReadFiles(const std::vector<FlagFile>& files) {
  std::vector<FileText> texts;
  for (const FlagFile& file : files) {
    ASSIGN_OR_RETURN(std::string text, ReadFile(file));
    texts.push_back({.file = file, .text = std::move(text)});
  }
  return texts;
}

}  // namespace factord

#include "client/file_io.h"

#include <cerrno>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"

namespace factord::client {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

}  // namespace

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": can not be opened"));
  std::string contents;
  char buffer[1 << 16];
  while (true) {
    const size_t bytes = std::fread(buffer, 1, sizeof(buffer), file.get());
    contents.append(buffer, bytes);
    if (bytes < sizeof(buffer)) break;
  }
  if (std::ferror(file.get())) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": can not be read"));
  }
  return contents;
}

absl::Status WriteFile(const std::string& path, absl::string_view contents) {
  File file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": can not be opened"));
  const bool is_written =
      std::fwrite(contents.data(), 1, contents.size(), file.get()) == contents.size();
  // A full disk may show only when the buffer is flushed.
  if (std::fclose(file.release()) != 0 || !is_written) {
    return absl::ErrnoToStatus(errno, absl::StrCat(path, ": can not be written"));
  }
  return absl::OkStatus();
}

}  // namespace factord::client

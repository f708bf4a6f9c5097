// Files that flags name.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace factord {

struct FlagFile {
  std::string flag;  // without dashes
  std::string path;
};

struct FileText {
  FlagFile file;
  std::string text;
};

// INVALID_ARGUMENT names the flag and the file that can not be read, or is larger than any of this
// kind should be.
absl::StatusOr<std::vector<FileText>> ReadFiles(const std::vector<FlagFile>& files);

}  // namespace factord

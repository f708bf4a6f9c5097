// PageFiles: the status page's own files (page/), built in.
#pragma once

#include <span>

#include "absl/strings/string_view.h"

namespace factord {

struct PageFile {
  absl::string_view path;  // of the URL
  absl::string_view content_type;
  absl::string_view text;
};

std::span<const PageFile> PageFiles();

}  // namespace factord

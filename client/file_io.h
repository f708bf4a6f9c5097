#ifndef FACTORD_CLIENT_FILE_IO_H_
#define FACTORD_CLIENT_FILE_IO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace factord::client {

// A whole file. NOT_FOUND, PERMISSION_DENIED or another code with the path and the system's reason.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Replaces the file's contents.
absl::Status WriteFile(const std::string& path, absl::string_view contents);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FILE_IO_H_

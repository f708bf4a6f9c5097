#ifndef FACTORD_CLIENT_NPY_TYPE_H_
#define FACTORD_CLIENT_NPY_TYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "factord/v1/factord.pb.h"

namespace factord::client {

// One of NumPy's types and what becomes of it.
struct NpyType {
  absl::string_view code;  // without the byte order
  int64_t file_bytes;
  v1::DType dtype;
  std::string (*promote)(absl::string_view);  // null: the bytes are right as they are
};

// INVALID_ARGUMENT names `file` and says which types can be factorized.
absl::StatusOr<const NpyType*> FindNpyType(absl::string_view file, absl::string_view descr);

// NumPy's name of the type, with its byte order.
std::string NpyDescr(v1::DType dtype);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_NPY_TYPE_H_

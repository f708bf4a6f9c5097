#ifndef FACTORD_CLIENT_STREAM_CALL_H_
#define FACTORD_CLIENT_STREAM_CALL_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "factord/v1/factord.grpc.pb.h"

namespace factord::client {

// The size of the chunks that a streamed call sends; one in the 1 to 4 MiB that the server handles
// best.
inline constexpr int64_t kChunkBytes = int64_t{2} << 20;

// Runs one request on a stream of its own and returns its response, data included. `data[i]`
// belongs to the start's tensor i, which has a shape and no data. Blocks; `context` brings the
// deadline and is used up.
//
// A server that refuses a request early is believed at once: what was not yet sent stays unsent.
absl::StatusOr<v1::StreamResult> RunStreamCall(
    v1::Factorization::StubInterface* stub, grpc::ClientContext* context, const v1::Start& start,
    const std::vector<absl::string_view>& data,
    const std::function<void(int64_t done_bytes, int64_t total_bytes)>& progress);

}  // namespace factord::client

#endif  // FACTORD_CLIENT_STREAM_CALL_H_

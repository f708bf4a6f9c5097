// The values that the metrics' labels take: fixed sets, never from a request.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace factord {

enum class Rpc : std::uint8_t {
  kFactorize,
  kFactorizeStream,
  kFormQ,
  kApplyQ,
  kSolve,
  kReduceRows,
  kExplain,
  kGetServerInfo
};
inline constexpr int kRpcs = 8;

enum class Stage : std::uint8_t { kDecode, kQueue, kPack, kCompute, kUnpack, kEncode };
inline constexpr int kStages = 6;

// Why work was refused, or dropped before it ran.
enum class Reject : std::uint8_t {
  kInvalid,
  kTooLarge,
  kQueueFull,
  kBudgetFull,
  kDraining,
  kNoBackend,
  kExpired,
  kHopeless,
  kCancelled,
  kUnauthenticated
};
inline constexpr int kRejects = 10;

// Why a batch that a device was to run went elsewhere.
enum class Fallback : std::uint8_t {
  kDeviceLost,
  kOutOfMemory,  // a matrix is too large for the device's buffers
  kError,        // anything else; the device goes on
};
inline constexpr int kFallbacks = 3;

enum class MemoryKind : std::uint8_t {
  kTotal,     // what the device has; the CPU: what this process may use
  kReserved,  // on the device, by this server
  kPinned,    // of the host, page-locked for transfers
};
inline constexpr int kMemoryKinds = 3;

absl::string_view Name(Rpc rpc);
absl::string_view Name(Stage stage);
absl::string_view Name(Reject reject);
absl::string_view Name(Fallback fallback);
absl::string_view Name(MemoryKind kind);

}  // namespace factord

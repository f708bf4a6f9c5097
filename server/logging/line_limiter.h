// LineLimiter: so that a flood of equal events is a few lines and a count.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace factord {

// Of each kind, `lines` lines in a window that begins with the first one; the rest is counted.
// Thread-safe.
class LineLimiter {
 public:
  struct Suppressed {
    std::size_t kind = 0;
    std::int64_t count = 0;
  };

  LineLimiter(std::size_t kinds, int lines, absl::Duration window)
      : lines_(lines), window_(window), kinds_(kinds) {}

  bool Allows(std::size_t kind, absl::Time now);

  // What was suppressed in the windows that are over at `now`: each event is told once.
  std::vector<Suppressed> TakeSuppressed(absl::Time now);

 private:
  struct Kind {
    absl::Time ends = absl::InfinitePast();
    int written = 0;
    std::int64_t suppressed = 0;
  };

  const int lines_;
  const absl::Duration window_;
  absl::Mutex mutex_;
  std::vector<Kind> kinds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace factord

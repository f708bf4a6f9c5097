#ifndef FACTORD_CLIENT_FACTORCTL_PROGRESS_H_
#define FACTORD_CLIENT_FACTORCTL_PROGRESS_H_

#include <cstdint>
#include <ostream>

namespace factord::client {

// A bar on one line that redraws itself, and goes when the object does. Draws nothing unless
// enabled, and only where the percentage has changed. Not thread-safe.
class Progress {
 public:
  Progress(std::ostream& err, bool enabled) : err_(err), enabled_(enabled) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done, int64_t total);

 private:
  std::ostream& err_;
  const bool enabled_;
  int64_t percent_ = -1;
};

}  // namespace factord::client

#endif  // FACTORD_CLIENT_FACTORCTL_PROGRESS_H_

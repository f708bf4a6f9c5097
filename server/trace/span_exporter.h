// SpanExporter: writes spans to a file, on a thread of its own.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/metrics/metrics.h"
#include "server/trace/span.h"

namespace factord {

// Whoever adds spans never waits for the file: a bounded number waits to be written, more are
// dropped and counted, and so are those that could not be written. Thread-safe.
class SpanExporter {
 public:
  struct Options {
    std::string path;
    std::string service_version;
    std::size_t max_waiting = 16'384;  // spans
  };

  // Opens the file, to append to it. `metrics` must outlive this.
  static absl::StatusOr<std::unique_ptr<SpanExporter>> Create(Options options, Metrics& metrics);

  // Writes what is left.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // The spans of one request; they stay together.
  void Add(std::vector<Span> spans);

  // Waits until all that was added is written. False where it was not at `deadline`.
  bool Flush(absl::Time deadline);

  // What is written later goes to a file newly opened under the path: whoever rotates files has
  // moved the present one away.
  void Reopen();

 private:
  class File;

  SpanExporter(Options options, std::unique_ptr<File> file, Metrics& metrics);

  void Loop();
  void Write(const std::vector<Span>& spans);
  void Drop(std::size_t spans);

  const Options options_;
  Metrics& metrics_;
  std::unique_ptr<File> file_;  // the thread's
  bool failing_ = false;        // likewise: the latest line was not written

  absl::Mutex mutex_;
  absl::CondVar added_;    // or to be reopened, or stopped
  absl::CondVar written_;  // all of it
  std::deque<std::vector<Span>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::size_t waiting_spans_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reopen_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace factord

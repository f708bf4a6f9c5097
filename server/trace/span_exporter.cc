#include "server/trace/span_exporter.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/core/status_macros.h"
#include "server/trace/otlp_json.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

// A pipe whose reader is gone is an error of its write, not the end of the process.
void BlockBrokenPipeSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

// A file of lines that is only ever appended to.
class SpanExporter::File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  ~File() { Close(); }

  absl::Status Open() {
    const int opened = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (opened < 0) {
      return absl::UnavailableError(
          absl::StrCat("can not write to ", path_, ": ", std::strerror(errno)));
    }
    Close();
    file_ = opened;
    broken_line_ = false;
    return absl::OkStatus();
  }

  // All of the line, or an error; what was written of it then does not spoil the next one.
  absl::Status WriteLine(absl::string_view line) {
    const std::string text = absl::StrCat(broken_line_ ? "\n" : "", line, "\n");
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = write(file_, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        const int why = errno;
        broken_line_ = broken_line_ || done > 0;
        return absl::UnavailableError(
            absl::StrCat("can not write to ", path_, ": ", std::strerror(why)));
      }
      done += static_cast<std::size_t>(n);
    }
    broken_line_ = false;
    return absl::OkStatus();
  }

 private:
  void Close() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

  const std::string path_;
  int file_ = -1;
  bool broken_line_ = false;
};

absl::StatusOr<std::unique_ptr<SpanExporter>> SpanExporter::Create(Options options,
                                                                   Metrics& metrics) {
  auto file = std::make_unique<File>(options.path);
  RETURN_IF_ERROR(file->Open());
  return std::unique_ptr<SpanExporter>(
      new SpanExporter(std::move(options), std::move(file), metrics));
}

SpanExporter::SpanExporter(Options options, std::unique_ptr<File> file, Metrics& metrics)
    : options_(std::move(options)), metrics_(metrics), file_(std::move(file)), thread_([this] {
        pthread_setname_np(pthread_self(), "spans");
        Loop();
      }) {}

SpanExporter::~SpanExporter() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    added_.Signal();
  }
  thread_.join();
}

void SpanExporter::Add(std::vector<Span> spans) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_spans_ + spans.size() <= options_.max_waiting) {
      waiting_spans_ += spans.size();
      waiting_.push_back(std::move(spans));
      added_.Signal();
      return;
    }
  }
  Drop(spans.size());
}

bool SpanExporter::Flush(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  while (!waiting_.empty() || writing_) {
    if (written_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  return waiting_.empty() && !writing_;
}

void SpanExporter::Reopen() {
  absl::MutexLock lock(&mutex_);
  reopen_ = true;
  added_.Signal();
}

void SpanExporter::Loop() {
  BlockBrokenPipeSignal();
  while (true) {
    std::deque<std::vector<Span>> batch;
    bool reopen = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (waiting_.empty()) written_.SignalAll();
      while (waiting_.empty() && !reopen_ && !stopped_) added_.Wait(&mutex_);
      if (waiting_.empty() && !reopen_) return;
      batch.swap(waiting_);
      waiting_spans_ = 0;
      writing_ = true;
      reopen = std::exchange(reopen_, false);
    }
    if (reopen) {
      // The old file is still open, and better than none.
      if (const absl::Status status = file_->Open(); !status.ok()) {
        spdlog::error("traces: {}", std::string(status.message()));
      }
    }
    for (const std::vector<Span>& spans : batch) Write(spans);
  }
}

void SpanExporter::Write(const std::vector<Span>& spans) {
  const absl::Status status = file_->WriteLine(OtlpJsonLine(spans, options_.service_version));
  if (!status.ok()) Drop(spans.size());
  // Once, not for every line of a full disk.
  if (!status.ok() && !failing_) spdlog::error("traces: {}", std::string(status.message()));
  failing_ = !status.ok();
}

void SpanExporter::Drop(std::size_t spans) {
  metrics_.SpansDropped(static_cast<std::int64_t>(spans));
}

}  // namespace factord

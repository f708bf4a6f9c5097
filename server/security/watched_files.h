// WatchedFiles: a value read from files that may change while the server runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/core/status_macros.h"
#include "server/security/digest.h"
#include "server/security/read_file.h"
#include "spdlog/spdlog.h"

namespace factord {

// Files that make no sense, once it was opened, leave the value as it was, and are told of in the
// log, once. It goes by what is in the files, not by their times: a second write within a clock
// tick is seen too. Thread-safe; Refresh from one thread at a time.
template <typename Value>
class WatchedFiles {
 public:
  // An error is a sentence that names the flag and the file.
  using Parse = std::function<absl::StatusOr<Value>(const std::vector<FileText>& files)>;

  static absl::StatusOr<std::shared_ptr<WatchedFiles>> Open(std::vector<FlagFile> files,
                                                            Parse parse) {
    ASSIGN_OR_RETURN(const std::vector<FileText> texts, ReadFiles(files));
    ASSIGN_OR_RETURN(Value value, parse(texts));
    std::shared_ptr<WatchedFiles> watched(new WatchedFiles(std::move(files), std::move(parse)));
    watched->seen_ = DigestOf(texts);
    watched->Set(std::move(value));
    return watched;
  }

  std::shared_ptr<const Value> value() const {
    absl::MutexLock lock(&mutex_);
    return value_;
  }

  // Reads the files again.
  void Refresh() {
    const absl::StatusOr<std::vector<FileText>> texts = ReadFiles(files_);
    const Digest seen = texts.ok() ? DigestOf(*texts) : factord::DigestOf(texts.status().message());
    if (seen == seen_) return;
    seen_ = seen;
    absl::StatusOr<Value> fresh = texts.ok() ? parse_(*texts) : texts.status();
    if (!fresh.ok()) {
      spdlog::error("{}; what was read before stays in use", std::string(fresh.status().message()));
      return;
    }
    Set(*std::move(fresh));
    for (const FlagFile& file : files_) spdlog::info("{}: {} was read anew", file.flag, file.path);
  }

 private:
  WatchedFiles(std::vector<FlagFile> files, Parse parse)
      : files_(std::move(files)), parse_(std::move(parse)) {}

  static Digest DigestOf(const std::vector<FileText>& texts) {
    std::string digests;
    for (const FileText& text : texts) {
      const Digest digest = factord::DigestOf(text.text);
      digests.append(digest.begin(), digest.end());
    }
    return factord::DigestOf(digests);
  }

  void Set(Value value) {
    auto shared = std::make_shared<const Value>(std::move(value));
    absl::MutexLock lock(&mutex_);
    value_.swap(shared);
  }

  const std::vector<FlagFile> files_;
  const Parse parse_;
  Digest seen_;  // of the files as last read, or of what was in the way

  mutable absl::Mutex mutex_;
  std::shared_ptr<const Value> value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace factord

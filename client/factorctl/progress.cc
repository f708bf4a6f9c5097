#include "client/factorctl/progress.h"

#include <algorithm>
#include <string>

namespace factord::client {
namespace {

constexpr int kWidth = 40;

}  // namespace

Progress::~Progress() {
  if (percent_ >= 0) err_ << "\r\x1b[K" << std::flush;
}

void Progress::Update(int64_t done, int64_t total) {
  if (!enabled_ || total <= 0) return;
  const double ratio = static_cast<double>(done) / static_cast<double>(total);
  const int64_t percent = std::clamp<int64_t>(static_cast<int64_t>(100 * ratio), 0, 100);
  if (percent == percent_) return;
  percent_ = percent;
  const size_t filled = static_cast<size_t>(percent * kWidth / 100);
  err_ << "\r[" << std::string(filled, '#') << std::string(kWidth - filled, ' ') << "] " << percent
       << "%" << std::flush;
}

}  // namespace factord::client

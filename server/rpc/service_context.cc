#include "server/rpc/service_context.h"

namespace factord {

void ServiceContext::CallStarted() {
  absl::MutexLock lock(&mutex_);
  ++calls_;
}

void ServiceContext::CallEnded() {
  absl::MutexLock lock(&mutex_);
  --calls_;
}

bool ServiceContext::WaitForCalls(absl::Time deadline) {
  const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return calls_ == 0; };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(absl::Condition(&none), deadline);
}

}  // namespace factord

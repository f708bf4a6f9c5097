#include "server/rpc/service_context.h"

namespace factord {

void ServiceContext::CallStarted() {
  absl::MutexLock lock(&mutex_);
  ++calls_;
}

void ServiceContext::CallEnded() {
  absl::MutexLock lock(&mutex_);
  if (--calls_ == 0) no_calls_.SignalAll();
}

bool ServiceContext::WaitForCalls(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  while (calls_ > 0) {
    if (no_calls_.WaitWithDeadline(&mutex_, deadline)) break;
  }
  return calls_ == 0;
}

}  // namespace factord

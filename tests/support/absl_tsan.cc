// Tells ThreadSanitizer what Abseil's locks order. Debian's Abseil is built without it, so that
// every access under an absl::Mutex would look like a race. In ThreadSanitizer builds every
// executable links this file: its definitions come before the libraries' own, for factord's calls
// and for those of libgrpc, libgpr and Abseil itself.
//
// A function of Abseil that is not here orders nothing in ThreadSanitizer's eyes: it can cost a
// false report, never a missed one.
#include <sanitizer/tsan_interface.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/support/next_definition.h"

namespace {

// Abseil's own function of this mangled name, less the namespace; "_ZNK": a const member.
template <typename Function>
Function* Real(const char* name, const char* kind = "_ZN") {
  return factord::NextDefinition<Function>(std::string(kind) + "4absl7debian3" + name);
}

}  // namespace

namespace absl {

Mutex::~Mutex() {
  static const auto real = Real<void(Mutex*)>("5MutexD1Ev");
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
  real(this);
}

void Mutex::Lock() {
  static const auto real = Real<void(Mutex*)>("5Mutex4LockEv");
  __tsan_mutex_pre_lock(this, 0);
  real(this);
  __tsan_mutex_post_lock(this, 0, 0);
}

void Mutex::Unlock() {
  static const auto real = Real<void(Mutex*)>("5Mutex6UnlockEv");
  __tsan_mutex_pre_unlock(this, 0);
  real(this);
  __tsan_mutex_post_unlock(this, 0);
}

bool Mutex::TryLock() {
  static const auto real = Real<bool(Mutex*)>("5Mutex7TryLockEv");
  __tsan_mutex_pre_lock(this, __tsan_mutex_try_lock);
  const bool locked = real(this);
  __tsan_mutex_post_lock(
      this, locked ? __tsan_mutex_try_lock : __tsan_mutex_try_lock | __tsan_mutex_try_lock_failed,
      0);
  return locked;
}

void Mutex::ReaderLock() {
  static const auto real = Real<void(Mutex*)>("5Mutex10ReaderLockEv");
  __tsan_mutex_pre_lock(this, __tsan_mutex_read_lock);
  real(this);
  __tsan_mutex_post_lock(this, __tsan_mutex_read_lock, 0);
}

void Mutex::ReaderUnlock() {
  static const auto real = Real<void(Mutex*)>("5Mutex12ReaderUnlockEv");
  __tsan_mutex_pre_unlock(this, __tsan_mutex_read_lock);
  real(this);
  __tsan_mutex_post_unlock(this, __tsan_mutex_read_lock);
}

// Notification waits with these two.
void Mutex::LockWhen(const Condition& condition) {
  static const auto real =
      Real<void(Mutex*, const Condition&)>("5Mutex8LockWhenERKNS0_9ConditionE");
  __tsan_mutex_pre_lock(this, 0);
  real(this, condition);
  __tsan_mutex_post_lock(this, 0, 0);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static const auto real = Real<bool(Mutex*, const Condition&, Time)>(
      "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  __tsan_mutex_pre_lock(this, 0);
  const bool held = real(this, condition, deadline);
  __tsan_mutex_post_lock(this, 0, 0);
  return held;
}

// Every wait, with a deadline or without, comes through here.
bool CondVar::WaitCommon(Mutex* mutex, synchronization_internal::KernelTimeout timeout) {
  static const auto real = Real<bool(CondVar*, Mutex*, synchronization_internal::KernelTimeout)>(
      "7CondVar10WaitCommonEPNS0_5MutexENS0_24synchronization_internal13KernelTimeoutE");
  __tsan_mutex_pre_unlock(mutex, 0);
  __tsan_mutex_post_unlock(mutex, 0);
  const bool timed_out = real(this, mutex, timeout);
  __tsan_mutex_pre_lock(mutex, 0);
  __tsan_mutex_post_lock(mutex, 0, 0);
  return timed_out;
}

// Its flag is written in the library, and read there without the lock, or here by
// HasBeenNotified().
void Notification::Notify() {
  static const auto real = Real<void(Notification*)>("12Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  real(this);
}

void Notification::WaitForNotification() const {
  static const auto real =
      Real<void(const Notification*)>("12Notification19WaitForNotificationEv", "_ZNK");
  real(this);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto real = Real<bool(const Notification*, Duration)>(
      "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE", "_ZNK");
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

// A Status's last owner, which may be the library, deletes it.
void Status::UnrefNonInlined(std::uintptr_t rep) {
  static const auto real = Real<void(std::uintptr_t)>("6Status15UnrefNonInlinedEm");
  __tsan_release(reinterpret_cast<void*>(rep));
  __tsan_acquire(reinterpret_cast<void*>(rep));
  real(rep);
}

}  // namespace absl

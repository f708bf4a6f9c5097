// Tells ThreadSanitizer what Abseil's locks order. Debian's Abseil is built without it, so that
// every access under an absl::Mutex would look like a race. Linked with --wrap for each of these
// symbols, in ThreadSanitizer builds only.
#include <cstdint>

#if !defined(__SANITIZE_THREAD__)
#error "for ThreadSanitizer builds only"
#endif

extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);

#define FACTORD_REAL(name) __real__ZN4absl7debian3##name
#define FACTORD_WRAP(name) __wrap__ZN4absl7debian3##name

// Takes the lock, or waits for the notification.
#define FACTORD_ACQUIRES(name)          \
  void FACTORD_REAL(name)(void* self);  \
  void FACTORD_WRAP(name)(void* self) { \
    FACTORD_REAL(name)(self);           \
    __tsan_acquire(self);               \
  }
#define FACTORD_RELEASES(name)          \
  void FACTORD_REAL(name)(void* self);  \
  void FACTORD_WRAP(name)(void* self) { \
    __tsan_release(self);               \
    FACTORD_REAL(name)(self);           \
  }

FACTORD_ACQUIRES(5Mutex4LockEv)
FACTORD_RELEASES(5Mutex6UnlockEv)
FACTORD_RELEASES(12Notification6NotifyEv)

void FACTORD_REAL(7CondVar4WaitEPNS0_5MutexE)(void* self, void* mutex);
void FACTORD_WRAP(7CondVar4WaitEPNS0_5MutexE)(void* self, void* mutex) {
  __tsan_release(mutex);
  FACTORD_REAL(7CondVar4WaitEPNS0_5MutexE)(self, mutex);
  __tsan_acquire(mutex);
}

// absl::Duration and absl::Time are passed in two registers, as this is.
struct TwoWords {
  std::int64_t high;
  std::uint32_t low;
};

bool FACTORD_REAL(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(void*, void*, TwoWords);
bool FACTORD_WRAP(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(void* self, void* mutex,
                                                                        TwoWords timeout) {
  __tsan_release(mutex);
  const bool timed_out =
      FACTORD_REAL(7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE)(self, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}

bool FACTORD_REAL(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(void*, void*, TwoWords);
bool FACTORD_WRAP(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(void* self, void* mutex,
                                                                     TwoWords deadline) {
  __tsan_release(mutex);
  const bool timed_out =
      FACTORD_REAL(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(self, mutex, deadline);
  __tsan_acquire(mutex);
  return timed_out;
}

void __real__ZNK4absl7debian312Notification19WaitForNotificationEv(void*);
void __wrap__ZNK4absl7debian312Notification19WaitForNotificationEv(void* self) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(self);
  __tsan_acquire(self);
}

bool __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
    void*, TwoWords);
bool __wrap__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
    void* self, TwoWords timeout) {
  const bool notified =
      __real__ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE(
          self, timeout);
  __tsan_acquire(self);
  return notified;
}

// A Status's last owner deletes it.
void __real__ZN4absl7debian36Status15UnrefNonInlinedEm(std::uintptr_t);
void __wrap__ZN4absl7debian36Status15UnrefNonInlinedEm(std::uintptr_t rep) {
  __tsan_release(reinterpret_cast<void*>(rep));
  __tsan_acquire(reinterpret_cast<void*>(rep));
  __real__ZN4absl7debian36Status15UnrefNonInlinedEm(rep);
}
}

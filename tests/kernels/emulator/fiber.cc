#include "fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "emulator.h"
#include "sanitizers.h"

#ifndef EMULATOR_USES_UCONTEXT
// void emulator_switch_stack(void** save, void* load): what a called function must preserve goes
// onto the old stack and comes from the new one.
extern "C" void emulator_switch_stack(void** save, void* load);
asm(R"(
.text
.globl emulator_switch_stack
.type emulator_switch_stack, @function
emulator_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch_stack, .-emulator_switch_stack
)");
#endif

namespace emulator {
namespace {

constexpr std::size_t kStackBytes = (kAddressSanitizer || kThreadSanitizer ? 256 : 128) << 10;
constexpr std::uint64_t kCanary = 0x5ca1ab1e0ddba11;

std::byte* MapStack() {
  void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) {
    std::perror("emulator: no memory for another CUDA thread's stack");
    std::abort();
  }
  return static_cast<std::byte*>(stack);
}

// Stacks of finished fibers. Not for ThreadSanitizer, which must not take a stack's next owner for
// its last.
class StackPool {
 public:
  std::byte* Take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return MapStack();
    std::byte* const stack = free_.back();
    free_.pop_back();
    return stack;
  }
  void Return(std::byte* stack) {
    if (kThreadSanitizer) {
      munmap(stack, kStackBytes);
      return;
    }
    const std::lock_guard lock(mutex_);
    free_.push_back(stack);
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

StackPool& Stacks() {
  static StackPool* const pool = new StackPool;  // never destroyed
  return *pool;
}

}  // namespace

void AdoptThread(Fiber& fiber) {
#ifdef EMULATOR_ASAN
  pthread_attr_t attributes;
  void* stack = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &stack, &fiber.stack_bytes);
  pthread_attr_destroy(&attributes);
  fiber.stack = static_cast<std::byte*>(stack);
#endif
#ifdef EMULATOR_TSAN
  fiber.thread_sanitizer = __tsan_get_current_fiber();
#endif
  (void)fiber;
}

void StartFiber(Fiber& fiber, void (*entry)()) {
  fiber.stack = Stacks().Take();
  fiber.stack_bytes = kStackBytes;
  std::memcpy(fiber.stack, &kCanary, sizeof kCanary);
#ifdef EMULATOR_TSAN
  fiber.thread_sanitizer = __tsan_create_fiber(0);
#endif
#ifdef EMULATOR_USES_UCONTEXT
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack;
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#else
  // From the top: where entry would return to, entry, six registers.
  void** const top = reinterpret_cast<void**>(fiber.stack + kStackBytes);
  std::memset(top - 8, 0, 8 * sizeof(void*));
  top[-2] = reinterpret_cast<void*>(entry);
  fiber.stack_pointer = top - 8;
#endif
}

void FiberEntered() {
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

bool FinishFiber(Fiber& fiber) {
  std::uint64_t canary;
  std::memcpy(&canary, fiber.stack, sizeof canary);
#ifdef EMULATOR_TSAN
  __tsan_destroy_fiber(fiber.thread_sanitizer);
#endif
#ifdef EMULATOR_ASAN
  __asan_unpoison_memory_region(fiber.stack, kStackBytes);
#endif
  Stacks().Return(fiber.stack);
  return canary == kCanary;
}

EMULATOR_NO_TSAN void SwitchFiber(Fiber& from, Fiber& to, [[maybe_unused]] bool last) {
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.stack, to.stack_bytes);
#endif
#ifdef EMULATOR_TSAN
  // Lanes of a warp are not ordered by taking turns.
  __tsan_switch_to_fiber(to.thread_sanitizer, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef EMULATOR_USES_UCONTEXT
  swapcontext(&from.context, &to.context);
#else
  emulator_switch_stack(&from.stack_pointer, to.stack_pointer);
#endif
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

}  // namespace emulator

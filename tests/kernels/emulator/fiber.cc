#include "fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

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

// The first word of `memory` says that it has not overflowed. ThreadSanitizer: together with the
// thread that stands for its fibers, so that their accesses to it are one thread's.
struct Stack {
  static constexpr std::size_t kBytes =
      std::size_t{kAddressSanitizer || kThreadSanitizer ? 256 : 128} << 10;
  static constexpr std::uint64_t kCanary = 0x5ca1ab1e0ddba11;

  std::uint64_t* memory;
  void* thread;
  Stack* next;  // in the pool
};

namespace {

// The stacks of finished fibers. ThreadSanitizer takes the next owner of a stack for its last one,
// with all that one knew; so a stack rests until kRest others have been returned. It must not see
// the pool, which would order all who use it.
class StackPool {
 public:
  EMULATOR_NO_TSAN Stack* Take() {  // null: make another one
    Lock();
    Stack* const stack = size_ > kRest ? first_ : nullptr;
    if (stack != nullptr) {
      first_ = stack->next;
      --size_;
    }
    Unlock();
    return stack;
  }
  EMULATOR_NO_TSAN void Return(Stack* stack) {
    Lock();
    stack->next = nullptr;
    (size_ == 0 ? first_ : last_->next) = stack;
    last_ = stack;
    ++size_;
    Unlock();
  }

 private:
  static constexpr int kRest = kThreadSanitizer ? 1024 : 0;

  EMULATOR_NO_TSAN void Lock() {
    while (__atomic_test_and_set(&locked_, __ATOMIC_ACQUIRE)) {
    }
  }
  EMULATOR_NO_TSAN void Unlock() { __atomic_clear(&locked_, __ATOMIC_RELEASE); }

  bool locked_ = false;
  int size_ = 0;
  Stack* first_ = nullptr;
  Stack* last_ = nullptr;
};
constinit StackPool stack_pool;

Stack* NewStack() {
  void* const memory = mmap(nullptr, Stack::kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulator: no memory for another CUDA thread's stack");
    std::abort();
  }
  auto* const stack = new Stack{static_cast<std::uint64_t*>(memory), nullptr, nullptr};
#ifdef EMULATOR_TSAN
  stack->thread = __tsan_create_fiber(0);
#endif
  return stack;
}

}  // namespace

void AdoptThread([[maybe_unused]] Fiber& fiber) {
#ifdef EMULATOR_ASAN
  pthread_attr_t attributes;
  void* lowest = nullptr;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstack(&attributes, &lowest, &fiber.bytes);
  pthread_attr_destroy(&attributes);
  fiber.lowest = lowest;
#endif
#ifdef EMULATOR_TSAN
  fiber.thread = __tsan_get_current_fiber();
#endif
}

EMULATOR_NO_TSAN void StartFiber(Fiber& fiber, void (*entry)()) {
  Stack* stack = stack_pool.Take();
  if (stack == nullptr) stack = NewStack();
  stack->memory[0] = Stack::kCanary;
  fiber.own_stack = stack;
  fiber.lowest = stack->memory;
  fiber.bytes = Stack::kBytes;
  fiber.thread = stack->thread;
  TsanRelease(&fiber);
#ifdef EMULATOR_USES_UCONTEXT
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack->memory;
  fiber.context.uc_stack.ss_size = Stack::kBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#else
  // From the top: where entry would return to, entry, six registers.
  std::uint64_t* const top = stack->memory + Stack::kBytes / sizeof(std::uint64_t);
  for (int i = 1; i <= 8; ++i) top[-i] = 0;
  top[-2] = reinterpret_cast<std::uint64_t>(entry);
  fiber.stack_pointer = top - 8;
#endif
}

EMULATOR_NO_TSAN void FiberEntered(Fiber& fiber) {
#ifdef EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  TsanAcquire(&fiber);  // what came before StartFiber
}

EMULATOR_NO_TSAN bool FinishFiber(Fiber& fiber) {
  TsanAcquire(&fiber);
#ifdef EMULATOR_ASAN
  __asan_unpoison_memory_region(fiber.lowest, fiber.bytes);
#endif
  const bool intact = fiber.own_stack->memory[0] == Stack::kCanary;
  stack_pool.Return(fiber.own_stack);
  return intact;
}

EMULATOR_NO_TSAN void SwitchFiber(Fiber& from, Fiber& to, [[maybe_unused]] bool last) {
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.lowest, to.bytes);
#endif
#ifdef EMULATOR_TSAN
  // Lanes of a warp are not ordered by taking turns. What a fiber did comes before FinishFiber.
  if (last) TsanRelease(&from);
  __tsan_switch_to_fiber(to.thread, __tsan_switch_to_fiber_no_sync);
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

#include "fiber.h"

#include <pthread.h>
#include <sched.h>
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

// ThreadSanitizer: together with the threads that stand for its fibers, so that it sees a stack's
// memory in the hands of one thread only.
struct StackSet {
  static constexpr std::size_t kBytes =  // of a stack
      std::size_t{kAddressSanitizer || kThreadSanitizer ? 256 : 128} << 10;
  static constexpr std::uint64_t kCanary = 0x5ca1ab1e0ddba11;  // at the lowest address

  EMULATOR_NO_TSAN std::uint64_t* Lowest(int number) const {
    return memory + static_cast<std::size_t>(number) * (kBytes / sizeof(std::uint64_t));
  }

  std::uint64_t* memory = nullptr;
  bool one_thread = false;
  int used = 0;
  void* threads[kStacks] = {};
  StackSet* next = nullptr;  // in the pool
};

namespace {

// The sets that wait to be used again. ThreadSanitizer takes the next owner of a set for its last
// one, with all that one knew; so a set rests until some others have been returned. It must not see
// the pool, which would order all who use it.
class StackPool {
 public:
  explicit constexpr StackPool(int resting) : resting_(resting) {}

  EMULATOR_NO_TSAN StackSet* Take() {  // null: make another one
    Lock();
    StackSet* const stacks = size_ > resting_ ? first_ : nullptr;
    if (stacks != nullptr) {
      first_ = stacks->next;
      --size_;
    }
    Unlock();
    return stacks;
  }
  EMULATOR_NO_TSAN void Return(StackSet* stacks) {
    Lock();
    stacks->next = nullptr;
    (size_ == 0 ? first_ : last_->next) = stacks;
    last_ = stacks;
    ++size_;
    Unlock();
  }

 private:
  EMULATOR_NO_TSAN void Lock() {
    while (__atomic_test_and_set(&locked_, __ATOMIC_ACQUIRE)) sched_yield();
  }
  EMULATOR_NO_TSAN void Unlock() { __atomic_clear(&locked_, __ATOMIC_RELEASE); }

  const int resting_;
  bool locked_ = false;
  int size_ = 0;
  StackSet* first_ = nullptr;
  StackSet* last_ = nullptr;
};
constinit StackPool pool(kThreadSanitizer ? 32 : 0);
constinit StackPool one_thread_pool(kThreadSanitizer ? 256 : 0);

StackSet* NewStacks(bool one_thread) {
  void* const memory = mmap(nullptr, kStacks * StackSet::kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulator: no memory for the stacks of another warp");
    std::abort();
  }
  return new StackSet{.memory = static_cast<std::uint64_t*>(memory), .one_thread = one_thread};
}

}  // namespace

EMULATOR_NO_TSAN StackSet* TakeStacks(bool one_thread) {
  StackSet* stacks = (one_thread ? one_thread_pool : pool).Take();
  if (stacks == nullptr) stacks = NewStacks(one_thread);
  stacks->used = 0;
  return stacks;
}

EMULATOR_NO_TSAN bool ReturnStacks(StackSet* stacks) {
#ifdef EMULATOR_ASAN
  __asan_unpoison_memory_region(stacks->memory, kStacks * StackSet::kBytes);
#endif
  bool intact = true;
  for (int i = 0; i < stacks->used; ++i) intact &= *stacks->Lowest(i) == StackSet::kCanary;
  (stacks->one_thread ? one_thread_pool : pool).Return(stacks);
  return intact;
}

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

EMULATOR_NO_TSAN void StartFiber(Fiber& fiber, StackSet& stacks, int number, void (*entry)()) {
  std::uint64_t* const lowest = stacks.Lowest(number);
  *lowest = StackSet::kCanary;
  if (stacks.used <= number) stacks.used = number + 1;
  fiber.lowest = lowest;
  fiber.bytes = StackSet::kBytes;
#ifdef EMULATOR_TSAN
  void*& thread = stacks.threads[stacks.one_thread ? 0 : number];
  if (thread == nullptr) thread = __tsan_create_fiber(0);
  fiber.thread = thread;
#endif
  TsanRelease(&fiber);
#ifdef EMULATOR_USES_UCONTEXT
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = lowest;
  fiber.context.uc_stack.ss_size = StackSet::kBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
#else
  // From the top: where entry would return to, entry, six registers.
  std::uint64_t* const top = stacks.Lowest(number + 1);
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

EMULATOR_NO_TSAN void FinishFiber(Fiber& fiber) { TsanAcquire(&fiber); }

EMULATOR_NO_TSAN void SwitchFiber(Fiber& from, Fiber& to, [[maybe_unused]] bool last) {
#ifdef EMULATOR_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.lowest, to.bytes);
#endif
#ifdef EMULATOR_TSAN
  // Lanes of a warp are not ordered by taking turns.
  if (last) TsanRelease(&from);
  if (to.thread != from.thread) {
    __tsan_switch_to_fiber(to.thread, __tsan_switch_to_fiber_no_sync);
  }
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

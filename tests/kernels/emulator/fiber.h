// Fibers: many stacks that take turns on one OS thread. A fiber stays on the OS thread that first
// runs it.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(EMULATOR_UCONTEXT)
#define EMULATOR_USES_UCONTEXT
#include <ucontext.h>
#endif

namespace emulator {

// The stacks of the fibers of a warp; they are used again.
struct StackSet;
inline constexpr int kStacks = 32;  // of a set

// `one_thread`: ThreadSanitizer sees a set's fibers as one thread, otherwise as a thread each.
StackSet* TakeStacks(bool one_thread);
// Once none of its fibers runs. False where a stack overflowed.
bool ReturnStacks(StackSet* stacks);

struct Fiber {
#ifdef EMULATOR_USES_UCONTEXT
  ucontext_t context;
#else
  void* stack_pointer = nullptr;  // while it doesn't run
#endif
  // What the sanitizers know it by.
  const void* lowest = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
  void* thread = nullptr;
};

// The calling OS thread's own stack as a fiber, to come back to.
void AdoptThread(Fiber& fiber);

// On stack `number` of the set; `entry` begins at the first switch to it, first calls FiberEntered
// and never returns.
void StartFiber(Fiber& fiber, StackSet& stacks, int number, void (*entry)());
void FiberEntered(Fiber& fiber);
// After the last switch from it: what it did comes before what follows.
void FinishFiber(Fiber& fiber);

// `last`: `from` is never switched to again.
void SwitchFiber(Fiber& from, Fiber& to, bool last = false);

}  // namespace emulator

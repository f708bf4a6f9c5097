// Fibers: many stacks that take turns on one OS thread. A fiber stays on the OS thread that first
// runs it.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(EMULATOR_UCONTEXT)
#define EMULATOR_USES_UCONTEXT
#include <ucontext.h>
#endif

namespace emulator {

struct Stack;  // of a fiber; it is used again

struct Fiber {
#ifdef EMULATOR_USES_UCONTEXT
  ucontext_t context;
#else
  void* stack_pointer = nullptr;  // while it doesn't run
#endif
  Stack* own_stack = nullptr;
  // What the sanitizers know it by.
  const void* lowest = nullptr;
  std::size_t bytes = 0;
  void* fake_stack = nullptr;
  void* thread = nullptr;
};

// The calling OS thread's own stack as a fiber, to come back to.
void AdoptThread(Fiber& fiber);

// With a stack of its own; `entry` begins at the first switch to it, first calls FiberEntered and
// never returns.
void StartFiber(Fiber& fiber, void (*entry)());
void FiberEntered(Fiber& fiber);

// After its last switch. False where its stack overflowed.
bool FinishFiber(Fiber& fiber);

// `last`: `from` is never switched to again.
void SwitchFiber(Fiber& from, Fiber& to, bool last = false);

}  // namespace emulator

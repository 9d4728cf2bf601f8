// A thread of execution that runs until it hands over to another, on a stack of its own.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

struct Fiber {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

// `fiber` begins with `entry`, which must not return, when it is first switched to.
void begin(Fiber& fiber, unsigned char* stack, std::size_t bytes, void (*entry)());
void switch_to(Fiber& from, Fiber& to);

}  // namespace emulator

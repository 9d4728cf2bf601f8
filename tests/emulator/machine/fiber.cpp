#include "machine/fiber.h"

#include <cstdint>

#if defined(__x86_64__)

// What the calling convention keeps for the caller; a switch of ucontext would ask the kernel for the signal mask.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.globl emulator_switch
.type emulator_switch,@function
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulator_switch,.-emulator_switch
)");

namespace emulator {

void begin(Fiber& fiber, unsigned char* stack, std::size_t bytes, void (*entry)()) {
  constexpr int kKept = 6;
  void** top = reinterpret_cast<void**>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15});
  *--top = nullptr;  // the return address of `entry`: the stack is aligned as after a call
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kKept; ++i) *--top = nullptr;
  fiber.stack_pointer = top;
}

void switch_to(Fiber& from, Fiber& to) { emulator_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace emulator

#else

namespace emulator {

void begin(Fiber& fiber, unsigned char* stack, std::size_t bytes, void (*entry)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}

void switch_to(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

}  // namespace emulator

#endif

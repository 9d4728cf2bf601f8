#include "ops/torch_error.h"

// Part of the stable ABI from torch 2.13 on, hence absent from the 2.10 that this library is built for: a weak
// reference.
extern "C" __attribute__((weak)) const char* torch_exception_get_what_without_backtrace();

namespace convt3d {

std::string torch_error() {
  return torch_exception_get_what_without_backtrace ? torch_exception_get_what_without_backtrace() : "";
}

}  // namespace convt3d

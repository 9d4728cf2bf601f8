// Numbers of kernels and devices, from several threads at once.
#include <array>
#include <cstdio>
#include <set>
#include <thread>
#include <vector>

#include "device/kernel_memo.h"

int main() {
  constexpr int kThreads = 4;
  constexpr int kKernels = 1000;  // more than it has buckets
  constexpr int kDevices = 3;
  static convt3d::KernelMemo memo;
  static std::array<char, 16 * kKernels> kernels;
  const auto number = [&](int i) -> std::atomic<int64_t>& {
    return memo.of(&kernels[static_cast<size_t>(16 * (i % kKernels))], i / kKernels % kDevices);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kKernels * kDevices; ++i) number(7 * i + t).fetch_add(3);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<const void*> numbers;
  bool right = true;
  for (int i = 0; i < kKernels * kDevices; ++i) {
    numbers.insert(&number(i));
    right = right && number(i) == 3 * kThreads;
  }
  right = right && numbers.size() == kKernels * kDevices;
  if (!right) std::printf("not so: each kernel has one number on each device, which all threads see\n");
  return right ? 0 : 1;
}

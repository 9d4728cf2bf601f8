// Small correct kernels that synchronise and copy as those of the engines do, for what compute-sanitizer says of them:
//
//     nvcc -arch=native -o sanitizer_limits scripts/sanitizer_limits.cu
//     compute-sanitizer --tool memcheck ./sanitizer_limits tail
//     compute-sanitizer --tool racecheck ./sanitizer_limits named
//
// and with racecheck `warps` and `copies`. In `tail` cp.async reads 4 of 16 bytes at the end of an allocation and fills
// the rest with zeros. In the others one warp writes two stages of shared memory in turns and another reads them: in
// order by barrier.arrive and barrier.sync (`named`), by an mbarrier where one lane arrives for its warp (`warps`), or
// where every copy of a lane arrives by itself (`copies`).
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kSteps = 8;

__device__ uint32_t address_of(const void* shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(shared)); }

__device__ void copy(void* to, const void* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address_of(to)), "l"(from), "r"(bytes) : "memory");
}

__global__ void tail(const unsigned char* source, uint32_t* result) {
  __shared__ alignas(16) uint32_t shared[4];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address_of(shared)), "l"(source), "r"(4));
  asm volatile("cp.async.wait_all;" ::: "memory");
  for (int i = 0; i < 4; ++i) result[i] = shared[i];
}

__global__ void named(uint32_t* result) {
  __shared__ uint32_t shared[2][32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  uint32_t sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    const int stage = step % 2;
    if (threadIdx.x < 32) {
      if (step >= 2) asm volatile("barrier.sync %0, 64;" ::"r"(3 + stage) : "memory");
      shared[stage][lane] = step + lane;
      asm volatile("barrier.arrive %0, 64;" ::"r"(1 + stage) : "memory");
    } else {
      asm volatile("barrier.sync %0, 64;" ::"r"(1 + stage) : "memory");
      sum += shared[stage][31 - lane];
      if (step + 2 < kSteps) asm volatile("barrier.arrive %0, 64;" ::"r"(3 + stage) : "memory");
    }
  }
  if (threadIdx.x >= 32) result[lane] = sum;
}

__device__ void arrive(uint64_t* barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(address_of(barrier)) : "memory");
}
__device__ void arrive_copied(uint64_t* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address_of(barrier)) : "memory");
}
__device__ void wait(uint64_t* barrier, int parity) {
  asm volatile(
      "{\n.reg .pred done;\nwait:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@!done bra wait;\n}\n" ::"r"(
          address_of(barrier)),
      "r"(parity)
      : "memory");
}

template <bool kCopies>
__global__ void stages(const uint32_t* source, uint32_t* result) {
  __shared__ uint32_t shared[2][32];
  __shared__ uint64_t full[2];
  __shared__ uint64_t empty[2];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address_of(&full[i])), "r"(kCopies ? 32 : 1));
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address_of(&empty[i])), "r"(1));
    }
  }
  __syncthreads();
  uint32_t sum = 0;
  for (int step = 0; step < kSteps; ++step) {
    const int stage = step % 2;
    const int parity = step / 2 % 2;
    if (threadIdx.x < 32) {
      wait(&empty[stage], parity ^ 1);
      if (kCopies) {
        copy(&shared[stage][lane], source + lane, 4);
        arrive_copied(&full[stage]);
      } else {
        shared[stage][lane] = step + lane;
        __syncwarp();
        if (lane == 0) arrive(&full[stage]);
      }
    } else {
      wait(&full[stage], parity);
      sum += shared[stage][31 - lane];
      __syncwarp();
      if (lane == 0) arrive(&empty[stage]);
    }
  }
  if (threadIdx.x >= 32) result[lane] = sum;
}

}  // namespace

int main(int count, char** arguments) {
  const char* const name = count > 1 ? arguments[1] : "";
  constexpr int kBytes = 180;  // 11 times 16, and 4
  unsigned char* source = nullptr;
  uint32_t* result = nullptr;
  cudaMalloc(&source, kBytes);
  cudaMalloc(&result, 32 * sizeof(uint32_t));
  cudaMemset(source, 1, kBytes);
  if (std::strcmp(name, "tail") == 0) {
    tail<<<1, 1>>>(source + kBytes - 4, result);
  } else if (std::strcmp(name, "named") == 0) {
    named<<<1, 64>>>(result);
  } else if (std::strcmp(name, "warps") == 0) {
    stages<false><<<1, 64>>>(reinterpret_cast<uint32_t*>(source), result);
  } else if (std::strcmp(name, "copies") == 0) {
    stages<true><<<1, 64>>>(reinterpret_cast<uint32_t*>(source), result);
  } else {
    std::fprintf(stderr, "sanitizer_limits: the argument must be tail, named, warps or copies, got \"%s\"\n", name);
    return 2;
  }
  uint32_t values[4] = {};
  const cudaError_t error = cudaMemcpy(values, result, sizeof(values), cudaMemcpyDeviceToHost);
  std::printf("%s: %s, %x %x %x %x\n", name, cudaGetErrorString(error), values[0], values[1], values[2], values[3]);
  return error == cudaSuccess ? 0 : 1;
}

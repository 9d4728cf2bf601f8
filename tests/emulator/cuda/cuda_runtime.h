// Stands in for CUDA's header where kernels run on a CPU: its words, its intrinsics, and the runtime's functions as far
// as csrc/ uses them. The device is the emulator's (tests/emulator/machine).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "machine/machine.h"

#define __device__
#define __global__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
// The device of the emulator is one of compute capability 9.0, with machine code of 9.0a.
#define __CUDA_ARCH_FEAT_SM90_ALL 1

struct Index3 {
  unsigned x, y, z;
};
extern Index3 threadIdx;
extern Index3 blockIdx;
extern Index3 blockDim;
extern Index3 gridDim;

struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(16) int4 {
  int32_t x, y, z, w;
};

using std::fma;
using std::max;
using std::min;

template <typename T>
inline T __ldg(const T* pointer) {
  emulator::check_read(pointer, sizeof(T), alignof(T));
  T value;
  std::memcpy(&value, pointer, sizeof(T));
  return value;
}

template <typename T>
inline T __shfl_sync(unsigned, T value, int lane) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  return static_cast<T>(emulator::exchange(static_cast<uint32_t>(value), lane));
}
template <typename T>
inline T __shfl_xor_sync(unsigned, T value, int bits) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  uint32_t word;
  std::memcpy(&word, &value, sizeof(word));
  word = emulator::exchange(word, emulator::lane() ^ bits);
  std::memcpy(&value, &word, sizeof(word));
  return value;
}
inline uint32_t __ballot_sync(unsigned, bool of_lane) { return emulator::vote(of_lane); }
inline uint32_t __reduce_or_sync(unsigned mask, uint32_t value) {
  uint32_t result = 0;
  for (int lane = 0; lane < 32; ++lane) result |= __shfl_sync(mask, value, lane);
  return result;
}
inline void __syncwarp() { emulator::meet_warp("__syncwarp"); }
inline void __syncthreads() { emulator::meet_block(); }
inline void __threadfence() {}

// Blocks run one after another, and threads until they wait.
inline uint32_t atomicAdd(uint32_t* word, uint32_t value) {
  emulator::check_write(word, sizeof(*word), alignof(uint32_t));
  const uint32_t before = *word;
  *word += value;
  return before;
}

// Four of the eight bytes of both words, each named by four bits.
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t result = 0;
  for (int i = 0; i < 4; ++i)
    result |= static_cast<uint32_t>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
  return result;
}
inline uint32_t __umulhi(uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }
inline int __popc(uint32_t value) { return __builtin_popcount(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorLaunchFailure,
  cudaErrorNoKernelImageForDevice,
  cudaErrorInvalidDeviceFunction,
  cudaErrorUnsupportedPtxVersion,
};
using cudaStream_t = void*;

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct cudaDeviceProp {
  char name[256];
  int major;
  int minor;
};
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrL2CacheSize,
  cudaDevAttrMemoryClockRate,
  cudaDevAttrGlobalMemoryBusWidth,
  cudaDevAttrClockRate,
};
struct cudaFuncAttributes {
  int ptxVersion;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
enum { cudaEnableDefault };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function);
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version, int flags,
                                             cudaDriverEntryPointQueryResult* found);

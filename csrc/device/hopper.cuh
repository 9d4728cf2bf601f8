// Hopper's matrix and copy instructions, one PTX instruction a function (PTX ISA: "wgmma", "mbarrier",
// "cp.async.bulk"), and the operands that they take.
#pragma once

#include <cstdint>

#include "device/ptx/barrier.cuh"
#include "device/ptx/bulk_copy.cuh"
#include "device/ptx/global_memory.cuh"
#include "device/ptx/matrices.cuh"
#include "device/ptx/shared_memory.cuh"
#include "device/ptx/threads.cuh"
#include "device/ptx/wgmma.cuh"

namespace convt3d::hopper {

// The warp's number in its block. The compiler sees that all lanes have the same: what depends on it alone takes no
// registers of theirs, and its branches part no lanes.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0); }

// Descriptor of an operand of wgmma in shared memory. Two words, of which only one moves: the compiler would carry from
// it to the other and keep both in a register for each product.
struct MatrixDescriptor {
  uint32_t begin;  // address and k_step, in units of 16 bytes
  uint32_t form;   // row_step, swizzle

  // `step`: in units of 16 bytes; the operand stays in shared memory.
  __device__ __forceinline__ MatrixDescriptor operator+(uint32_t step) const { return {begin + step, form}; }
  __device__ __forceinline__ uint64_t bits() const { return static_cast<uint64_t>(form) << 32 | begin; }
};

// Without swizzle, K contiguous: core matrices of 8 rows x 16 bytes, each 128 contiguous bytes. `k_step`: bytes from a
// core matrix to the next along K; `row_step`: ... along M or N.
__device__ __forceinline__ MatrixDescriptor matrix_descriptor(uint32_t address, uint32_t k_step, uint32_t row_step) {
  return {(address & 0x3FFFF) >> 4 | k_step >> 4 << 16, row_step >> 4};
}

// Rows of 32, 64 or 128 bytes, in the swizzle of that width, 8 of which follow 8 others. With K contiguous a row has
// elements of one column, and the operand may begin at any: the pattern follows the address. With N contiguous a row
// has neighbouring columns of one step along K; `columns_step`: bytes from these columns to the next.
__device__ __forceinline__ MatrixDescriptor swizzled_descriptor(uint32_t address, uint32_t row_bytes,
                                                                uint32_t columns_step = 16) {
  const uint32_t swizzle = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
  MatrixDescriptor result = matrix_descriptor(address, columns_step, 8 * row_bytes);
  result.form |= swizzle << 30;
  return result;
}

}  // namespace convt3d::hopper

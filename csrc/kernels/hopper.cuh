// Hopper's matrix and copy instructions, one PTX instruction a function (PTX ISA: "wgmma", "mbarrier",
// "cp.async.bulk").
#pragma once

#include <cstdint>

namespace convt3d::hopper {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void barrier_init(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}
__device__ __forceinline__ void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ __forceinline__ void barrier_arrive_expect(uint64_t* barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "wait:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra wait;\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Of so many threads of a block, which all come here; barrier 0 is that of the whole block.
template <int kBarrier, int kThreads>
__device__ __forceinline__ void sync_threads() {
  asm volatile("barrier.sync %0, %1;" ::"n"(kBarrier), "n"(kThreads) : "memory");
}

__device__ __forceinline__ void wait_clocks(uint32_t clocks) {
  uint32_t begin;
  uint32_t now;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(begin));
  do {
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
  } while (now - begin < clocks);
}

// The next kernel of the stream may begin, if it was launched to overlap (LaunchOrder), once all blocks have said so.
__device__ __forceinline__ void allow_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
// Until the kernels that this one overlaps are done and what they wrote is visible.
__device__ __forceinline__ void wait_for_predecessors() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Contiguous bytes, a multiple of 16, both addresses aligned to 16; completes on the barrier.
__device__ __forceinline__ void copy_to_shared(void* destination, const void* source, uint32_t bytes,
                                               uint64_t* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(destination)),
               "l"(source), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

// Of the block's warps. The compiler sees that all lanes have the same: what depends on it only takes no registers of
// theirs, and its branches part no lanes.
__device__ __forceinline__ int warp_index() { return __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0); }

// The same value. What follows from it is computed where it is used: the compiler would compute it once, early, and
// keep it in registers that are not left.
__device__ __forceinline__ int computed_here(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// True in one lane of a warp, always the same. The compiler knows that there is no other.
__device__ __forceinline__ bool elect_lane() {
  uint32_t elected;
  asm volatile(
      "{\n"
      ".reg .pred leads;\n"
      "elect.sync _|leads, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, leads;\n"
      "}\n"
      : "=r"(elected));
  return elected != 0;
}

// 16 bytes, or nothing; without a branch.
__device__ __forceinline__ void store_shared(uint32_t address, const uint4& value, bool exists) {
  asm volatile(
      "{\n.reg .pred is;\nsetp.ne.u32 is, %1, 0;\n@is st.shared.v4.u32 [%0], {%2, %3, %4, %5};\n}" ::"r"(address),
      "r"(static_cast<uint32_t>(exists)), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
      : "memory");
}

// 2, 4, 8 or 16 bytes.
template <typename Piece>
__device__ __forceinline__ Piece load_shared(uint32_t address) {
  Piece value;
  if constexpr (sizeof(Piece) == 2) {
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
  } else if constexpr (sizeof(Piece) == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  } else if constexpr (sizeof(Piece) == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(address) : "memory");
  } else {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address)
                 : "memory");
  }
  return value;
}

// Elements that are one piece of 4, 8 or 16 bytes, aligned to it: of ordinary stores the compiler may make several.
template <typename T, int kCount>
__device__ __forceinline__ void store_global(T* to, const T (&values)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kBytes == 4) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(to), "r"(*reinterpret_cast<const uint32_t*>(values)) : "memory");
  } else if constexpr (kBytes == 8) {
    const uint2 piece = *reinterpret_cast<const uint2*>(values);
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(piece.x), "r"(piece.y) : "memory");
  } else {
    static_assert(kBytes == 16);
    const uint4 piece = *reinterpret_cast<const uint4*>(values);
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z),
                 "r"(piece.w)
                 : "memory");
  }
}

struct BoxOrigin {
  int32_t at[5];
};

// A box of a tensor, zero outside it; `map`: a kernel parameter's, made by cuTensorMapEncodeTiled.
__device__ __forceinline__ void copy_box_to_shared(void* destination, const void* map, const BoxOrigin& origin,
                                                   uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(destination)),
      "l"(map), "r"(shared_address(barrier)), "r"(origin.at[0]), "r"(origin.at[1]), "r"(origin.at[2]),
      "r"(origin.at[3]), "r"(origin.at[4])
      : "memory");
}

// The other way, in the background; what lies outside the tensor is not written.
__device__ __forceinline__ void copy_box_to_global(const void* map, const void* source, const BoxOrigin& origin) {
  asm volatile(
      "cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(map),
      "r"(shared_address(source)), "r"(origin.at[0]), "r"(origin.at[1]), "r"(origin.at[2]), "r"(origin.at[3]),
      "r"(origin.at[4])
      : "memory");
}
// A thread's copies to global memory since the last commit become a group.
__device__ __forceinline__ void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// All but the thread's last kPending groups have read their sources.
template <int kPending>
__device__ __forceinline__ void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements, of which a warp holds fragments as mma's accumulators lie, in rows of 16
// bytes of shared memory; lane 8i + r names row r of matrix i.
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&matrix)[4], uint32_t row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
               : "r"(row)
               : "memory");
}
__device__ __forceinline__ void store_matrices(uint32_t row, const uint32_t (&matrix)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(matrix[0]),
               "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
               : "memory");
}
__device__ __forceinline__ void store_matrices_transposed(uint32_t row, const uint32_t (&matrix)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(matrix[0]),
               "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
               : "memory");
}

// Ordinary stores to shared memory become visible to wgmma and to bulk copies.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Of a whole warpgroup: its share of the registers, a multiple of 8 for each thread.
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Descriptor of an operand of wgmma in shared memory. Two words, of which only one moves: the compiler would carry from
// it to the other and keep both in a register for each product.
struct MatrixDescriptor {
  uint32_t place;  // address and k_step, in units of 16 bytes
  uint32_t form;   // row_step, swizzle

  // `step`: in units of 16 bytes; the operand stays in shared memory.
  __device__ __forceinline__ MatrixDescriptor operator+(uint32_t step) const { return {place + step, form}; }
  __device__ __forceinline__ uint64_t bits() const { return static_cast<uint64_t>(form) << 32 | place; }
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

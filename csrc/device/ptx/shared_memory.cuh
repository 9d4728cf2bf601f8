// A block's shared memory: where it is, and loads and stores by address.
#pragma once

#include <cstdint>

namespace convt3d {

// The memory that the launch gave the block.
extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];
// The same memory, where it begins at a multiple of 1024 bytes, as swizzled boxes must.
__device__ __forceinline__ unsigned char* dynamic_shared_memory_of_boxes() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return memory;
}

// What a kernel has of its own: one object of a type in each kernel.
template <typename T>
__device__ __forceinline__ T& static_shared_memory() {
  __shared__ T memory;
  return memory;
}

}  // namespace convt3d

namespace convt3d::hopper {

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
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

__device__ __forceinline__ void store_shared(uint32_t address, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, const uint2& pair) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(pair.x), "r"(pair.y) : "memory");
}
__device__ __forceinline__ void store_shared(uint32_t address, const uint4& four) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(four.x), "r"(four.y), "r"(four.z),
               "r"(four.w)
               : "memory");
}

// 16 bytes, or nothing; without a branch.
__device__ __forceinline__ void store_shared(uint32_t address, const uint4& value, bool exists) {
  asm volatile(
      "{\n.reg .pred is;\nsetp.ne.u32 is, %1, 0;\n@is st.shared.v4.u32 [%0], {%2, %3, %4, %5};\n}" ::"r"(address),
      "r"(static_cast<uint32_t>(exists)), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
      : "memory");
}

// Nothing where `entry` is kNone: a branch would keep the compiler from overlapping the stores.
template <uint32_t kNone>
__device__ __forceinline__ void store_shared_unless(uint32_t address, uint32_t entry, float a) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.f32 [%0], %3;\n}" ::"r"(address), "r"(entry),
               "n"(kNone), "f"(a));
}
template <uint32_t kNone>
__device__ __forceinline__ void store_shared_unless(uint32_t address, uint32_t entry, float a, float b) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.v2.f32 [%0], {%3, %4};\n}" ::"r"(address),
               "r"(entry), "n"(kNone), "f"(a), "f"(b));
}
template <uint32_t kNone>
__device__ __forceinline__ void store_shared_unless(uint32_t address, uint32_t entry, float a, float b, float c,
                                                    float d) {
  asm volatile(
      "{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.v4.f32 [%0], {%3, %4, %5, %6};\n}" ::"r"(address),
      "r"(entry), "n"(kNone), "f"(a), "f"(b), "f"(c), "f"(d));
}
template <uint32_t kNone>
__device__ __forceinline__ void store_shared_unless(uint32_t address, uint32_t entry, uint32_t a) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.u32 [%0], %3;\n}" ::"r"(address), "r"(entry),
               "n"(kNone), "r"(a));
}
template <uint32_t kNone>
__device__ __forceinline__ void store_shared_unless(uint32_t address, uint32_t entry, uint32_t a, uint32_t b) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.v2.u32 [%0], {%3, %4};\n}" ::"r"(address),
               "r"(entry), "n"(kNone), "r"(a), "r"(b));
}

// Neighbours one by one, the i-th where fewer than 4 - i are `missing`; without a branch, too.
__device__ __forceinline__ void store_shared_neighbours(uint32_t address, uint32_t missing, const float (&values)[4]) {
  asm volatile(
      "{\n.reg .pred is<4>;\n"
      "setp.lt.u32 is0, %1, 4;\nsetp.lt.u32 is1, %1, 3;\nsetp.lt.u32 is2, %1, 2;\nsetp.lt.u32 is3, %1, 1;\n"
      "@is0 st.shared.f32 [%0], %2;\n@is1 st.shared.f32 [%0+4], %3;\n"
      "@is2 st.shared.f32 [%0+8], %4;\n@is3 st.shared.f32 [%0+12], %5;\n}" ::"r"(address),
      "r"(missing), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3]));
}
__device__ __forceinline__ void store_shared_neighbours(uint32_t address, uint32_t missing, const float (&values)[2]) {
  asm volatile(
      "{\n.reg .pred is<2>;\nsetp.lt.u32 is0, %1, 4;\nsetp.lt.u32 is1, %1, 3;\n"
      "@is0 st.shared.f32 [%0], %2;\n@is1 st.shared.f32 [%0+4], %3;\n}" ::"r"(address),
      "r"(missing), "f"(values[0]), "f"(values[1]));
}
// Two 16-bit elements in each word.
__device__ __forceinline__ void store_shared_neighbours(uint32_t address, uint32_t missing,
                                                        const uint32_t (&pairs)[2]) {
  asm volatile(
      "{\n.reg .pred is<4>;\n.reg .b16 value<4>;\n"
      "mov.b32 {value0, value1}, %2;\nmov.b32 {value2, value3}, %3;\n"
      "setp.lt.u32 is0, %1, 4;\nsetp.lt.u32 is1, %1, 3;\nsetp.lt.u32 is2, %1, 2;\nsetp.lt.u32 is3, %1, 1;\n"
      "@is0 st.shared.b16 [%0], value0;\n@is1 st.shared.b16 [%0+2], value1;\n"
      "@is2 st.shared.b16 [%0+4], value2;\n@is3 st.shared.b16 [%0+6], value3;\n}" ::"r"(address),
      "r"(missing), "r"(pairs[0]), "r"(pairs[1]));
}
__device__ __forceinline__ void store_shared_neighbours(uint32_t address, uint32_t missing,
                                                        const uint32_t (&pairs)[1]) {
  asm volatile(
      "{\n.reg .pred is<2>;\n.reg .b16 value<2>;\nmov.b32 {value0, value1}, %2;\n"
      "setp.lt.u32 is0, %1, 4;\nsetp.lt.u32 is1, %1, 3;\n"
      "@is0 st.shared.b16 [%0], value0;\n@is1 st.shared.b16 [%0+2], value1;\n}" ::"r"(address),
      "r"(missing), "r"(pairs[0]));
}

}  // namespace convt3d::hopper

// Accesses to global memory that must be one instruction.
#pragma once

#include <cstdint>

namespace convt3d::hopper {

// Elements that are one piece of 2, 4, 8 or 16 bytes, aligned to it: of ordinary stores the compiler may make several.
template <typename T, int kCount>
__device__ __forceinline__ void store_global(T* to, const T (&values)[kCount]) {
  constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  if constexpr (kBytes == 2) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(to), "h"(*reinterpret_cast<const uint16_t*>(values)) : "memory");
  } else if constexpr (kBytes == 4) {
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

// 16 bytes that other blocks have written meanwhile: past the multiprocessor's cache.
__device__ __forceinline__ void load_global(float (&values)[4], const float* from) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
               : "l"(from)
               : "memory");
}

}  // namespace convt3d::hopper

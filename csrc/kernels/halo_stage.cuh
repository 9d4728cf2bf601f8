// Neighbouring outputs of a thread on their way to its warp's staging.
#pragma once

#include "kernels/halo_staging_tables.cuh"
#include "kernels/halo_target.cuh"

namespace convt3d {

// To shared memory, unless the place is kHaloNoPlace: a branch would keep the compiler from overlapping the stores.
template <typename T>
__device__ __forceinline__ void stage_two(uint32_t at, uint32_t place, float a, float b) {
  if constexpr (sizeof(T) == 4) {
    asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.v2.f32 [%0], {%3, %4};\n}" ::"r"(at),
                 "r"(place), "n"(kHaloNoPlace), "f"(a), "f"(b));
  } else {
    asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.u32 [%0], %3;\n}" ::"r"(at), "r"(place),
                 "n"(kHaloNoPlace), "r"(rounded_pair<T>(a, b)));
  }
}
template <typename T>
__device__ __forceinline__ void stage_four(uint32_t at, uint32_t place, float a, float b, float c, float d) {
  if constexpr (sizeof(T) == 4) {
    asm volatile(
        "{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.v4.f32 [%0], {%3, %4, %5, %6};\n}" ::"r"(at),
        "r"(place), "n"(kHaloNoPlace), "f"(a), "f"(b), "f"(c), "f"(d));
  } else {
    asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.v2.u32 [%0], {%3, %4};\n}" ::"r"(at),
                 "r"(place), "n"(kHaloNoPlace), "r"(rounded_pair<T>(a, b)), "r"(rounded_pair<T>(c, d)));
  }
}
__device__ __forceinline__ void stage_one(uint32_t at, uint32_t place, float a) {
  asm volatile("{\n.reg .pred is;\nsetp.ne.u32 is, %1, %2;\n@is st.shared.f32 [%0], %3;\n}" ::"r"(at), "r"(place),
               "n"(kHaloNoPlace), "f"(a));
}

}  // namespace convt3d

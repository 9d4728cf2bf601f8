// Matrices between the registers of a warp and shared memory ("ldmatrix", "stmatrix", "movmatrix"): 8 x 8 elements of
// 16 bits, a row 16 bytes at any aligned address; lane 8i + r names row r of matrix i.
#pragma once

#include <cstdint>

namespace convt3d {

// One, two or four matrices (the addresses of lanes past their rows count for nothing). A lane's word of each has the
// elements 2*(lane%4) and the next of row lane/4: any four bytes at 4*(lane%4) of it.
template <int kCount>
__device__ __forceinline__ void load_matrices(uint32_t (&matrix)[kCount], uint32_t row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(row)
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrix[0]), "=r"(matrix[1])
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(matrix[0]) : "r"(row) : "memory");
  }
}

// The same matrices, transposed on their way: a lane's word has the elements lane/4 of row 2*(lane%4) and of the next.
template <int kCount>
__device__ __forceinline__ void load_matrices_transposed(uint32_t (&matrix)[kCount], uint32_t row) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 4);
  if constexpr (kCount == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrix[0]), "=r"(matrix[1]), "=r"(matrix[2]), "=r"(matrix[3])
                 : "r"(row)
                 : "memory");
  } else if constexpr (kCount == 2) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrix[0]), "=r"(matrix[1])
                 : "r"(row)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(matrix[0]) : "r"(row) : "memory");
  }
}

}  // namespace convt3d

namespace convt3d::hopper {

// Four matrices. Before compute capability 9.0 lanes ask each other where the rows are, and store words.
__device__ __forceinline__ void store_matrix_words(uint32_t row, const uint32_t (&matrix)[4]) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t to = __shfl_sync(0xFFFFFFFF, row, static_cast<int>(8 * i + lane / 4)) + lane % 4 * 4;
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(matrix[i]) : "memory");
  }
}
__device__ __forceinline__ void store_matrices(uint32_t row, const uint32_t (&matrix)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  store_matrix_words(row, matrix);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(matrix[0]),
               "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
               : "memory");
#endif
}
__device__ __forceinline__ void store_matrices_transposed(uint32_t row, const uint32_t (&matrix)[4]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
  uint32_t turned[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned[i]) : "r"(matrix[i]));
  }
  store_matrix_words(row, turned);
#else
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(matrix[0]),
               "r"(matrix[1]), "r"(matrix[2]), "r"(matrix[3])
               : "memory");
#endif
}

}  // namespace convt3d::hopper

// Matrices between the registers of a warp and shared memory ("ldmatrix", "stmatrix").
#pragma once

#include <cstdint>

namespace convt3d::hopper {

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

}  // namespace convt3d::hopper

// What the kernels of a group norm are given.
#pragma once

#include <cstdint>

#include "device/numeric.cuh"
#include "epilogue/epilogue.h"
#include "norm/plan.h"

namespace convt3d::norm {

// At least, of the passes over tensors: it limits their registers to 128.
constexpr int kBlocksPerMultiprocessor = 2;

// A tensor whose positions are equally far apart. Strides are in elements.
template <typename T>
struct View {
  T* data;
  int64_t n, c, p;
  bool vector;  // slots that are whole are aligned and contiguous, those of the convolution's output being so
};

// The norm's weight or bias: in float32, or in the type of what is normalised.
struct Affine {
  const void* data;  // nullptr: absent
  int64_t stride;
  bool is_float32;

  template <typename T>
  __device__ __forceinline__ double at(int64_t channel, double absent) const {
    if (data == nullptr) return absent;
    if (is_float32) return __ldg(static_cast<const float*>(data) + channel * stride);
    return to_accumulator(__ldg(static_cast<const T*>(data) + channel * stride));
  }
};

// Whether a map takes the norms of channels from the statistics kernel, and has many blocks then. Not of float64, whose
// digits they lack. Of threads that have eight channels each, few blocks that compute them were measured to be faster.
template <typename T, bool kChannels>
constexpr bool kTakesNorms = sizeof(T) == 4 || (sizeof(T) == 2 && !kChannels);

// T is the type of the convolution's output x, R that of the norm's result and of its gradient.
template <typename T, typename R>
struct Params {
  Shape shape;
  Plan plan;
  int32_t phase;  // elements of x's first element past a line of memory
  View<const T> x;
  View<const R> grad_result;
  View<R> result;
  View<T> grad_x;
  Affine weight;
  Affine bias;
  double slope;  // behind the norm, a negative value is multiplied by it: 1 leaves it, 0 is a ReLU
  bool relu;     // x is a ReLU's output, whose argument's gradient is wanted
  double eps;
  double* partial;       // [plane][split][n][c]
  double* mean;          // [n][group]
  double* rstd;          // [n][group]
  double* coefficients;  // [n][group][2], see coefficients_kernel
  ChannelNorm* norms;    // [n][c], for whatever applies them
};

}  // namespace convt3d::norm

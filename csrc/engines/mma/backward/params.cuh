// The parameters of the kernel of all gradients.
#pragma once

#include "engines/mma/backward/plan.h"
#include "engines/mma/correlation/params.cuh"
#include "engines/mma/weight_grad/params.cuh"

namespace convt3d::mma {

// T is the type of grad_output and the input, as the kernel reads them.
template <typename T>
struct BackwardParams {
  WeightGradParams<T> grad;
  StoreParams<ElementOf<T>> store;
  BackwardLayout layout;
  int32_t channel_steps;
  int32_t taps;
  int32_t weight_steps;
  const unsigned char* weight;  // packed: correlation/pack_weight.cuh
  float* bias;                  // [split][output channel], where multiplying warps sum its rows; else nullptr
};

// Older drivers take 4096 bytes of parameters.
static_assert(sizeof(BackwardParams<float>) <= 4096 && sizeof(BackwardParams<float>) % 8 == 0);

}  // namespace convt3d::mma

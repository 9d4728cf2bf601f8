// The boxes of a plan's tensors that TMA moves, and what a call's operands make of a plan. Knows nothing of torch or
// CUDA.
#pragma once

#include <array>
#include <cstdint>

#include "core/operands.h"
#include "device/tensor_box.h"
#include "engines/wgmma/plan/plan.h"
#include "engines/wgmma/plan/problem.h"

namespace convt3d {

using TensorStrides = std::array<int64_t, 5>;

// The box of the input by which a tile is loaded, whose load is one of boxes; its address and type are left open.
TensorBox input_box(const WgmmaProblem& problem, const WgmmaPlanParts& plan, const WgmmaLoad& load, int element_bytes,
                    const TensorStrides& stride);

// Residues of the output that have boxes of their own.
int output_boxes(const WgmmaPlanParts& plan);
// The box of one of them by which it is stored; its type is left open. `address`: of the output.
TensorBox output_box(const WgmmaProblem& problem, const WgmmaPlanParts& plan, int element_bytes,
                     const TensorStrides& stride, const void* address, int index);

// The load and the store of these operands, made from those that were searched for: by TMA's boxes where strides and
// addresses allow them. The store has its marks, which no search needs.
WgmmaLoad load_of_operand(const WgmmaProblem& problem, const WgmmaPlanParts& plan, int element_bytes,
                          const OperandTraits& input);
WgmmaStore store_of_operand(const WgmmaProblem& problem, const WgmmaPlanParts& plan, int element_bytes,
                            const OperandTraits& output);

}  // namespace convt3d

// What gradients read instead of grad_output and of the input: copies with the channels last, of some images at a time.
//
//     images 0 1 | 2 3 | 4 5     a round: copy two images, compute their gradients; the weight's sums join the last
//     ones
//
// Knows nothing of torch or CUDA.
#pragma once

#include <cstdint>
#include <optional>

#include "core/channels_copy.h"
#include "planning/choose.h"

namespace convt3d {

struct GradCopies {
  OperandCopy grad;
  OperandCopy input;
  int64_t images;  // of a round

  int64_t rounds(const Problem& problem) const { return problem.batch / images; }
};
// Nothing is copied, and all images are one round.
inline GradCopies no_copies(const Problem& problem) { return {{}, {}, problem.batch}; }

// Of an image each, where tensor cores read it only after somebody has transposed or gathered it.
OperandCopy copied_grad(const PlanQuery& query);
OperandCopy copied_input(const PlanQuery& query);
// These copies of as many images as there is room for, in equal rounds; none where there is no room, or where tensors
// that are not copied begin otherwise in another round: the gradient of the input, where it is wanted, and the input.
std::optional<GradCopies> grad_copies(const PlanQuery& query, const OperandCopy& grad, const OperandCopy& input);
// The time of all rounds' copies: expected, a model.
double copies_ms(const PlanQuery& query, const GradCopies& copies);
// The query of one gradient of a round, of its operands or their copies. `weight`: as the input's gradient reads it.
PlanQuery gradient_of_copies(const PlanQuery& query, Operator op, const GradCopies& copies,
                             const OperandTraits& weight);
// Whether a weight gradient's plan can join what the rounds before have left.
bool sums_rounds(const OperatorPlan& weight_grad);

}  // namespace convt3d

#include "planning/grad_copy.h"

#include "core/channels_copy.h"

namespace convt3d {

bool may_copy_grad(const PlanQuery& query) {
  const Problem& problem = query.whole ? query.whole->problem : query.problem;
  const OperandTraits& tensor = query.whole ? query.whole->tensor : query.operands.first;
  // By this wgmma searches plans that read channels, copied or not: of a copy, too, which boxes bring as it is.
  if (query.operands.first.is_copy) return has_dense_images(tensor, problem.out_channels, problem.output_size());
  const auto may = [&](const Problem& of, const OperandTraits& grad) {
    const int64_t bytes = element_size(query.dtype);
    const OperandCopy copy = operand_copy(grad, {}, of.output_size(), of.groups, of.out_channels_per_group(), bytes);
    return may_copy(grad, copy, of.batch);
  };
  return may(problem, tensor) || (query.whole && may(query.problem, query.operands.first));
}

}  // namespace convt3d

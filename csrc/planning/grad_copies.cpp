#include "planning/grad_copies.h"

#include <algorithm>
#include <variant>

#include "core/access.h"
#include "core/operands.h"

namespace convt3d {
namespace {

OperandCopy copied(const PlanQuery& query, const OperandTraits& tensor, const OperandTraits& mask, const Int3& size,
                   int64_t channels) {
  const int64_t groups = query.problem.groups;
  const int64_t bytes = element_size(query.dtype);
  const bool in_pieces = has_pieces(tensor, bytes, channels / groups, kCopiedPiece / bytes);
  if (channels == 1 || in_pieces || query.dtype == DataType::kFloat64) return {};
  OperandCopy copy = operand_copy(tensor, mask, size, groups, channels / groups, bytes);
  copy_whole(copy, 1);
  // Groups that are filled up are not at equal strides.
  return groups == 1 || copy.padded == copy.channels ? copy : OperandCopy{};
}

}  // namespace

OperandCopy copied_grad(const PlanQuery& query) {
  const Problem& problem = query.problem;
  return copied(query, query.operands.first, query.operands.mask, problem.output_size(), problem.out_channels);
}

OperandCopy copied_input(const PlanQuery& query) {
  const Problem& problem = query.problem;
  OperandCopy copy = copied(query, query.operands.second, {}, problem.input_size, problem.in_channels);
  return may_copy(query.operands.second, copy, problem.batch) ? copy : OperandCopy{};
}

std::optional<GradCopies> grad_copies(const PlanQuery& query, const OperandCopy& grad, const OperandCopy& input) {
  const int64_t batch = query.problem.batch;
  int64_t images = std::min(batch, query.most_copied / (grad.bytes() + input.bytes()));
  while (images > 0 && batch % images != 0) --images;
  if (images == 0) return std::nullopt;
  const auto begins_alike = [&](const OperandTraits& tensor) {
    return tensor.stride[0] * images * element_size(query.dtype) % kAddressModulus == 0;
  };
  const Operands& operands = query.operands;
  const bool has_input_grad = query.op != Operator::kWeightGrad;
  const bool reads_input = query.op != Operator::kInputGrad && !input.exists;
  if (images < batch &&
      !((!has_input_grad || begins_alike(operands.result)) && (!reads_input || begins_alike(operands.second)))) {
    return std::nullopt;
  }
  GradCopies copies{grad, input, images};
  copy_whole(copies.grad, images);
  if (input.exists) copy_whole(copies.input, images);
  copies.input.beside = true;  // the other copy's
  return copies;
}

double copies_ms(const PlanQuery& query, const GradCopies& copies) {
  const auto rounds = static_cast<double>(copies.rounds(query.problem));
  const DeviceTraits& device = query.device;
  double ms = 0;
  for (const OperandCopy* const copy : {&copies.grad, &copies.input}) {
    if (!copy->exists) continue;
    ms += rounds * (device.begins_early() ? device.launches.early : device.launches.next) +
          copy_ms(*copy, query.problem.batch, device);
  }
  return ms;
}

PlanQuery gradient_of_copies(const PlanQuery& all, Operator op, const GradCopies& copies, const OperandTraits& weight) {
  PlanQuery query = all;
  query.op = op;
  query.candidate = 0;
  query.is_part = true;
  query.problem.batch = copies.images;
  Operands& operands = query.operands;
  if (copies.grad.exists) {
    operands.first = copied_operand(copies.grad);
    operands.mask = {};
  }
  if (copies.input.exists) operands.second = copied_operand(copies.input);
  operands.weight = {};
  if (op == Operator::kInputGrad) {
    operands.second = weight;
  } else {
    operands.result = dense_operand(all.problem.out_channels_per_group(), all.problem.kernel_size, false);
  }
  return query;
}

bool sums_rounds(const OperatorPlan& weight_grad) {
  return std::holds_alternative<mma::WeightGradPlan>(weight_grad.plan) ||
         std::holds_alternative<WgmmaWeightGradPlan>(weight_grad.plan);
}

}  // namespace convt3d

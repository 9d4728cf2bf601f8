"""Bugs in a backward whose gradients are computed one by one."""

from __future__ import annotations

from bugs.bug import Bug

API = "kernels/api.cu"
TENSORS = "kernels/backward_tensors.cuh"
SEPARATE = "--operator backward"
BUGS = [
    Bug(
        "separate: another round's input",
        TENSORS,
        "from_image(all.input, first, dtype)",
        "from_image(all.input, BUG ? 0 : first, dtype)",
        SEPARATE,
    ),
    Bug(
        "separate: another round's grad_output",
        TENSORS,
        "return {from_image(all.grad_output, first, dtype)",
        "return {from_image(all.grad_output, BUG ? 0 : first, dtype)",
        SEPARATE,
    ),
    Bug(
        "separate: another round's grad_input",
        TENSORS,
        "from_image(all.grad_input, first, dtype)",
        "from_image(all.grad_input, BUG ? 0 : first, dtype)",
        SEPARATE,
    ),
    Bug(
        "separate: rounds that do not join",
        API,
        "{first > 0, first + of_round.batch",
        "{first > 0 && !BUG, first + of_round.batch",
        SEPARATE,
    ),
    Bug(
        "separate: a mask of the copy's operand",
        TENSORS,
        "copy(plan.grad_copy, round.grad_output, round.relu_output, workspace);",
        "copy(plan.grad_copy, round.grad_output, BUG ? ConstTensor{} : round.relu_output, workspace);",
        SEPARATE,
    ),
    Bug(
        "separate: the bias of one round",
        API,
        "plan.rounds == 1 && reads_all ? round : all",
        "BUG || (plan.rounds == 1 && reads_all) ? round : all",
        SEPARATE,
    ),
    Bug(
        "separate: one copy in the other's place",
        TENSORS,
        "workspace + plan.input_copy_offset()",
        "workspace + (BUG ? 0 : plan.input_copy_offset())",
        SEPARATE,
    ),
    Bug(
        "view: taps' sums of the bias apart",
        API,
        "return plan.view ? plan.view->channel_folds() : 1;",
        "return plan.view && !BUG ? plan.view->channel_folds() : 1;",
        "--operator backward --type fp16",
    ),
    Bug(
        "view: first output",
        "core/output_view.cpp",
        "floor_mod(-problem.padding[i], step);",
        "BUG ? 0 : floor_mod(-problem.padding[i], step);",
        "--operator backward",
    ),
    Bug(
        "view: its padding",
        "core/output_view.cpp",
        "(problem.padding[i] + first) / step;",
        "(problem.padding[i] + (BUG ? 0 : first)) / step;",
        "--operator input_grad",
    ),
    Bug(
        "view: its strides",
        "core/output_view.cpp",
        "stride[2 + i] *= view.step[i];",
        "stride[2 + i] *= BUG && i == 2 ? 1 : view.step[i];",
        "--operator weight_grad",
    ),
    Bug(
        "view: the bias's gradient is of all outputs",
        "kernels/api.cu",
        "const bool reads_all = !planned.view;",
        "const bool reads_all = BUG || !planned.view;",
        "--operator backward",
    ),
    Bug(
        "view: channels of the weight",
        "core/output_view.h",
        "weight.stride[1] = weight.stride[4];",
        "weight.stride[1] = weight.stride[BUG ? 3 : 4];",
        "--operator weight_grad",
    ),
    Bug(
        "view: channels of grad_output",
        "core/output_view.cpp",
        "stride[1] = stride[4];",
        "stride[1] = stride[BUG ? 3 : 4];",
        "--operator input_grad",
    ),
    Bug(
        "view: of a copy",
        "kernels/api.cu",
        "const ConstTensor grad_output = read_part(plan, round.grad_output, dtype);",
        "const ConstTensor grad_output = BUG ? round.grad_output : read_part(plan, round.grad_output, dtype);",
        "--operator backward",
    ),
]

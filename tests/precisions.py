"""The precisions of the tensor cores; operands of a whole backward, and floors of the errors of its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reference import Problem

DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# Relative norm error of a gradient that the arithmetic may cost.
GRADIENT_FLOORS = {"fp32": 1e-6, "tf32": 3.5e-4, "fp16": 6e-4, "bf16": 5e-3}

BackwardOperands = tuple[Tensor, Tensor, Tensor]  # grad_output, input and weight


def backward_operands(
    problem: Problem, precision: str, layout: str, *, integers: bool
) -> tuple[BackwardOperands, Tensor]:
    """And what may be the ReLU's output."""
    dtype = DTYPES[precision]
    input, weight, _ = problem.tensors(dtype, "cuda", layout, integers=integers)
    grad_output = problem.grad_output(dtype, "cuda", layout, integers=integers)
    return (grad_output, input, weight), problem.grad_output(dtype, "cuda", layout).relu()

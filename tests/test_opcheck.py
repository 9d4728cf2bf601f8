"""PyTorch's own checks of an operator's registrations, on all operators."""

from typing import Any

import pytest
import torch
from reference import LAYOUTS, PROBLEMS
from torch import Tensor

ops = torch.ops.convt3d
ALL_DIFFERENT = PROBLEMS[0]


def _check(op: Any, args: tuple[Any, ...], parameters: dict[str, Any]) -> None:
    results = torch.library.opcheck(op, args, parameters)
    assert set(results.values()) == {"SUCCESS"}, results
    assert len(results) == 4


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    dtype: torch.dtype = request.param
    return dtype


@pytest.mark.parametrize("has_bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_forward(layout: str, has_bias: bool, dtype: torch.dtype, operator_name: str, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(dtype, device, layout, requires_grad=True)
    args = (input, weight, bias) if has_bias else (input, weight)
    _check(getattr(ops, operator_name).default, args, problem.parameters)


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: str, has_relu: bool, dtype: torch.dtype, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(dtype, device, layout, requires_grad=True)
    grad_output = problem.grad_output(dtype, device, layout).requires_grad_()
    relu_output: Tensor | None = problem.grad_output(dtype, device).relu() if has_relu else None
    _check(ops.conv_transpose3d_input_grad.default, (grad_output, weight, relu_output), problem.parameters)
    _check(
        ops.conv_transpose3d_weight_grad.default,
        (grad_output, input, problem.kernel_size, relu_output),
        problem.parameters,
    )
    _check(ops.conv_transpose3d_bias_grad.default, (grad_output, relu_output), {})


@pytest.mark.parametrize("output_mask", [(True, True, True), (True, False, True), (False, True, False)], ids=str)
@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_backward(layout: str, has_relu: bool, output_mask: tuple[bool, ...], dtype: torch.dtype, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(dtype, device, layout, requires_grad=True)
    grad_output = problem.grad_output(dtype, device, layout).requires_grad_()
    relu_output: Tensor | None = problem.grad_output(dtype, device).relu() if has_relu else None
    parameters = {**problem.parameters, "output_mask": output_mask}
    _check(ops.conv_transpose3d_backward.default, (grad_output, input, weight, relu_output), parameters)

"""One gradient by Hopper's matrix units, of copies with the channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
import torch
from backward_ways import (
    PROBLEMS,
    ROUNDS_OF_ALIKE_IMAGES,
    alike_images,
    in_precision,
    layer_of,
    operand,
    there_for_a_moment,
)
from precisions import DTYPES, GRADIENT_FLOORS, BackwardOperands, backward_operands
from reference import Problem, gradients, norm_error, poison
from torch import Tensor

from convt3d._explain.asking import only_engine
from convt3d._explain.operands import Operands
from convt3d._explain.plan import OperatorPlan, candidate_costs, cuda_device, operator_plan

if TYPE_CHECKING:
    from collections.abc import Callable

Gradient = Literal["input_grad", "weight_grad"]

pytestmark = pytest.mark.cuda

ops = torch.ops.convt3d
GRADIENTS: tuple[Gradient, ...] = ("input_grad", "weight_grad")
NAMES = ["small", "channels", "dilated", "many"]  # whose weight gradients have such a plan; input gradients in rounds
ENGINE = "halo_wgmma"


@pytest.fixture(autouse=True)
def _needs_hopper() -> None:
    if not cuda_device(torch.device("cuda")).has(ENGINE):
        pytest.skip("the engine needs compute capability 9.0 and a library with sm_90a")


def _copied(
    problem: Problem, gradient: Gradient, precision: str, tensors: BackwardOperands, mask: Tensor | None
) -> dict[int, OperatorPlan]:
    """The plans of copies, by their numbers."""
    grad_output, input, weight = tensors
    of_input = gradient == "input_grad"
    operands = Operands(
        operand(grad_output),
        operand(weight if of_input else input),
        mask if mask is None else operand(mask),
        operand(input if of_input else weight),
    )
    call = (layer_of(problem, bias=False), gradient, precision, operands, cuda_device(grad_output.device))
    plans = [operator_plan(*call, ENGINE, number) for number in range(len(candidate_costs(*call, ENGINE)))]
    return {number: plan for number, plan in enumerate(plans) if "rounds=" in plan.plan}


def _gradient(problem: Problem, gradient: Gradient, tensors: BackwardOperands, mask: Tensor | None) -> Tensor:
    grad_output, input, weight = tensors
    poison(problem.input_shape, problem.weight_shape)
    if gradient == "input_grad":
        result: Tensor = ops.conv_transpose3d_input_grad(grad_output, weight, mask, **problem.parameters)
    else:
        result = ops.conv_transpose3d_weight_grad(grad_output, input, weight.shape[2:], mask, **problem.parameters)
    return result


def _check_copied(
    problem: Problem,
    gradient: Gradient,
    precision: str,
    tensors: BackwardOperands,
    mask: Tensor | None,
    check: Callable[[Tensor, str], None],
) -> str:
    (numbered,) = _copied(problem, gradient, precision, tensors, mask).items()
    number, plan = numbered
    with only_engine(ENGINE, number):
        check(_gradient(problem, gradient, tensors, mask), plan.plan)
    return plan.plan


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_integers_are_exact(name: str, precision: str, has_relu: bool) -> None:
    problem = PROBLEMS[name]
    tensors, relu_output = backward_operands(problem, precision, "NCDHW", integers=True)
    mask = relu_output if has_relu else None
    expected = gradients(problem, *tensors, mask)[1]

    def check(result: Tensor, plan: str) -> None:
        assert torch.equal(result, expected.to(result.dtype)), plan

    with in_precision(precision):
        _check_copied(problem, "weight_grad", precision, tensors, mask, check)


@pytest.mark.parametrize("precision", DTYPES)
def test_accuracy(precision: str) -> None:
    problem = PROBLEMS["many"]
    tensors, _ = backward_operands(problem, precision, "NCDHW", integers=False)
    expected = gradients(problem, *tensors)[1]

    def check(result: Tensor, plan: str) -> None:
        assert norm_error(result, expected) < GRADIENT_FLOORS[precision], plan

    with in_precision(precision):
        _check_copied(problem, "weight_grad", precision, tensors, None, check)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_rounds_of_images(precision: str, gradient: Gradient) -> None:
    """More than may be copied at a time. Images that are alike have gradients that are alike."""
    (one, tensors), (all, repeated) = alike_images(32, precision)
    with in_precision(precision):
        expected = _gradient(one, gradient, tensors, None)

        def check(result: Tensor, plan: str) -> None:
            if gradient == "input_grad":
                assert (result == expected[0]).all(), plan
            else:
                whole = (all.batch * expected.double()).to(expected.dtype)
                tolerance = 2e-3 if precision == "fp16" else 1e-5
                assert torch.allclose(result.double(), whole.double(), rtol=tolerance), plan

        plan = _check_copied(all, gradient, precision, repeated, None, check)
    assert plan.endswith(f" rounds={ROUNDS_OF_ALIKE_IMAGES[precision]}"), plan


@pytest.mark.parametrize("name", ["small", "many"])
def test_what_comes_before_and_after_in_the_stream(name: str) -> None:
    """Kernels that begin early read nothing that is not there, and what follows overwrites nothing that they read."""
    problem = PROBLEMS[name]
    tensors, _ = backward_operands(problem, "fp16", "NCDHW", integers=True)
    kept = [tensor.clone() for tensor in tensors]
    expected = gradients(problem, *tensors, None)[1].to(torch.float16)
    (number,) = _copied(problem, "weight_grad", "fp16", tensors, None)
    for _ in range(10):
        with there_for_a_moment(tensors, kept), only_engine(ENGINE, number):
            result = _gradient(problem, "weight_grad", tensors, None)
        poison(problem.input_shape, problem.weight_shape)
        assert torch.equal(result, expected)

"""A backward whose gradients are computed one by one, in every way: from copies, and beside each other."""

from __future__ import annotations

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
from hypothesis import given, settings
from hypothesis import strategies as st
from precisions import DTYPES, GRADIENT_FLOORS, BackwardOperands, backward_operands
from reference import LAYOUTS, Problem, gradients, norm_error, poison
from torch import Tensor

from convt3d._explain.asking import only_engine
from convt3d._explain.operands import Operands
from convt3d._explain.plan import OperatorPlan, candidate_costs, cuda_device, operator_plan

pytestmark = pytest.mark.cuda

ops = torch.ops.convt3d


def _ways(
    problem: Problem, precision: str, tensors: BackwardOperands, mask: Tensor | None, *, bias: bool
) -> list[OperatorPlan]:
    grad_output, input, weight = tensors
    layer = layer_of(problem, bias=bias)
    operands = Operands(
        operand(grad_output),
        operand(input),
        mask if mask is None else operand(mask),
        operand(input),
        operand(weight),
    )
    operator = "backward_and_bias" if bias else "backward"
    device = cuda_device(grad_output.device)
    count = len(candidate_costs(layer, operator, precision, operands, device, None))
    return [operator_plan(layer, operator, precision, operands, device, None, number) for number in range(count)]


def _backward(
    problem: Problem, number: int, tensors: BackwardOperands, mask: Tensor | None, *, bias: bool
) -> tuple[Tensor | None, ...]:
    poison(problem.input_shape, problem.weight_shape, (problem.out_channels,))
    with only_engine(None, number):
        results: tuple[Tensor | None, ...] = ops.conv_transpose3d_backward(
            *tensors, mask, **problem.parameters, output_mask=(True, True, bias)
        )
    return results


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_integers_are_exact_in_every_way(name: str, precision: str, layout: str, has_relu: bool) -> None:
    problem = PROBLEMS[name]
    tensors, relu_output = backward_operands(problem, precision, layout, integers=True)
    mask = relu_output if has_relu else None
    expected = gradients(problem, *tensors, mask)
    with in_precision(precision):
        for bias in (True, False):
            for number, way in enumerate(_ways(problem, precision, tensors, mask, bias=bias)):
                results = _backward(problem, number, tensors, mask, bias=bias)
                for result, right in zip(results[: 2 + bias], expected, strict=False):
                    assert result is not None
                    assert torch.equal(result, right.to(result.dtype)), way.plan


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["dilated", "small"])
def test_one_value_for_all_outputs(name: str, layout: str) -> None:
    """As autograd hands over the gradient of a sum: all strides are zero, but those of the ReLU's output are not."""
    problem = PROBLEMS[name]
    (grad_output, input, weight), mask = backward_operands(problem, "fp32", layout, integers=True)
    tensors = (torch.ones((), device=grad_output.device).expand_as(grad_output), input, weight)
    expected = gradients(problem, *tensors, mask)
    for number, way in enumerate(_ways(problem, "fp32", tensors, mask, bias=True)):
        for result, right in zip(_backward(problem, number, tensors, mask, bias=True), expected, strict=True):
            assert result is not None
            assert torch.equal(result, right.to(result.dtype)), way.plan


def test_all_ways_are_there() -> None:
    """The problems above have copies of either kind, and gradients beside each other where the device can."""
    words = ""
    for problem in PROBLEMS.values():
        tensors, _ = backward_operands(problem, "fp16", "NCDHW", integers=True)
        words += "\n".join(way.plan for way in _ways(problem, "fp16", tensors, None, bias=True))
    assert "copied=grad_output" in words
    assert "copied=both" in words
    assert "for=weight_grad" in words
    assert "weight_grad=depthwise with_bias_grad" in words
    device = cuda_device(torch.device("cuda"))
    assert ("beside=" in words) == (device.has("halo_wgmma") or device.traits[0] > 9)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["small", "channels", "many", "depthwise", "depthwise_tiles"])
def test_what_comes_before_and_after_in_the_stream(name: str, layout: str) -> None:
    """Kernels that begin early read nothing that is not there, and what follows overwrites nothing that they read."""
    problem = PROBLEMS[name]
    tensors, _ = backward_operands(problem, "fp16", layout, integers=True)
    kept = [tensor.clone() for tensor in tensors]
    expected = [one.to(torch.float16) for one in gradients(problem, *tensors, None)]
    for number, way in enumerate(_ways(problem, "fp16", tensors, None, bias=True)):
        for _ in range(10):
            poison(problem.input_shape, problem.weight_shape)
            with there_for_a_moment(tensors, kept), only_engine(None, number):
                results = ops.conv_transpose3d_backward(*tensors, None, **problem.parameters)
            poison(problem.input_shape, problem.weight_shape)
            for result, right in zip(results, expected, strict=True):
                assert result is not None
                assert torch.equal(result, right), way.plan
    for tensor, values in zip(tensors, kept, strict=True):
        tensor.copy_(values)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
def test_accuracy(precision: str, layout: str) -> None:
    problem = PROBLEMS["many"]
    tensors, _ = backward_operands(problem, precision, layout, integers=False)
    expected = gradients(problem, *tensors)
    with in_precision(precision):
        for number, way in enumerate(_ways(problem, precision, tensors, None, bias=True)):
            results = _backward(problem, number, tensors, None, bias=True)
            for result, right in zip(results, expected, strict=True):
                assert result is not None
                assert norm_error(result, right) < GRADIENT_FLOORS[precision], way.plan


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_rounds_of_images(precision: str, has_bias: bool) -> None:
    """More than may be copied at a time. Images that are alike have gradients that are alike."""
    (one, tensors), (all, repeated) = alike_images(24, precision)
    with in_precision(precision):
        expected = _backward(one, 0, tensors, None, bias=has_bias)
        ways = _ways(all, precision, repeated, None, bias=has_bias)
        assert {word for way in ways for word in way.plan.split() if "rounds" in word} == {
            f"rounds={ROUNDS_OF_ALIKE_IMAGES[precision]}"
        }
        for number, way in enumerate(ways):
            grad_input, *others = _backward(all, number, repeated, None, bias=has_bias)
            for image in grad_input:
                assert torch.equal(image, expected[0][0]), way.plan
            for result, right in zip(others[: 1 + has_bias], expected[1:], strict=False):
                whole = (all.batch * right.double()).to(right.dtype)
                assert torch.allclose(result.double(), whole.double(), rtol=2e-3 if precision == "fp16" else 1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bits_repeat(layout: str) -> None:
    problem = PROBLEMS["many"]
    for precision in ("fp16", "tf32"):
        tensors, _ = backward_operands(problem, precision, layout, integers=False)
        with in_precision(precision):
            for number, way in enumerate(_ways(problem, precision, tensors, None, bias=True)):
                first, *others = (_backward(problem, number, tensors, None, bias=True) for _ in range(4))
                for other in others:
                    for a, b in zip(first, other, strict=True):
                        assert a is not None
                        assert b is not None
                        assert torch.equal(a, b), way.plan


@settings(max_examples=60, deadline=None)
@given(
    channels=st.tuples(st.integers(1, 48), st.integers(1, 48)),
    size=st.tuples(*(st.integers(1, 14) for _ in range(3))),
    kernel=st.tuples(*(st.integers(1, 4) for _ in range(3))),
    stride=st.tuples(*(st.integers(1, 3) for _ in range(3))),
    batch=st.integers(1, 3),
    groups=st.integers(1, 2),
    precision=st.sampled_from(sorted(DTYPES)),
    layout=st.sampled_from(sorted(LAYOUTS)),
    has_relu=st.booleans(),
    drawn=st.integers(0, 20),
)
def test_random_problem_in_any_way(
    channels: tuple[int, int],
    size: tuple[int, int, int],
    kernel: tuple[int, int, int],
    stride: tuple[int, int, int],
    batch: int,
    groups: int,
    precision: str,
    layout: str,
    has_relu: bool,
    drawn: int,
) -> None:
    problem = Problem("random", batch, groups * channels[0], groups * channels[1], size, kernel, stride, groups=groups)
    tensors, relu_output = backward_operands(problem, precision, layout, integers=True)
    mask = relu_output if has_relu else None
    with in_precision(precision):
        ways = _ways(problem, precision, tensors, mask, bias=True)
        results = _backward(problem, drawn % len(ways), tensors, mask, bias=True)
    for result, expected in zip(results, gradients(problem, *tensors, mask), strict=True):
        assert result is not None
        assert torch.equal(result, expected.to(result.dtype)), ways[drawn % len(ways)].plan

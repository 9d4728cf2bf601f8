"""Gradients of layers with one channel a group, and their forward with long kernels, on every path of their kernels.

Integers are exact, so that one wrong, missing or doubled product shows; random values hold the accuracy.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import LAYOUTS, Problem, assert_accurate, forward, gradients, poison, problems
from torch import Tensor

import convt3d
from convt3d._explain.asking import only_engine

pytestmark = pytest.mark.cuda

ops = torch.ops.convt3d
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# Rows and channels that vectors fit and do not; kernels that are long, short and differ; one tile and many of each
# axis; channels past a tile; runs with a rest; more tiles than blocks share.
TILES = [
    Problem("upsample", 2, 24, 24, (5, 6, 16), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=24),
    Problem("odd_width", 2, 12, 12, (4, 5, 19), (3, 3, 3), (2, 2, 2), (1, 1, 1), groups=12),
    Problem("kernel_7", 2, 20, 20, (6, 9, 7), (7, 7, 7), (2, 2, 2), (3, 3, 3), groups=20),
    Problem("kernel_7_even_padding", 1, 16, 16, (5, 17, 8), (7, 7, 7), (2, 2, 2), (2, 2, 4), (1, 0, 1), groups=16),
    Problem("kernel_7_stride_1", 2, 8, 8, (9, 17, 12), (7, 7, 7), (1, 1, 1), (3, 3, 3), groups=8),
    Problem("kernel_5_stride_1", 2, 36, 36, (7, 8, 20), (5, 5, 5), (1, 1, 1), (2, 2, 2), groups=36),
    Problem("kernels_differ", 2, 20, 20, (6, 11, 9), (2, 6, 5), (1, 2, 2), (0, 3, 1), (0, 1, 0), groups=20),
    Problem("strides_differ", 2, 12, 12, (5, 12, 10), (7, 4, 6), (2, 1, 2), (5, 0, 2), (1, 0, 1), groups=12),
    Problem("flat_kernel", 2, 32, 32, (3, 22, 18), (1, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1), groups=32),
    Problem("long_kernel_of_height", 1, 16, 16, (2, 30, 6), (1, 7, 1), (1, 2, 1), (0, 2, 0), (0, 1, 0), groups=16),
    Problem("long_kernel_of_width", 1, 16, 16, (2, 5, 66), (1, 1, 7), (1, 1, 2), (0, 0, 3), (0, 0, 1), groups=16),
    Problem("kernel_1", 2, 10, 10, (4, 5, 9), (1, 1, 1), (2, 2, 2), (0, 0, 0), (1, 0, 1), groups=10),
    Problem("odd_channels", 2, 7, 7, (4, 5, 8), (3, 5, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=7),
    Problem("one_channel", 2, 1, 1, (4, 6, 9), (5, 3, 4), (2, 1, 2), (1, 1, 1), (1, 0, 1)),
    Problem("padding_past_the_kernel", 1, 8, 8, (6, 8, 10), (2, 5, 3), (2, 2, 1), (4, 6, 3), (1, 1, 0), groups=8),
    Problem("long_row", 1, 4, 4, (2, 2, 1100), (2, 5, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1), groups=4),
    Problem("many_tiles", 5, 64, 64, (24, 24, 24), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=64),
    Problem("mednext", 2, 48, 48, (20, 20, 20), (7, 7, 7), (2, 2, 2), (3, 3, 3), groups=48),
]
LONG = [problem for problem in TILES if max(problem.kernel_size) > 4]


def _gradients(
    problem: Problem, grad_output: Tensor, input: Tensor, weight: Tensor, relu_output: Tensor | None
) -> tuple[Tensor, Tensor]:
    parameters = problem.parameters
    with only_engine("depthwise"):
        poison(problem.input_shape)
        by_input = ops.conv_transpose3d_input_grad(grad_output, weight, relu_output, **parameters)
        poison(problem.weight_shape)
        by_weight = ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, relu_output, **parameters)
    return by_input, by_weight


def _check_integers(problem: Problem, dtype: torch.dtype, layout: str, *, relu: bool) -> None:
    input, weight, bias = problem.tensors(dtype, "cuda", layout, integers=True)
    grad_output = problem.grad_output(dtype, "cuda", layout, integers=True)
    relu_output = problem.grad_output(dtype, "cuda", layout).relu() if relu else None
    actual = _gradients(problem, grad_output, input, weight, relu_output)
    expected = gradients(problem, grad_output, input, weight, relu_output)[:2]
    for result, reference in zip(actual, expected, strict=True):
        assert torch.equal(result, reference.to(dtype))
    operator = convt3d.conv_transpose3d_relu if relu else convt3d.conv_transpose3d
    poison(problem.output_shape)
    with only_engine("depthwise"):
        output = operator(input, weight, bias if relu else None, **problem.parameters)
    wide = forward(problem, input, weight, bias if relu else None)
    assert torch.equal(output, (wide.relu() if relu else wide).to(dtype))


@pytest.mark.parametrize("relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", TILES, ids=str)
def test_integers_are_exact(problem: Problem, dtype: torch.dtype, layout: str, relu: bool) -> None:
    _check_integers(problem, dtype, layout, relu=relu)


@settings(max_examples=300, deadline=None)
@given(
    problem=problems(batch=(1, 3), channels=1, size=24, stride=2, dilation=1, groups=40, kernel=7),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
    relu=st.booleans(),
)
def test_random_problem(problem: Problem, dtype: torch.dtype, layout: str, relu: bool) -> None:
    _check_integers(problem, dtype, layout, relu=relu)


@pytest.mark.parametrize("relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", TILES, ids=str)
def test_accuracy(problem: Problem, dtype: torch.dtype, layout: str, relu: bool) -> None:
    """Sums in float32, whatever the type; the same bits every time."""
    input, weight, _ = problem.tensors(dtype, "cuda", layout)
    grad_output = problem.grad_output(dtype, "cuda", layout)
    relu_output = problem.grad_output(dtype, "cuda", layout).relu() if relu else None
    actual = _gradients(problem, grad_output, input, weight, relu_output)
    expected = gradients(problem, grad_output, input, weight, relu_output)
    magnitude = gradients(problem, grad_output.abs(), input.abs(), weight.abs(), relu_output)
    terms = (problem.input_grad_terms, problem.weight_grad_terms)
    for index in range(2):
        assert_accurate(actual[index], expected[index], magnitude[index], terms[index])
    for result, again in zip(actual, _gradients(problem, grad_output, input, weight, relu_output), strict=True):
        assert torch.equal(result, again)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", LONG, ids=str)
def test_accuracy_of_the_forward(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    input, weight, bias = problem.tensors(dtype, "cuda", layout)
    plan = convt3d.explain(input, weight, bias, **problem.parameters)
    assert plan.engine == "depthwise"
    assert plan.plan.startswith("tiles ")
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    magnitude = forward(problem, input.abs(), weight.abs(), bias.abs())
    assert_accurate(output, forward(problem, input, weight, bias), magnitude, problem.forward_terms + 1)
    assert torch.equal(output, convt3d.conv_transpose3d(input, weight, bias, **problem.parameters))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["upsample", "kernel_7", "flat_kernel"])
def test_strided_operands(name: str, dtype: torch.dtype, layout: str) -> None:
    """Slices, every second column, an expanded batch, and a mask in the other layout."""
    problem = next(problem for problem in TILES if problem.name == name)
    input, weight, _ = problem.tensors(dtype, "cuda", layout, integers=True)
    grad_output = problem.grad_output(dtype, "cuda", layout, integers=True)
    other = next(format for name, format in LAYOUTS.items() if name != layout)
    relu_output = problem.grad_output(dtype, "cuda").relu().to(memory_format=other)
    wide = torch.nn.functional.pad(grad_output, (1, 2, 0, 1, 2, 0, 1, 1)).to(memory_format=LAYOUTS[layout])
    grads = (
        wide[:, 1:-1, 2:, :-1, 1:-2],
        torch.stack((grad_output, grad_output.neg()), -1)[..., 0],
        grad_output[:1].expand(problem.batch, -1, -1, -1, -1),
    )
    sparse_input = torch.stack((input, input.neg()), -1)[..., 0]
    sparse_weight = torch.stack((weight, weight.neg()), -1)[..., 0]
    for grad in grads:
        actual = _gradients(problem, grad, sparse_input, sparse_weight, relu_output)
        expected = gradients(problem, grad.contiguous(), input, weight, relu_output)[:2]
        for result, reference in zip(actual, expected, strict=True):
            assert torch.equal(result, reference.to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["odd_width", "kernel_7", "kernel_7_stride_1"])
def test_not_finite_stays_where_it_is(name: str, layout: str) -> None:
    """What is not finite of grad_output reaches the gradients of its taps and no others."""
    problem = next(problem for problem in TILES if problem.name == name)
    input, weight, _ = problem.tensors(torch.float32, "cuda", layout, integers=True)
    input, weight = input.abs() + 1, weight.abs() + 1
    grad_output = problem.grad_output(torch.float32, "cuda", layout, integers=True)
    for place in ((1, 3, 0, 0, 0), (1, 3, -1, -1, -1)):
        grad = grad_output.clone()
        grad[place] = float("nan")
        for result, expected in zip(
            _gradients(problem, grad, input, weight, None), gradients(problem, grad, input, weight)[:2], strict=True
        ):
            assert torch.equal(result.isnan(), expected.isnan())
            assert torch.equal(result.nan_to_num(), expected.float().nan_to_num())

"""The CPU's operators on the problems for which PyTorch's own float32 convolutions are wrong, or end the process."""

from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import Int3, Problem, run_python
from torch import Tensor

import convt3d

FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def _weight_grad(problem: Problem, grad_output: Tensor, input: Tensor) -> Tensor:
    weight_grad: Tensor = torch.ops.convt3d.conv_transpose3d_weight_grad(
        grad_output, input, problem.kernel_size, None, **problem.parameters
    )
    return weight_grad


@st.composite
def padded_problems(draw: st.DrawFn) -> Problem:
    """Problems whose paddings go past the kernel's reach, each dimension with its own."""
    groups = draw(st.integers(1, 3))
    sizes, kernel, stride, dilation, extra, padding = [], [], [], [], [], []
    for _ in range(3):
        sizes.append(draw(st.integers(1, 9)))
        kernel.append(draw(st.integers(1, 5)))
        stride.append(draw(st.integers(1, 4)))
        dilation.append(draw(st.sampled_from([1, 1, 1, 2, 3])))
        extra.append(draw(st.integers(0, max(stride[-1], dilation[-1]) - 1)))
        reach = dilation[-1] * (kernel[-1] - 1)
        largest = ((sizes[-1] - 1) * stride[-1] + reach + extra[-1]) // 2
        padding.append(min(largest, draw(st.integers(0, reach + 4))))
    triples: list[Any] = [tuple(values) for values in (sizes, kernel, stride, padding, extra, dilation)]
    channels = [groups * draw(st.integers(1, 9)) for _ in range(2)]
    return Problem("padded", draw(st.integers(1, 3)), *channels, *triples, groups)


def _check(problem: Problem, dtype: torch.dtype, layout: str = "NCDHW") -> None:
    """Forward and both gradients of small integers, whose sums are exact in float32, equal those in float64."""
    input, weight, bias = problem.tensors(dtype, "cpu", layout, integers=True)
    grad_output = problem.grad_output(dtype, "cpu", layout, integers=True)
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    assert torch.equal(output, reference.forward(problem, input, weight, bias).to(dtype))

    expected_input_grad, expected_weight_grad, _ = reference.gradients(problem, grad_output, input, weight)
    input_grad = torch.ops.convt3d.conv_transpose3d_input_grad(grad_output, weight, None, **problem.parameters)
    assert torch.equal(input_grad, expected_input_grad.to(dtype))
    weight_grad = _weight_grad(problem, grad_output, input)
    assert torch.equal(weight_grad, expected_weight_grad.to(dtype))


@settings(max_examples=300)
@given(problem=padded_problems(), dtype=st.sampled_from(FLOATING), layout=st.sampled_from(list(reference.LAYOUTS)))
def test_random_padding(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    _check(problem, dtype, layout)


# kernel 4, stride 2, a padding of 3 in a depth of 3 or 4: where garbage was seen (an AVX512 processor, torch 2.13).
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("depth", [3, 4])
@pytest.mark.parametrize("padding", [(3, 1, 2), (3, 2, 1), (3, 0, 2)], ids=str)
@pytest.mark.parametrize("groups", [1, 8])
def test_padding_of_a_whole_kernel(padding: Int3, depth: int, dtype: torch.dtype, groups: int) -> None:
    _check(Problem("", 3, 8, groups, (depth, 8, 3), (4, 4, 4), (2, 2, 2), padding, groups=groups), dtype)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_padding_past_every_voxel(dtype: torch.dtype) -> None:
    """Two voxels a stride of 10 apart, with an output between them that neither reaches."""
    problem = Problem("", 2, 3, 4, (2, 3, 2), (1, 2, 3), (10, 2, 1), (3, 1, 0))
    assert problem.output_shape[2:] == (5, 4, 4)
    _check(problem, dtype)
    grad_output, input = problem.grad_output(dtype, "cpu"), problem.tensors(dtype, "cpu")[0]
    assert not _weight_grad(problem, grad_output, input).any()


# oneDNN's transposed convolution ends the process on these, or takes minutes and gigabytes.
LARGE_STRIDES = [
    Problem("one_voxel", 2, 3, 4, (1, 1, 1), (3, 3, 3), (1, 1, 24000)),
    Problem("one_voxel_farther", 1, 3, 4, (1, 2, 1), (3, 2, 3), (1, 2, 400000), (0, 1, 1)),
    Problem("output_padding", 2, 3, 4, (1, 1, 1), (3, 2, 3), (1, 1, 24000), (0, 0, 1), (0, 0, 23999)),
    Problem("three_voxels", 2, 3, 4, (1, 2, 3), (2, 3, 3), (1, 2, 24000), (0, 1, 2), (0, 1, 5)),
    Problem("groups", 1, 6, 4, (1, 2, 2), (4, 1, 3), (30000, 1, 200000), (1, 0, 100), groups=2),
    Problem("channels", 1, 3, 2048, (1, 1, 1), (1, 1, 3), (1, 1, 2000), (0, 0, 0), (0, 0, 1999)),
    Problem("padding_leaves_one_voxel", 1, 3, 4, (1, 1, 2), (1, 2, 3), (1, 1, 90000), (0, 0, 45000)),
]


def _check_large_strides(dtype: torch.dtype) -> None:
    for problem in LARGE_STRIDES:
        print(problem, flush=True)
        _check(problem, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_stride_too_large_for_onednn(dtype: torch.dtype) -> None:
    program = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    program += f"import test_cpu\ntest_cpu._check_large_strides({dtype})"
    assert run_python(program, timeout=120).split() == [problem.name for problem in LARGE_STRIDES]


@pytest.mark.parametrize("groups", [1, 2, 24])
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_weight_whose_single_column_was_expanded(dtype: torch.dtype, groups: int) -> None:
    """A stride of 0 along a width of one element; PyTorch's grouped float32 convolution is wrong there."""
    problem = Problem(
        "one_column",
        2,
        4 * groups,
        6 * groups,
        (1, 2, 4),
        (2, 2, 1),
        (2, 2, 1),
        (0, 1, 0),
        (0, 1, 0),
        (1, 3, 1),
        groups,
    )
    input, weight, bias = problem.tensors(dtype, "cpu", "NDHWC", integers=True)
    expanded = weight[..., :1].expand(weight.shape).as_strided(weight.shape, (*weight.stride()[:4], 0))
    grad_output = problem.grad_output(dtype, "cpu", "NDHWC", integers=True)
    output = convt3d.conv_transpose3d(input, expanded, bias, **problem.parameters)
    assert torch.equal(output, reference.forward(problem, input, weight, bias).to(dtype))
    input_grad = torch.ops.convt3d.conv_transpose3d_input_grad(grad_output, expanded, None, **problem.parameters)
    assert torch.equal(input_grad, reference.gradients(problem, grad_output, input, weight)[0].to(dtype))

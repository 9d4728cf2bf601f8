"""All gradients from one read of grad_output, where no tap meets another: the kernel that does it, on a GPU.

The engine is asked alone, and has no kernel for the bias gradient by itself: it fails where it has no such plan.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from precisions import DTYPES, GRADIENT_FLOORS, BackwardOperands, backward_operands
from reference import LAYOUTS, Problem, gradients, norm_error, poison
from torch import Tensor

import convt3d
from convt3d._explain.asking import only_engine

pytestmark = pytest.mark.cuda

ops = torch.ops.convt3d
# Each tile of the kernel, with rests in every direction.
PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("few_channels", 2, 9, 5, (5, 13, 31), (2, 2, 2), (2, 2, 2)),
        Problem("32_channels", 3, 32, 16, (9, 7, 24), (2, 2, 2), (2, 2, 2)),
        Problem("odd_channels", 2, 27, 11, (3, 9, 21), (2, 1, 3), (2, 1, 3)),
        Problem("64_channels", 2, 64, 16, (4, 6, 17), (1, 2, 2), (1, 2, 2)),
        Problem("flat", 1, 50, 24, (7, 12, 13), (1, 2, 2), (1, 2, 2)),
        Problem("groups", 2, 36, 24, (5, 4, 11), (2, 2, 2), (2, 2, 2), groups=3),
        Problem("cropped", 2, 16, 8, (6, 5, 9), (4, 2, 3), (4, 2, 3), (1, 2, 0)),
        Problem("pointwise", 2, 24, 40, (5, 6, 19), (1, 1, 1), (1, 1, 1)),
        Problem("many_images", 37, 12, 10, (2, 3, 2), (2, 2, 2), (2, 2, 2)),
    )
}


def _backward(
    problem: Problem,
    precision: str,
    tensors: BackwardOperands,
    relu_output: Tensor | None,
    output_mask: tuple[bool, bool, bool] = (True, True, True),
) -> tuple[Tensor, ...]:
    poison(problem.input_shape, problem.weight_shape, (problem.out_channels,))
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"), only_engine("mma"):
        results: tuple[Tensor, ...] = ops.conv_transpose3d_backward(
            *tensors, relu_output, **problem.parameters, output_mask=output_mask
        )
    return results


def _assert_exact(problem: Problem, precision: str, tensors: BackwardOperands, mask: Tensor | None) -> None:
    results = _backward(problem, precision, tensors, mask)
    for result, expected in zip(results, gradients(problem, *tensors, mask), strict=True):
        assert torch.equal(result, expected.to(result.dtype))


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_integers_are_exact(name: str, precision: str, layout: str, has_relu: bool) -> None:
    tensors, relu_output = backward_operands(PROBLEMS[name], precision, layout, integers=True)
    _assert_exact(PROBLEMS[name], precision, tensors, relu_output if has_relu else None)


@settings(max_examples=200, deadline=None)
@given(
    channels=st.tuples(st.integers(1, 32), st.integers(1, 16)),
    size=st.tuples(*(st.integers(1, 20) for _ in range(3))),
    kernel=st.tuples(*(st.integers(1, 3) for _ in range(3))),
    padding=st.tuples(*(st.integers(0, 1) for _ in range(3))),
    batch=st.integers(1, 4),
    groups=st.integers(1, 3),
    precision=st.sampled_from(sorted(DTYPES)),
    layout=st.sampled_from(sorted(LAYOUTS)),
    has_relu=st.booleans(),
    first=st.integers(0, 9),
    sliced=st.booleans(),
)
def test_random_problem(
    channels: tuple[int, int],
    size: tuple[int, int, int],
    kernel: tuple[int, int, int],
    padding: tuple[int, int, int],
    batch: int,
    groups: int,
    precision: str,
    layout: str,
    has_relu: bool,
    first: int,
    sliced: bool,
) -> None:
    """Any sizes; grad_output may be a slice of the channels of a larger tensor, whose others are NaN."""
    cropped = tuple(p if n * k > 2 * p else 0 for p, n, k in zip(padding, size, kernel, strict=True))
    problem = Problem(
        "random",
        batch,
        groups * channels[0],
        groups * channels[1],
        size,
        kernel,
        kernel,
        cropped,  # type: ignore[arg-type]
        groups=groups,
    )
    (grad_output, input, weight), relu_output = backward_operands(problem, precision, layout, integers=True)
    if sliced:
        grad_output = _slice(grad_output, first, layout)
    _assert_exact(problem, precision, (grad_output, input, weight), relu_output if has_relu else None)


def _slice(tensor: Tensor, first: int, layout: str) -> Tensor:
    """The same as some channels of a larger tensor, from the one of number `first` on."""
    shape = (tensor.shape[0], first + tensor.shape[1] + 3, *tensor.shape[2:])
    larger = tensor.new_full(shape, float("nan")).to(memory_format=LAYOUTS[layout])
    result = larger[:, first : first + tensor.shape[1]]
    result.copy_(tensor)
    return result


@pytest.mark.parametrize("first", [0, 5, 16])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", ["32_channels", "64_channels"])
def test_slice_of_channels(name: str, precision: str, layout: str, first: int) -> None:
    (grad_output, input, weight), relu_output = backward_operands(PROBLEMS[name], precision, layout, integers=True)
    _assert_exact(PROBLEMS[name], precision, (_slice(grad_output, first, layout), input, weight), relu_output)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_accuracy_and_the_same_bits_again(name: str, precision: str, layout: str) -> None:
    """TF32 is rounded, not cut off, and the bias gradient sums grad_output as it is."""
    problem = PROBLEMS[name]
    tensors, _ = backward_operands(problem, precision, layout, integers=False)
    results = _backward(problem, precision, tensors, None)
    expected = gradients(problem, *tensors)
    for result, wanted in zip(results[:2], expected[:2], strict=True):
        assert norm_error(result, wanted) <= GRADIENT_FLOORS[precision]
    assert norm_error(results[2], expected[2]) <= GRADIENT_FLOORS["fp32" if precision == "tf32" else precision]
    for result, again in zip(results, _backward(problem, precision, tensors, None), strict=True):
        assert torch.equal(result, again)


@pytest.mark.parametrize("precision", DTYPES)
def test_without_the_bias(precision: str) -> None:
    problem = PROBLEMS["32_channels"]
    tensors, relu_output = backward_operands(problem, precision, "NDHWC", integers=True)
    results = _backward(problem, precision, tensors, relu_output, (True, True, False))
    assert results[2] is None
    for result, wanted in zip(results[:2], gradients(problem, *tensors, relu_output)[:2], strict=True):
        assert torch.equal(result, wanted.to(result.dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_with_its_own(value: float, layout: str) -> None:
    """In grad_output: one position of the input gradient, one channel of the others."""
    problem = PROBLEMS["32_channels"]
    tensors, _ = backward_operands(problem, "fp16", layout, integers=True)
    before = _backward(problem, "fp16", tensors, None)
    tensors[0][1, 3, 4, 5, 6] = value
    grad_input, grad_weight, grad_bias = _backward(problem, "fp16", tensors, None)
    touched = torch.zeros_like(grad_input, dtype=torch.bool)
    touched[1, :, 2, 2, 3] = True
    assert torch.equal(grad_input[~touched], before[0][~touched])
    others = torch.arange(problem.out_channels, device="cuda") != 3
    assert torch.equal(grad_weight[:, others], before[1][:, others])
    assert torch.equal(grad_bias[others], before[2][others])
    assert not grad_bias[3].isfinite()


def test_large_tensors_of_many_boxes() -> None:
    """Sums of more positions than the tensor cores sum at once, by blocks that walk."""
    problem = Problem("", 2, 16, 8, (96, 96, 96), (2, 2, 2), (2, 2, 2))
    tensors, relu_output = backward_operands(problem, "bf16", "NDHWC", integers=True)
    _assert_exact(problem, "bf16", tensors, relu_output)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_training_takes_it(layout: str) -> None:
    """A layer of nnU-Net, behind which is a concatenation: what autograd computes is what the plan says."""
    layer = convt3d.nn.ConvTranspose3d(32, 16, 2, 2, device="cuda", dtype=torch.float16)
    layer = layer.to(memory_format=LAYOUTS[layout])
    input = torch.randn(2, 32, 40, 40, 40, device="cuda", dtype=torch.float16).to(memory_format=LAYOUTS[layout])
    explained = convt3d.explain(input, layer.weight, layer.bias, stride=2, operator="backward")
    assert explained.engine == "mma"
    skip = torch.zeros(2, 8, 80, 80, 80, device="cuda", dtype=torch.float16).to(memory_format=LAYOUTS[layout])
    input.requires_grad_()
    output = layer(input)
    both = torch.cat((output, skip), 1)
    grad_output = torch.randn_like(both)
    results = torch.autograd.grad(both, (input, layer.weight, layer.bias), grad_output)
    problem = Problem("", 2, 32, 16, (40, 40, 40), (2, 2, 2), (2, 2, 2))
    for result, wanted in zip(results, gradients(problem, grad_output[:, :16], input, layer.weight), strict=True):
        assert norm_error(result, wanted) <= GRADIENT_FLOORS["fp16"]

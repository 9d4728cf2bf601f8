"""Layers whose kernel is their stride, by the engine matmul alone: integers that every precision sums exactly."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from precisions import DTYPES
from reference import LAYOUTS, Problem, forward, norm_error, poison

import convt3d
from convt3d._explain.asking import only_engine
from convt3d._explain.plan import cuda_device

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def _has_the_engine() -> None:
    if not cuda_device(torch.device("cuda")).has("matmul"):
        pytest.skip("needs compute capability 8.0")


def _run(
    problem: Problem, precision: str, *operands: torch.Tensor, relu: bool = False, candidate: int = 0
) -> torch.Tensor:
    operator = convt3d.conv_transpose3d_relu if relu else convt3d.conv_transpose3d
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"), only_engine("matmul", candidate):
        return operator(*operands, **problem.parameters)


def _check(problem: Problem, precision: str, layout: str, *, relu: bool, candidate: int = 0) -> None:
    input, weight, bias = problem.tensors(DTYPES[precision], "cuda", layout, integers=True)
    poison(problem.output_shape)
    output = _run(problem, precision, input, weight, bias, relu=relu, candidate=candidate)
    expected = forward(problem, input, weight, bias)
    assert torch.equal(output, (expected.relu() if relu else expected).to(output.dtype))
    assert torch.equal(output, _run(problem, precision, input, weight, bias, relu=relu, candidate=candidate))


def _input_grad(
    problem: Problem, precision: str, grad_output: torch.Tensor, weight: torch.Tensor, candidate: int = 0
) -> torch.Tensor:
    operator = torch.ops.convt3d.conv_transpose3d_input_grad
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"), only_engine("matmul", candidate):
        return operator(grad_output, weight, None, **problem.parameters)


def _expected_input_grad(problem: Problem, grad_output: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv3d(grad_output.double(), weight.double(), stride=problem.stride, groups=problem.groups)


def _check_input_grad(problem: Problem, precision: str, layout: str, candidate: int = 0) -> None:
    dtype = DTYPES[precision]
    _, weight, _ = problem.tensors(dtype, "cuda", layout, integers=True)
    grad_output = problem.grad_output(dtype, "cuda", layout, integers=True)
    poison(problem.input_shape)
    grad_input = _input_grad(problem, precision, grad_output, weight, candidate)
    assert torch.equal(grad_input, _expected_input_grad(problem, grad_output, weight).to(dtype))
    assert torch.equal(grad_input, _input_grad(problem, precision, grad_output, weight, candidate))


def _problem(
    name: str,
    batch: int,
    channels: tuple[int, int],
    size: tuple[int, int, int],
    kernel: tuple[int, int, int],
    groups: int = 1,
) -> Problem:
    """``channels`` of a group."""
    return Problem(name, batch, channels[0] * groups, channels[1] * groups, size, kernel, kernel, groups=groups)


PROBLEMS = {
    problem.name: problem
    for problem in [
        _problem("nnunet", 2, (320, 256), (6, 7, 5), (2, 2, 2)),
        _problem("odd_positions", 3, (24, 40), (3, 5, 7), (2, 1, 4)),
        _problem("channels_past_a_stage", 1, (72, 16), (4, 9, 6), (3, 2, 5)),
        _problem("one_channel", 2, (64, 1), (4, 4, 8), (8, 4, 8)),
        _problem("groups", 2, (16, 24), (5, 4, 6), (2, 2, 2), groups=3),
        _problem("many_tiles", 2, (48, 8), (20, 24, 28), (1, 2, 2)),
        _problem("kernel_1", 5, (40, 136), (3, 4, 5), (1, 1, 1)),
    ]
}


@pytest.mark.parametrize("candidate", [0, 2, 5, 8])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=str)
def test_integers_are_exact(problem: Problem, precision: str, layout: str, candidate: int) -> None:
    """Tiles of both sizes, weights that stay and that come, two to four stages."""
    try:
        _check(problem, precision, layout, relu=candidate == 2, candidate=candidate)
    except ValueError as error:
        if "none with the number" not in str(error):
            raise
        pytest.skip("the engine has fewer plans")


@pytest.mark.parametrize("candidate", [0, 3, 7, 12, 17])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=str)
def test_input_grads_of_integers_are_exact(problem: Problem, precision: str, layout: str, candidate: int) -> None:
    """Tiles of both sizes, one to four teams, weights that stay and that come, two to four stages."""
    taps_fill_no_word = layout == "NCDHW" and DTYPES[precision].itemsize == 2 and problem.kernel_size[2] % 2 != 0
    if taps_fill_no_word:
        with pytest.raises((ValueError, RuntimeError), match="no plan"):
            _check_input_grad(problem, precision, layout, candidate)
        return
    try:
        _check_input_grad(problem, precision, layout, candidate)
    except ValueError as error:
        if "none with the number" not in str(error):
            raise
        pytest.skip("the engine has fewer plans")


@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_input_grads_of_strided_tensors(precision: str) -> None:
    """Slices of channels, as behind a concatenation, at odd addresses, too; a weight with the channels last."""
    problem = PROBLEMS["nnunet"]
    _, weight, _ = problem.tensors(DTYPES[precision], "cuda", integers=True)
    grad_output = problem.grad_output(DTYPES[precision], "cuda", integers=True)
    expected = _expected_input_grad(problem, grad_output, weight).to(grad_output.dtype)
    wide = torch.cat((grad_output, torch.full_like(grad_output, float("nan"))), 1)
    last = torch.channels_last_3d
    slices = {
        "NCDHW": [
            wide[:, : problem.out_channels],
            F.pad(grad_output, (2, 0, 1, 1, 1, 0), value=float("nan"))[:, :, 1:, 1:-1, 2:],
        ],
        "NDHWC": [wide.contiguous(memory_format=last)[:, : problem.out_channels]],
    }
    for layout, tensors in slices.items():
        for tensor in tensors:
            for weight_layout, memory_format in LAYOUTS.items():
                weights = weight.contiguous(memory_format=memory_format)
                if precision == "fp16" and layout != weight_layout:  # neighbours in one are none in the other
                    with pytest.raises((ValueError, RuntimeError), match="no plan"):
                        _input_grad(problem, precision, tensor, weights)
                else:
                    assert torch.equal(_input_grad(problem, precision, tensor, weights), expected)


@settings(max_examples=200, deadline=None)
@given(
    batch=st.integers(1, 4),
    channels=st.tuples(st.sampled_from([8, 16, 40, 72, 136]), st.sampled_from([1, 2, 3, 8, 12, 24])),
    size=st.tuples(*[st.integers(1, 9)] * 3),
    kernel=st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 4]), st.sampled_from([2, 4, 8])),
    groups=st.integers(1, 2),
    precision=st.sampled_from(sorted(DTYPES)),
    layout=st.sampled_from(sorted(LAYOUTS)),
    relu=st.booleans(),
)
def test_random_problem(
    batch: int,
    channels: tuple[int, int],
    size: tuple[int, int, int],
    kernel: tuple[int, int, int],
    groups: int,
    precision: str,
    layout: str,
    relu: bool,
) -> None:
    # Else a row of the weight is no whole number of 16 bytes: another engine's.
    assume(channels[1] * kernel[0] * kernel[1] * kernel[2] % 8 == 0)
    _check(_problem("random", batch, channels, size, kernel, groups), precision, layout, relu=relu)


@pytest.mark.parametrize("precision", ["fp16", "tf32"])
def test_strided_tensors(precision: str) -> None:
    """Slices of channels, of images and of depth, an input with other axes last, a weight with the channels last."""
    problem = PROBLEMS["nnunet"]
    input, weight, bias = problem.tensors(DTYPES[precision], "cuda", integers=True)
    expected = forward(problem, input, weight, bias)
    wide = torch.cat((input, torch.full_like(input, float("nan"))), 1)
    last = torch.channels_last_3d
    for tensor in (
        wide[:, : problem.in_channels],
        wide.contiguous(memory_format=last)[:, : problem.in_channels],
        torch.nn.functional.pad(input, (0, 0, 0, 0, 1, 1), value=float("nan"))[:, :, 1:-1],
    ):
        for weights in (weight, weight.contiguous(memory_format=last)):
            assert torch.equal(_run(problem, precision, tensor, weights, bias), expected.to(input.dtype))


@pytest.mark.parametrize(("precision", "bound"), [("fp32", 3.6e-7), ("tf32", 4.2e-4)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_accuracy(layout: str, precision: str, bound: float) -> None:
    """TF32 is rounded, not cut off; float32 keeps its own accuracy."""
    problem = PROBLEMS["nnunet"]
    operands = problem.tensors(torch.float32, "cuda", layout)
    assert norm_error(_run(problem, precision, *operands), forward(problem, *operands)) <= bound


@pytest.mark.parametrize("layout", LAYOUTS)
def test_not_finite(layout: str) -> None:
    """An input that is not finite reaches the outputs of its position alone."""
    problem = PROBLEMS["odd_positions"]
    input, weight, bias = problem.tensors(torch.float16, "cuda", layout, integers=True)
    expected = forward(problem, input, weight, bias).to(torch.float16)
    input[1, 3, 1, 2, 3] = float("nan")
    output = _run(problem, "fp16", input, weight, bias)
    reached = torch.zeros_like(output, dtype=torch.bool)
    reached[1, :, 2:4, 2:3, 12:16] = True
    assert output[reached].isnan().all()
    assert torch.equal(output[~reached], expected[~reached])

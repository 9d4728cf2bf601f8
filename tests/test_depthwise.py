"""Forward of groups with very few channels, on every path of its kernels.

Integers are exact, so that one wrong, missing or doubled product shows; random values hold the accuracy.
"""

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference import LAYOUTS, NORM_FLOOR, Problem, forward, norm_error, poison, problems
from torch import Tensor

import convt3d

pytestmark = pytest.mark.cuda

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]

# The taps that the kernels know, and others; rows that vectors fit, that they do not, and that are longer than a
# block; channels that quads fit and do not; more work than one thread takes at a time.
DEPTHWISE = [
    Problem("upsample", 2, 24, 24, (5, 6, 16), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=24),
    Problem("odd_width", 2, 12, 12, (4, 5, 19), (3, 3, 3), (2, 2, 2), (1, 1, 1), groups=12),
    Problem("no_padding", 1, 36, 36, (4, 3, 9), (3, 3, 3), (2, 2, 2), groups=36),
    Problem("kernel_is_stride", 2, 16, 16, (3, 4, 8), (2, 2, 2), (2, 2, 2), groups=16),
    Problem("kernel_4", 2, 132, 132, (3, 4, 8), (4, 4, 4), (2, 2, 2), (1, 1, 1), groups=132),
    Problem("mixed_padding", 1, 8, 8, (4, 5, 7), (3, 3, 3), (2, 2, 2), (3, 1, 5), (1, 0, 1), groups=8),
    Problem("strides_differ", 2, 20, 20, (4, 5, 8), (3, 2, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1), groups=20),
    Problem("stride_1", 2, 40, 40, (4, 5, 16), (3, 3, 3), (1, 1, 1), (1, 1, 1), groups=40),
    Problem("large_kernel", 1, 8, 8, (6, 5, 9), (5, 7, 5), (1, 1, 1), (2, 3, 2), groups=8),
    Problem("dilated", 1, 12, 12, (4, 5, 9), (3, 2, 3), (2, 1, 2), (1, 2, 3), (0, 0, 1), (3, 2, 2), 12),
    Problem("no_tap", 1, 12, 12, (3, 4, 5), (3, 3, 2), (2, 2, 4), (1, 0, 1), (1, 0, 1), (2, 4, 2), 12),
    Problem("stride_8", 1, 8, 8, (3, 2, 5), (3, 9, 2), (8, 7, 5), (1, 2, 0), (7, 0, 2), groups=8),
    Problem("odd_channels", 2, 7, 7, (4, 5, 8), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=7),
    Problem("two_outputs", 2, 10, 20, (4, 5, 8), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=10),
    Problem("four_outputs", 1, 3, 12, (4, 5, 8), (2, 2, 2), (2, 2, 2), groups=3),
    Problem("two_by_two", 1, 12, 12, (4, 5, 7), (3, 3, 3), (2, 2, 2), (1, 1, 1), groups=6),
    Problem("four_inputs", 2, 12, 3, (4, 5, 8), (4, 4, 4), (2, 2, 2), (1, 1, 1), groups=3),
    Problem("one_channel", 2, 1, 1, (4, 6, 9), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    Problem("long_row", 1, 4, 4, (2, 2, 1100), (2, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1), groups=4),
    Problem("many_blocks", 4, 64, 64, (24, 24, 24), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=64),
]


def _check_integers(problem: Problem, tensors: tuple[Tensor, Tensor, Tensor | None], *, relu: bool) -> None:
    input, weight, bias = tensors
    poison(problem.output_shape)
    operator = convt3d.conv_transpose3d_relu if relu else convt3d.conv_transpose3d
    output = operator(input, weight, bias, **problem.parameters)
    expected = forward(problem, input, weight, bias)
    assert torch.equal(output, (expected.relu() if relu else expected).to(input.dtype))


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", DEPTHWISE, ids=str)
def test_integers_are_exact(problem: Problem, dtype: torch.dtype, layout: str, relu: bool) -> None:
    input, weight, bias = problem.tensors(dtype, "cuda", layout, integers=True)
    _check_integers(problem, (input, weight, bias if relu else None), relu=relu)


@settings(max_examples=200, deadline=None)
@given(
    problem=problems(batch=(1, 2), channels=4, size=9, stride=4, dilation=3, groups=40),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
    relu=st.booleans(),
)
def test_random_problem(problem: Problem, dtype: torch.dtype, layout: str, relu: bool) -> None:
    assume(problem.in_channels * problem.out_channels <= 4 * problem.groups**2)
    _check_integers(problem, problem.tensors(dtype, "cuda", layout, integers=True), relu=relu)


@pytest.mark.parametrize("allow_tf32", [False, True], ids=["fp32", "tf32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("problem", DEPTHWISE, ids=str)
def test_accuracy(problem: Problem, dtype: torch.dtype, layout: str, allow_tf32: bool) -> None:
    """Full float32, also where TF32 is allowed; the same bits every time."""
    input, weight, bias = problem.tensors(dtype, "cuda", layout)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=allow_tf32):
        output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
        again = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    assert norm_error(output, forward(problem, input, weight, bias)) <= 1.2 * NORM_FLOOR[dtype]
    assert torch.equal(output, again)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("problem", [DEPTHWISE[0], DEPTHWISE[7], DEPTHWISE[13]], ids=str)
def test_strided_inputs(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    """Slices, every second column, an expanded batch, and a weight and bias that are not dense."""
    input, weight, bias = problem.tensors(dtype, "cuda", layout, integers=True)
    wide = torch.nn.functional.pad(input, (1, 2, 0, 1, 2, 0, 1, 1)).to(memory_format=LAYOUTS[layout])
    slices = (
        wide[:, 1:-1, 2:, :-1, 1:-2],
        wide[:, 1:-1, :, :, ::2],
        wide.flip(4)[:, :-2],
        input[:1].expand(3, -1, -1, -1, -1),
    )
    sparse_weight = torch.stack((weight, weight.neg()), -1)[..., 0]
    sparse_bias = torch.stack((bias, bias.neg()), -1)[..., 0]
    for tensor in slices:
        output = convt3d.conv_transpose3d(tensor, sparse_weight, sparse_bias, **problem.parameters)
        assert torch.equal(output, forward(problem, tensor.contiguous(), weight, bias).to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_layout_of_the_weight(layout: str) -> None:
    """A channels_last_3d weight makes the output channels_last_3d whatever the input's layout is."""
    problem = DEPTHWISE[13]
    input, weight, bias = problem.tensors(torch.float32, "cuda", layout, integers=True)
    weight = weight.to(memory_format=torch.channels_last_3d)
    _check_integers(problem, (input, weight, bias), relu=False)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nan_stays_where_it_is(layout: str) -> None:
    """An input that is not finite reaches the outputs of its taps and no others, through the ReLU too."""
    problem = DEPTHWISE[0]
    input, weight, _ = problem.tensors(torch.float32, "cuda", layout, integers=True)
    weight = weight.abs() + 1
    input[1, 3, 2, 3, 5] = float("nan")
    output = convt3d.conv_transpose3d_relu(input, weight, **problem.parameters)
    expected = forward(problem, input, weight, None).relu()
    assert torch.equal(output.isnan(), expected.isnan())
    assert torch.equal(output.nan_to_num(), expected.float().nan_to_num())

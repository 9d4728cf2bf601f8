"""What the tests compare with: PyTorch's own operator in float64, on problems whose parameters all differ."""

import math
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from sizes import Int3, Sizes
from torch import Tensor

import convt3d

LAYOUTS = {"NCDHW": torch.contiguous_format, "NDHWC": torch.channels_last_3d}

# Relative norm error that the arithmetic itself may cost, and the unit roundoff of the accumulation and of the result.
NORM_FLOOR = {torch.float64: 1e-14, torch.float32: 3e-7, torch.float16: 3e-4, torch.bfloat16: 2.5e-3}
ACCUMULATION = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-24}
ROUNDING = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


@dataclass(frozen=True)
class Problem(Sizes):
    """One 3D transposed convolution that is compared, with its tensors."""

    @property
    def forward_terms(self) -> int:
        """Most products in an element of the output."""
        return self.in_channels // self.groups * math.prod(self.kernel_size)

    @property
    def input_grad_terms(self) -> int:
        """Most products in an element of the input's gradient."""
        return self.out_channels // self.groups * math.prod(self.kernel_size)

    @property
    def weight_grad_terms(self) -> int:
        """Most products in an element of the weight's gradient."""
        return self.batch * math.prod(self.input_size)

    def tensors(
        self,
        dtype: torch.dtype,
        device: str,
        layout: str = "NCDHW",
        *,
        integers: bool = False,
        requires_grad: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Input, weight and bias; `integers` makes every sum of products exact."""
        shapes = (self.input_shape, self.weight_shape, (self.out_channels,))
        input, weight, bias = (random_tensor(shape, dtype, device, integers=integers) for shape in shapes)
        if not integers:
            weight = weight / math.sqrt(self.forward_terms)  # so that the output is of order 1 in every dtype
        input, weight = (tensor.to(memory_format=LAYOUTS[layout]) for tensor in (input, weight))
        return tuple(tensor.detach().requires_grad_(requires_grad) for tensor in (input, weight, bias))  # type: ignore[return-value]

    def grad_output(self, dtype: torch.dtype, device: str, layout: str = "NCDHW", *, integers: bool = False) -> Tensor:
        tensor = random_tensor(self.output_shape, dtype, device, integers=integers)
        return tensor.to(memory_format=LAYOUTS[layout])


def random_tensor(shape: tuple[int, ...], dtype: torch.dtype, device: str, *, integers: bool = False) -> Tensor:
    if integers:
        return torch.randint(-2, 3, shape, device=device).to(dtype)
    return torch.randn(shape, device=device, dtype=torch.float32).to(dtype)


PROBLEMS = [
    Problem("all_different", 2, 6, 9, (3, 4, 5), (3, 2, 4), (2, 3, 1), (1, 0, 2), (1, 2, 0), (1, 2, 3), 3),
    Problem("kernel_is_stride", 2, 5, 7, (3, 5, 2), (2, 3, 2), (2, 3, 2)),
    Problem("stride_one", 1, 4, 6, (5, 3, 4), (3, 5, 1), (1, 1, 1), (1, 2, 0)),
    Problem("phases_without_tap", 2, 4, 6, (3, 4, 5), (3, 3, 2), (2, 2, 4), (1, 0, 1), (1, 0, 1), (2, 4, 2)),
    Problem("stride_beyond_kernel", 2, 3, 5, (4, 3, 2), (1, 2, 1), (3, 4, 5), (0, 1, 0), (2, 1, 4)),
    Problem("padding_beyond_kernel", 1, 4, 8, (5, 6, 7), (3, 2, 1), (2, 1, 1), (3, 2, 3)),
    Problem("output_padding_by_dilation", 1, 3, 2, (4, 2, 3), (2, 3, 2), (1, 1, 2), (0, 1, 1), (2, 1, 3), (3, 2, 4)),
    Problem("depthwise", 2, 6, 12, (3, 5, 4), (3, 2, 3), (2, 1, 2), (1, 0, 1), (0, 0, 1), (1, 2, 1), 6),
    Problem("pointwise", 3, 7, 5, (2, 5, 3), (1, 1, 1)),
    Problem("one_voxel", 1, 3, 4, (1, 1, 1), (2, 3, 4), (2, 1, 3), (0, 1, 1)),
    Problem("one_channel", 2, 1, 1, (3, 4, 6), (3, 2, 5), (2, 2, 1), (1, 0, 2), (1, 1, 0)),
    Problem("channels_past_a_tile", 1, 35, 67, (3, 4, 9), (2, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 0)),
    Problem("row_past_a_tile", 1, 3, 2, (2, 3, 139), (2, 1, 3), (1, 2, 2), (1, 0, 1), (0, 1, 1)),
    Problem("grouped_past_a_tile", 2, 24, 40, (3, 5, 17), (3, 3, 3), (2, 2, 2), (3, 1, 0), (1, 0, 1), (1, 1, 1), 4),
]

# The parameters of the five systems that the project grew from, on small volumes and at full size.
SYSTEMS_SMALL = [
    Problem("seed0", 2, 32, 32, (3, 4, 5), (3, 5, 7), (2, 2, 2), (1, 2, 3), (1, 1, 1), groups=4),
    Problem("seed1", 2, 32, 64, (5, 6, 5), (3, 3, 3), (2, 2, 2), (3, 3, 3), groups=4),
    Problem("seed2", 2, 32, 64, (3, 4, 5), (3, 5, 5)),
    Problem("seed3", 2, 64, 128, (3, 2, 4), (3, 3, 3)),
    Problem("seed4", 2, 32, 64, (3, 5, 4), (3, 3, 3), (2, 2, 2), (1, 1, 1), dilation=(2, 2, 2)),
]

# Past one tile of positions along each axis, past 64 and 128 rows of phases and channels, past one chunk of channels in
# shared memory, odd widths that no vector store fits, every subset of strided axes; groups that the plans of the
# tensor-core engine join, positions that they fold, sets of accumulators and runs of rows (tests/test_plan.py).
TILED = {
    problem.name: problem
    for problem in [
        Problem("positions", 2, 8, 8, (9, 18, 35), (3, 2, 3), (2, 2, 2), (1, 0, 1), (0, 1, 1)),
        Problem("rows", 1, 12, 150, (3, 9, 10), (2, 3, 2), (2, 2, 2), (0, 1, 0), (0, 0, 1)),
        Problem("rows_of_channels", 1, 20, 200, (4, 9, 11), (3, 1, 3), (1, 1, 1), (1, 0, 2)),
        Problem("chunks", 1, 520, 24, (3, 4, 9), (2, 2, 2), (2, 2, 2)),
        Problem("wide_halo", 1, 33, 16, (7, 12, 17), (5, 6, 7), (1, 1, 1), (2, 0, 3)),
        Problem("strided_depth", 2, 9, 10, (5, 10, 12), (3, 2, 2), (2, 1, 1), (1, 1, 0), (1, 0, 0)),
        Problem("strided_height", 2, 9, 24, (5, 10, 12), (3, 4, 2), (1, 2, 1), (1, 1, 0), (0, 1, 0)),
        Problem("strided_width", 2, 9, 70, (5, 10, 12), (1, 2, 5), (1, 1, 2), (0, 1, 2), (0, 0, 1)),
        Problem("no_tap", 2, 16, 24, (4, 9, 10), (3, 3, 3), (2, 2, 2), (1, 1, 1), (0, 1, 0), (2, 2, 2)),
        Problem("dilated", 1, 12, 20, (5, 9, 16), (3, 2, 3), (2, 1, 2), (1, 2, 0), (0, 0, 1), (3, 2, 1), 2),
        Problem("groups", 1, 24, 48, (4, 9, 17), (3, 3, 3), (2, 2, 2), (1, 0, 1), (1, 0, 1), groups=3),
        Problem("narrow_rows", 1, 32, 40, (25, 23, 2), (2, 2, 2), (2, 2, 2)),
        Problem("narrow_width", 1, 32, 24, (5, 40, 4), (1, 1, 1)),
        Problem("shared_rows", 1, 16, 24, (4, 20, 92), (1, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1)),
        Problem("shared_rows_of_64", 1, 16, 64, (3, 20, 96), (2, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1)),
        Problem("joined", 2, 32, 40, (4, 9, 18), (3, 4, 3), (2, 2, 2), (1, 2, 1), (1, 0, 1), groups=8),
        Problem("not_joined", 1, 21, 30, (4, 9, 18), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 0, 1), groups=3),
        Problem("joined_four", 2, 16, 72, (3, 9, 20), (3, 2, 3), (1, 2, 1), (1, 0, 1), groups=4),
        Problem("folded", 8, 32, 6, (9, 13, 40), (5, 4, 2), (1, 1, 2), (0, 2, 0)),
        Problem("folded_depth", 6, 40, 15, (12, 20, 32), (5, 1, 4), (1, 1, 1), (2, 0, 2)),
        Problem("folded_height", 6, 24, 31, (14, 12, 29), (3, 5, 2), (1, 1, 1)),
        Problem("folded_dilated", 8, 64, 16, (16, 30, 31), (2, 4, 3), (1, 1, 1), (1, 0, 0), (0, 0, 0), (2, 1, 2)),
        Problem("height_sets", 8, 32, 64, (6, 13, 29), (3, 3, 3), (2, 2, 2), (1, 1, 1)),
        Problem("height_sets_of_groups", 16, 32, 72, (6, 13, 29), (3, 4, 3), (2, 2, 2), (1, 1, 1), groups=2),
        Problem("channel_sets", 4, 64, 40, (8, 14, 32), (2, 2, 2), (2, 2, 2)),
        Problem("channel_sets_of_groups", 4, 64, 64, (6, 14, 30), (2, 1, 2), (2, 1, 2), groups=2),
        Problem("runs_of_rows", 8, 32, 40, (6, 23, 34), (3, 2, 3), (1, 1, 1), (1, 0, 0)),
        Problem("runs_in_a_row", 2, 8, 16, (4, 9, 200), (3, 3, 3), (2, 2, 2), (1, 1, 1)),
        # More items than the blocks know of at the launch: of one weight, of three that blocks keep, of chunks.
        Problem("many_items", 660, 8, 24, (3, 9, 12), (2, 3, 2), (2, 2, 2), (0, 1, 1), (1, 0, 1)),
        Problem("many_items_of_groups", 220, 24, 48, (4, 7, 18), (3, 2, 3), (2, 2, 2), (1, 0, 1), (0, 1, 1), groups=3),
        Problem("many_items_of_chunks", 210, 64, 70, (4, 7, 18), (3, 2, 3), (1, 2, 2), (1, 0, 1), (0, 1, 1)),
        # Images that share a tile of a contiguous width, from boxes of whole planes, of 8 and of 4 images.
        Problem("image_planes", 60, 136, 72, (4, 3, 4), (4, 3, 4), (2, 2, 2), (1, 0, 1), (1, 1, 0)),
        Problem("image_planes_unstrided", 43, 44, 200, (3, 4, 4), (3, 4, 3), (1, 1, 1), (0, 1, 1)),
        Problem("image_planes_of_groups", 45, 180, 80, (3, 4, 4), (3, 4, 4), (2, 2, 2), (1, 1, 1), groups=2),
        Problem("image_planes_of_four", 62, 132, 200, (5, 4, 4), (4, 3, 4), (1, 1, 2), (0, 1, 1)),
        # ... of which a warp keeps one phase of the width until it has the other.
        Problem("image_pairs", 45, 68, 72, (5, 4, 4), (4, 5, 6), (2, 1, 2), (0, 1, 1)),
        Problem("phase_halos", 2, 136, 48, (6, 9, 20), (4, 6, 4), (2, 2, 2), (1, 2, 1), (1, 0, 1)),
        # Rows of positions: parts of whole rows, a tile's width, of groups, in chunks, and of a height of one tap.
        Problem("position_rows", 3, 48, 40, (5, 12, 16), (2, 2, 2), (2, 2, 2)),
        Problem("position_rows_of_a_width", 2, 24, 72, (3, 9, 96), (1, 2, 2), (1, 2, 2)),
        Problem("position_rows_of_groups", 2, 96, 48, (4, 13, 64), (2, 1, 2), (2, 1, 2), groups=2),
        Problem("position_rows_of_chunks", 2, 312, 56, (6, 8, 8), (2, 2, 2), (2, 2, 2)),
        Problem("position_rows_of_one_tap", 2, 40, 80, (5, 11, 32), (1, 2, 1), (2, 2, 1), (0, 0, 0), (1, 0, 0)),
        # ... whose phases each begin elsewhere along the depth or the height, and of an output wider than the input.
        Problem("position_rows_of_phases", 2, 8, 34, (2, 16, 8), (2, 2, 2), (2, 2, 2), (1, 0, 0), (1, 1, 0), groups=2),
        Problem("position_rows_moved", 2, 24, 72, (4, 9, 96), (2, 2, 2), (2, 2, 2), (1, 3, 0), (0, 1, 0)),
        Problem("position_rows_in_depth", 3, 80, 64, (19, 20, 8), (2, 2, 2), (2, 2, 2), (1, 0, 0), (1, 1, 0)),
        Problem(
            "position_rows_past_the_width",
            3,
            48,
            40,
            (5, 12, 16),
            (1, 1, 1),
            (1, 1, 1),
            (0, 0, 0),
            (0, 0, 16),
            (1, 1, 17),
        ),
        Problem("images", 10, 16, 40, (4, 5, 3), (4, 3, 4), (2, 2, 2), (1, 0, 1)),
    ]
}
SYSTEMS = [
    Problem("seed0", 16, 32, 32, (16, 32, 64), (3, 5, 7), (2, 2, 2), (1, 2, 3), (1, 1, 1), groups=4),
    Problem("seed1", 16, 32, 64, (16, 32, 32), (3, 3, 3), (2, 2, 2), (3, 3, 3), groups=4),
    Problem("seed2", 16, 32, 64, (64, 64, 64), (3, 5, 5)),
    Problem("seed3", 16, 64, 128, (32, 32, 32), (3, 3, 3)),
    Problem("seed4", 16, 32, 64, (16, 32, 32), (3, 3, 3), (2, 2, 2), (1, 1, 1), dilation=(2, 2, 2)),
]


@st.composite
def problems(
    draw: st.DrawFn,
    batch: tuple[int, int] = (0, 3),
    channels: int = 5,
    size: int = 4,
    stride: int = 3,
    dilation: int = 3,
    groups: int = 3,
    kernel: int = 4,
) -> Problem:
    """Any small valid problem; the arguments are the least and largest batch, and the largest of the others."""

    def three(high: int) -> Int3:
        first, second, third = (draw(st.integers(1, high)) for _ in range(3))
        return first, second, third

    group_count = draw(st.integers(1, groups))
    sizes, kernels, strides, dilations = three(size), three(kernel), three(stride), three(dilation)
    output_padding, padding = [], []
    for axis in range(3):
        output_padding.append(draw(st.integers(0, max(strides[axis], dilations[axis]) - 1)))
        unpadded = (sizes[axis] - 1) * strides[axis] + dilations[axis] * (kernels[axis] - 1) + output_padding[axis] + 1
        padding.append(draw(st.integers(0, (unpadded - 1) // 2)))
    return Problem(
        "random",
        draw(st.integers(*batch)),
        group_count * draw(st.integers(1, channels)),
        group_count * draw(st.integers(1, channels)),
        sizes,
        kernels,
        strides,
        tuple(padding),  # type: ignore[arg-type]
        tuple(output_padding),  # type: ignore[arg-type]
        dilations,
        group_count,
    )


def pytorch_is_sound(dtype: torch.dtype, device: str) -> bool:
    """False for 16-bit convolutions on the CPU: oneDNN's may be wrong, or crash, on processors with AMX."""
    return device != "cpu" or dtype in (torch.float32, torch.float64)


def _reference_device(problem: Problem, tensor: Tensor) -> torch.device:
    """The CPU, where no algorithm by transforms makes sums of integers inexact, unless that would take seconds."""
    products = math.prod(problem.output_shape) * problem.forward_terms
    return tensor.device if products > 2e8 else torch.device("cpu")


def forward(problem: Problem, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The output in float64."""
    device = _reference_device(problem, input)
    wide = (None if tensor is None else tensor.detach().to(device).double() for tensor in (input, weight, bias))
    return F.conv_transpose3d(*wide, **problem.parameters).to(input.device)


def gradients(
    problem: Problem, grad_output: Tensor, input: Tensor, weight: Tensor, relu_output: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input, weight and bias in float64; grad_output counts where relu_output > 0."""
    device = _reference_device(problem, input)
    grad = grad_output.detach().to(device).double()
    if relu_output is not None:
        grad = torch.where(relu_output.detach().to(device) > 0, grad, 0)
    wide = (tensor.detach().to(device).double() for tensor in (input, weight))
    by_input, by_weight, _ = torch.ops.aten.convolution_backward(
        grad,
        *wide,
        None,
        problem.stride,
        problem.padding,
        problem.dilation,
        True,
        problem.output_padding,
        problem.groups,
        [True, True, False],
    )
    by_bias = grad.sum((0, 2, 3, 4))
    return by_input.to(input.device), by_weight.to(input.device), by_bias.to(input.device)


def norm_error(actual: Tensor, expected: Tensor) -> float:
    """Relative error in the norm; the two may be on different devices."""
    norm = expected.norm().item()
    difference = (actual.detach().double().to(expected.device) - expected).norm().item()
    return difference / norm if norm else difference


def assert_accurate(
    actual: Tensor, expected: Tensor, magnitude: Tensor, terms: int, *, pytorch: Tensor | None = None
) -> None:
    """Holds `actual` to what its dtype allows.

    Its relative norm error is at most 1.2 times the larger of the dtype's own and that of `pytorch`, the same result by
    PyTorch in the same dtype. Beside it, so that no local error hides in the norm, each element is off by at most the
    result's rounding and by what a sum of `terms` products accumulates at random (8 standard deviations), where
    `magnitude` is the sum of the products' absolute values.
    """
    assert actual.shape == expected.shape
    allowed = NORM_FLOOR[actual.dtype]
    if pytorch is not None:
        allowed = max(allowed, norm_error(pytorch, expected))
    error = norm_error(actual, expected)
    assert error <= 1.2 * allowed, f"relative norm error {error:.3g}, allowed 1.2 * {allowed:.3g}"

    tiny = torch.finfo(actual.dtype).tiny
    accumulated = 8 * math.sqrt(max(terms, 1)) * ACCUMULATION[actual.dtype] * magnitude
    bound = 2 * ROUNDING[actual.dtype] * expected.abs() + accumulated + tiny
    excess = (actual.detach().double() - expected).abs() / bound
    if excess.numel():
        worst = excess.argmax()
        assert excess.flatten()[worst] <= 1, (
            f"element {tuple(int(index) for index in torch.unravel_index(worst, excess.shape))}: "
            f"{actual.detach().flatten()[worst].item()} for {expected.flatten()[worst].item()}, "
            f"{excess.flatten()[worst].item():.3g} times the bound"
        )


def poison(*shapes: tuple[int, ...]) -> None:
    """Leaves NaN in the free blocks of the CUDA allocator that the next results and workspaces will come from."""
    if not torch.cuda.is_available():
        return
    bytes_of_blocks = [1 << power for power in range(9, 25)]
    bytes_of_blocks += [math.prod(shape) * size for shape in shapes for size in (2, 4, 8)]
    blocks = [
        torch.full((max(count // 8, 1),), math.nan, device="cuda", dtype=torch.float64) for count in bytes_of_blocks
    ]
    del blocks


def environment() -> dict[str, str]:
    """The environment of a new Python process that imports the convt3d under test.

    One that a signal ends says where it was, in all threads.
    """
    return {**os.environ, "PYTHONPATH": str(Path(convt3d.__file__).resolve().parents[1]), "PYTHONFAULTHANDLER": "1"}


def run_python(program: str, *args: str, timeout: float | None = None) -> str:
    """What a new Python process prints that runs `program` with the convt3d under test, and with TF32 off like here."""
    with tempfile.TemporaryDirectory() as elsewhere:  # so that a checkout in the working directory does not come first
        result = subprocess.run(
            [sys.executable, "-c", f"import torch\ntorch.backends.cudnn.allow_tf32 = False\n{program}", *args],
            capture_output=True,
            text=True,
            cwd=elsewhere,
            env=environment(),
            timeout=timeout,
        )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()

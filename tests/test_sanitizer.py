"""Every operator on tiny tensors, for compute-sanitizer, under which a kernel takes 50 times as long:
compute-sanitizer --tool memcheck python -m pytest -m sanitizer tests
"""

import pytest
import torch
from cases import Case
from checking import check
from reference import LAYOUTS, Problem, forward, gradients
from trait_coverage import read

pytestmark = [pytest.mark.cuda, pytest.mark.sanitizer]
ops = torch.ops.convt3d

# The channels of all outputs are no multiples of 16 bytes, and with contiguous channels threads store them: initcheck
# does not see what the copy engine stores.
TINY = [
    Problem("odd", 1, 3, 5, (2, 3, 5), (3, 2, 1), (2, 1, 3), (1, 0, 0), (1, 0, 2), (1, 2, 1)),
    Problem("grouped", 2, 6, 9, (1, 3, 7), (1, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 0), (1, 1, 2), 3),
    Problem("channels_past_a_fragment", 1, 17, 33, (2, 2, 9), (2, 1, 3), (1, 1, 1), (0, 0, 1)),
    Problem("joined", 1, 16, 6, (2, 3, 8), (2, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 0), groups=2),
    Problem("position_rows", 1, 24, 9, (2, 3, 16), (2, 1, 2), (2, 1, 2)),
    Problem("position_rows_of_phases", 1, 8, 9, (2, 3, 16), (2, 2, 2), (2, 2, 2), (1, 0, 0), (1, 1, 0)),
    Problem("depthwise", 2, 12, 12, (2, 3, 8), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=12),
    Problem("depthwise_long_kernel", 2, 5, 5, (2, 5, 9), (2, 7, 3), (1, 2, 2), (0, 3, 1), (0, 1, 0), groups=5),
    Problem("depthwise_quads", 1, 12, 12, (2, 9, 8), (5, 3, 3), (2, 1, 1), (2, 1, 1), (1, 0, 0), groups=12),
    Problem("two_outputs_of_a_channel", 1, 5, 10, (2, 3, 5), (2, 3, 3), (1, 2, 3), (0, 1, 1), (0, 1, 0), (1, 2, 1), 5),
]
# Large enough for folded positions.
FOLDED = Problem("folded", 4, 32, 6, (9, 13, 39), (5, 4, 2), (1, 1, 2), (0, 2, 0))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("problem", TINY, ids=str)
def test_every_operator(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    input, weight, bias = problem.tensors(dtype, "cuda", layout, integers=True)
    grad_output = problem.grad_output(dtype, "cuda", layout, integers=True)
    parameters = problem.parameters
    expected = forward(problem, input, weight, bias)
    assert torch.equal(ops.conv_transpose3d(input, weight, bias, **parameters), expected.to(dtype))
    relu_output = ops.conv_transpose3d_relu(input, weight, bias, **parameters)
    assert torch.equal(relu_output, expected.relu().to(dtype))
    for mask in (None, relu_output):
        actual = (
            ops.conv_transpose3d_input_grad(grad_output, weight, mask, **parameters),
            ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, mask, **parameters),
            ops.conv_transpose3d_bias_grad(grad_output, mask),
        )
        for result, wanted in zip(actual, gradients(problem, grad_output, input, weight, mask), strict=True):
            assert torch.equal(result, wanted.to(dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_folded_positions(dtype: torch.dtype, layout: str) -> None:
    operands = FOLDED.tensors(dtype, "cuda", layout, integers=True)
    output = ops.conv_transpose3d(*operands, **FOLDED.parameters)
    assert torch.equal(output, forward(FOLDED, *operands).to(dtype))


@pytest.fixture(scope="module")
def claiming() -> dict[str, Case]:
    """By the way of loading, the smallest call of the covering set whose blocks claim work tiles one after another."""
    smallest: dict[str, Case] = {}
    for case in sorted(read(), key=lambda case: case.products):
        traits = case.traits()
        if traits.get("work_tiles") == "claimed":
            smallest.setdefault(traits["load"], case)
    return smallest


@pytest.mark.parametrize("load", ["threads", "threads_pieces", "copy", "copy_n_major", "transpose", "transpose_planes"])
def test_work_tiles_that_blocks_claim(load: str, claiming: dict[str, Case]) -> None:
    check(claiming[load], "cuda")

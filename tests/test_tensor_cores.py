"""Forward on the tensor cores: float32, TF32 and 16-bit types, on sizes that reach past one tile of every kind.

Small integers are exact in TF32 too, so that one wrong, missing or doubled product shows; random values hold the
accuracy.
"""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from precisions import DTYPES
from reference import LAYOUTS, PROBLEMS, SYSTEMS_SMALL, TILED, Problem, forward, norm_error, poison, problems

import convt3d
from convt3d._explain.asking import only_engine
from convt3d._explain.plan import cuda_device

pytestmark = pytest.mark.cuda

FLOORS = {"fp32": 3e-7, "tf32": 3.5e-4}
# Times an integer of at most 11 bits: a TF32 number and a rest, which float32 holds and its sums do not round.
TWO_TERMS = 4097


def _run(problem: Problem, precision: str, *operands: torch.Tensor, relu: bool = False) -> torch.Tensor:
    operator = convt3d.conv_transpose3d_relu if relu else convt3d.conv_transpose3d
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"):
        return operator(*operands, **problem.parameters)


def _joined_groups(problem: Problem, precision: str, *operands: torch.Tensor) -> int:
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"):
        plan = convt3d.explain(*operands, **problem.parameters).plan
    found = re.search(r" joined=(\d+)", plan)
    return 1 if found is None else int(found[1])  # some engines say so only where they join any


def _check_integers(problem: Problem, precision: str, layout: str, *, relu: bool) -> None:
    input, weight, bias = problem.tensors(DTYPES[precision], "cuda", layout, integers=True)
    if precision == "fp32":
        (weight if relu else input).mul_(TWO_TERMS)
    poison(problem.output_shape)
    output = _run(problem, precision, input, weight, bias, relu=relu)
    expected = forward(problem, input, weight, bias)
    assert torch.equal(output, (expected.relu() if relu else expected).to(output.dtype))


@pytest.mark.parametrize("relu", [False, True], ids=["plain", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("problem", [*TILED.values(), *PROBLEMS, *SYSTEMS_SMALL], ids=str)
def test_integers_are_exact(problem: Problem, precision: str, layout: str, relu: bool) -> None:
    _check_integers(problem, precision, layout, relu=relu)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", DTYPES)
@pytest.mark.parametrize("problem", TILED.values(), ids=str)
def test_integers_are_exact_on_halo_wgmma(problem: Problem, precision: str, layout: str) -> None:
    """The plans that these problems stand for, also where another engine is expected to be faster."""
    if not cuda_device(torch.device("cuda")).has("halo_wgmma"):
        pytest.skip("needs compute capability 9.0 and its machine code")
    with only_engine("halo_wgmma"):
        _check_integers(problem, precision, layout, relu=False)


@settings(max_examples=350, deadline=None)
@given(
    problem=problems(batch=(1, 2), channels=130, size=18, stride=2, dilation=2, groups=2)
    | problems(batch=(8, 40), channels=130, size=6, stride=2, dilation=2, groups=2),
    precision=st.sampled_from(sorted(DTYPES)),
    layout=st.sampled_from(sorted(LAYOUTS)),
    relu=st.booleans(),
)
def test_random_problem(problem: Problem, precision: str, layout: str, relu: bool) -> None:
    """Volumes past a tile, and small ones of enough images that some share a tile."""
    _check_integers(problem, precision, layout, relu=relu)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", FLOORS)
@pytest.mark.parametrize("problem", [*TILED.values(), *SYSTEMS_SMALL], ids=str)
def test_accuracy(problem: Problem, precision: str, layout: str) -> None:
    """TF32 is rounded, not cut off; float32 keeps its own accuracy. Both repeat themselves."""
    operands = problem.tensors(torch.float32, "cuda", layout)
    output = _run(problem, precision, *operands)
    assert norm_error(output, forward(problem, *operands)) <= 1.2 * FLOORS[precision]
    assert torch.equal(output, _run(problem, precision, *operands))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("layout", [*LAYOUTS, "strided"])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16"])
@pytest.mark.parametrize("name", ["positions", "no_tap", "dilated", "joined", "folded", "position_rows_of_groups"])
def test_not_finite(name: str, precision: str, layout: str, value: float) -> None:
    """What is not finite stays so, and reaches nothing but the outputs beside its own."""
    problem = TILED[name]
    dtype = DTYPES[precision]
    input, weight, bias = problem.tensors(dtype, "cuda", "NCDHW" if layout == "strided" else layout, integers=True)
    weight = weight.clamp(min=1)  # where a product is 0 * inf, the reference is not finite either
    where = (0, problem.in_channels - 1, problem.input_size[0] // 2, 3, 4)
    expected = forward(problem, input, weight, bias).to(dtype)
    input[where] = value
    if layout == "strided":
        input = torch.nn.functional.pad(input, (1, 2, 0, 1, 2, 0))[..., 2:, :-1, 1:-2]
    reached = ~forward(problem, input, weight, bias).isfinite()
    # Groups that the plan joins are one for what is not finite.
    groups = problem.groups // _joined_groups(problem, precision, input, weight, bias)
    joined = reached.unflatten(1, (groups, -1))
    joined = joined.any(2, keepdim=True).expand_as(joined).flatten(1, 2)
    beside = torch.nn.functional.max_pool3d(joined.float(), 3, 1, 1) > 0
    output = _run(problem, precision, input, weight, bias)
    assert not output[reached].isfinite().any()
    assert torch.equal(output[~beside], expected[~beside])


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        *((name, mode) for name in ["positions", "folded_height", "image_planes_of_four"] for mode in ["fp32", "tf32"]),
        *((name, "fp16") for name in ["positions", "position_rows", "position_rows_of_a_width"]),
    ],
)
def test_strided_inputs(name: str, precision: str) -> None:
    """Slices and an expanded batch, which no vector load fits, and a slice whose rows are aligned but apart."""
    problem = TILED[name]
    input, weight, bias = problem.tensors(DTYPES[precision], "cuda", integers=True)
    if precision == "fp32":
        input = input * TWO_TERMS
    pad = torch.nn.functional.pad
    wide = pad(input, (1, 2, 0, 1, 2, 0)).to(memory_format=torch.channels_last_3d)
    apart = pad(input, (8, 16, 1, 0))[..., 1:, 8:-16]
    for tensor in (wide[:, 1:, 2:, :-1, 1:-2], input[:1].expand(3, -1, -1, -1, -1), input[:, :, 1:], apart):
        channels = weight[: tensor.shape[1]]
        output = _run(problem, precision, tensor, channels, bias)
        expected = forward(problem, tensor.contiguous(), channels, bias)
        assert torch.equal(output, expected.to(output.dtype))


def test_large_and_small_float32() -> None:
    """Splitting float32 in two overflows nowhere, and is as accurate at every scale whose rests float32 holds."""
    problem = SYSTEMS_SMALL[2]
    input, weight, bias = problem.tensors(torch.float32, "cuda")
    largest = torch.finfo(torch.float32).max / input.abs().max().item() * 0.999
    for input_scale, weight_scale in ((largest, 1e-4), (1e-30, 1e4)):
        scaled, weights = input * input_scale, weight * weight_scale
        output = _run(problem, "fp32", scaled, weights, bias)
        assert norm_error(output, forward(problem, scaled, weights, bias)) <= 1.2 * FLOORS["fp32"]


def test_switch_is_read_at_every_call() -> None:
    """With TF32 forbidden the same call keeps float32's accuracy."""
    problem = SYSTEMS_SMALL[2]
    input, weight, bias = problem.tensors(torch.float32, "cuda")
    expected = forward(problem, input, weight, bias)
    errors = [norm_error(_run(problem, mode, input, weight, bias), expected) for mode in ("fp32", "tf32", "fp32")]
    assert errors[0] == errors[2] <= 1.2 * FLOORS["fp32"]
    assert FLOORS["fp32"] < errors[1] <= 1.2 * FLOORS["tf32"]

"""How a norm behind a forward is computed: what is planned, and that each way gives the same on a GPU."""

from __future__ import annotations

import pytest
import torch
from reference import LAYOUTS, PROBLEMS, Problem, norm_error, poison
from test_group_norm import ORDERS, affine, call, doubled, reference
from torch import Tensor

from convt3d._explain.asking import NORM_WAYS, only_norm_way
from convt3d._explain.operands import dense_operands
from convt3d._explain.plan import OperatorPlan, known_device, operator_plan
from convt3d._layer import Layer

BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}


def layer(kernel: int, stride: int, *, channels: tuple[int, int] = (64, 32), size: int = 48, groups: int = 1) -> Layer:
    triple = (kernel, kernel, kernel)
    return Layer(
        "",
        batch=2,
        in_channels=channels[0],
        out_channels=channels[1],
        input_size=(size, size, size),
        kernel_size=triple,
        stride=(stride, stride, stride),
        padding=(0, 0, 0),
        output_padding=(0, 0, 0),
        dilation=(1, 1, 1),
        groups=groups,
        bias=True,
    )


def planned(
    of: Layer,
    precision: str,
    capability: tuple[int, int] = (9, 0),
    *,
    result_bytes: int | None = None,
    layout: str = "NDHWC",
) -> OperatorPlan:
    operands = dense_operands(of, "forward", layout)
    bytes = BYTES[precision] if result_bytes is None else result_bytes
    return operator_plan(of, "forward", precision, operands, known_device(capability), norm_result_bytes=bytes)


def pass_ms(of: Layer, precision: str, capability: tuple[int, int] = (9, 0)) -> float:
    """Of one pass over the output at the memory's peak."""
    outputs = of.batch * of.out_channels
    for size in of.output_shape[2:]:
        outputs *= size
    return outputs * BYTES[precision] / known_device(capability).bytes_per_ms


def test_no_norm() -> None:
    plan = operator_plan(
        layer(2, 2), "forward", "tf32", dense_operands(layer(2, 2), "forward", "NCDHW"), known_device((9, 0))
    )
    assert (plan.norm_way, plan.norm_ms) == (None, 0)


def test_twice_where_storing_takes_the_time() -> None:
    of = layer(2, 2)
    plan = planned(of, "tf32")
    assert plan.norm_way == "twice"
    assert plan.norm_ms < 2 * pass_ms(of, "tf32")  # what a pass that normalises moves


def test_never_twice_where_the_result_has_another_type() -> None:
    of = layer(2, 2)
    assert planned(of, "bf16").norm_way == "twice"
    assert planned(of, "bf16", result_bytes=4).norm_way == "epilogue"


def test_once_where_products_take_the_time() -> None:
    of = layer(3, 1, channels=(256, 128), size=16)
    plan = planned(of, "tf32")
    assert plan.norm_way == "epilogue"
    assert 2 * pass_ms(of, "tf32") < plan.norm_ms < 2.5 * pass_ms(of, "tf32") + 0.02


@pytest.mark.parametrize(
    ("of", "precision"),
    [(layer(2, 2), "fp64"), (layer(2, 2, channels=(32, 32), groups=32), "fp16")],
    ids=["fp64", "depthwise"],
)
def test_passes_where_the_engine_gathers_nothing(of: Layer, precision: str) -> None:
    plan = planned(of, precision)
    assert plan.norm_way == "passes"
    assert plan.norm_ms > 3 * pass_ms(of, precision)


@pytest.mark.parametrize(
    ("capability", "contiguous_width"),
    [
        ((8, 0), "passes"),  # its memory is fast beside its multiprocessors
        ((8, 6), "epilogue"),
        ((8, 9), "epilogue"),
        ((10, 0), "passes"),
        ((12, 0), "epilogue"),
    ],
    ids=str,
)
def test_portable_engine_gathers_where_memory_is_slow(capability: tuple[int, int], contiguous_width: str) -> None:
    of = layer(3, 1, channels=(64, 64))
    for layout, way in (("NCDHW", contiguous_width), ("NDHWC", "epilogue")):  # a pass is slow where channels are last
        plan = planned(of, "fp16", capability, layout=layout)
        assert (plan.engine, plan.norm_way) == ("mma", way)


# ---- on a GPU ----

GPU_PROBLEMS = {
    problem.name: problem
    for problem in (
        PROBLEMS[0],
        Problem("halves", 2, 24, 20, (5, 9, 13), (2, 2, 2), (2, 2, 2)),
        Problem("three", 3, 17, 35, (7, 6, 11), (3, 3, 3), (1, 1, 1), (1, 0, 1)),
        Problem("four", 2, 32, 16, (6, 7, 9), (4, 4, 4), (2, 2, 2), (1, 1, 1)),
        Problem("grouped", 2, 32, 48, (5, 8, 7), (2, 3, 3), (2, 1, 2), groups=4),
        Problem("few", 2, 40, 3, (9, 10, 11), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    )
}


def tensors_of(problem: Problem, dtype: torch.dtype, layout: str) -> tuple[Tensor, ...]:
    return (*problem.tensors(dtype, "cuda", layout), *affine(problem, dtype, "cuda"))


def groups_of(problem: Problem) -> int:
    return next(groups for groups in (4, 3, 7, 5, 1) if problem.out_channels % groups == 0)


@pytest.mark.cuda
@pytest.mark.parametrize("order", ["relu_norm", "norm_leaky_relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("name", GPU_PROBLEMS)
def test_each_way(name: str, precision: str, layout: str, order: str) -> None:
    problem = GPU_PROBLEMS[name]
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)
    tensors = tensors_of(problem, dtype, layout)
    groups = groups_of(problem)
    expected = reference(doubled(tensors), problem, groups, ORDERS[order])
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"):
        pytorchs = norm_error(reference(tensors, problem, groups, ORDERS[order]), expected)
        results = {}
        for way in NORM_WAYS:
            poison(problem.output_shape)
            with only_norm_way(way):
                results[way] = call(tensors, problem, groups, ORDERS[order])
                assert torch.equal(call(tensors, problem, groups, ORDERS[order]), results[way])
    floor = {"fp32": 1e-6, "tf32": 3.5e-4, "fp16": 0, "bf16": 0}[precision]
    for way, result in results.items():
        assert norm_error(result, expected) <= 1.2 * max(pytorchs, floor), way
    # What is normalised is the same number, wherever that happens.
    assert torch.equal(results["twice"], results["epilogue"])


@pytest.mark.cuda
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", NORM_WAYS)
def test_a_large_mean_loses_nothing(way: str, layout: str) -> None:
    problem = GPU_PROBLEMS["halves"]
    input, weight, _, *of_norm = tensors_of(problem, torch.float32, layout)
    bias = torch.full((problem.out_channels,), 1000.0, device="cuda")
    tensors = (input, weight, bias, *of_norm)
    expected = reference(doubled(tensors), problem, 4, ORDERS["norm"])
    with torch.no_grad(), only_norm_way(way), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        error = norm_error(call(tensors, problem, 4, ORDERS["norm"]), expected)
        pytorchs = norm_error(reference(tensors, problem, 4, ORDERS["norm"]), expected)
    assert error <= 1.2 * max(pytorchs, 5e-5)  # half a digit of 1000, over a deviation near 1


@pytest.mark.cuda
def test_with_and_without_derivatives_are_the_same() -> None:
    problem = GPU_PROBLEMS["halves"]
    tensors = tensors_of(problem, torch.float16, "NCDHW")

    def result() -> torch.Tensor:
        return call(tensors, problem, 4, ORDERS["relu_norm"])

    chosen = result()
    with torch.no_grad():
        assert torch.equal(result(), chosen)
    with only_norm_way("epilogue"):
        by_epilogue = result()
    for way in ("epilogue", "twice"):
        with torch.no_grad(), only_norm_way(way):
            assert torch.equal(result(), by_epilogue)


@pytest.mark.cuda
def test_nan_stays() -> None:
    problem = GPU_PROBLEMS["three"]
    tensors = tensors_of(problem, torch.float32, "NCDHW")
    tensors[0][0, 3, 2, 2, 2] = float("nan")
    for way in NORM_WAYS:
        with torch.no_grad(), only_norm_way(way):
            result = call(tensors, problem, 7, ORDERS["norm"])
        assert result[0].isnan().all(), way
        assert not result[1:].isnan().any(), way

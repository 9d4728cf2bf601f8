"""The transposed convolution with a group norm under PyTorch's transforms: derivatives of any order, vmap, compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from packaged import assert_same_packaged
from reference import LAYOUTS, PROBLEMS, Problem
from test_group_norm import ALL_DIFFERENT, ORDERS, Order, affine, call, geometry
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import convt3d
from convt3d._explain import measuring
from convt3d._explain.plan import known_device
from convt3d._explain.recording import record

if TYPE_CHECKING:
    from pathlib import Path

ops = torch.ops.convt3d
NAMES = ["conv_transpose3d_group_norm", "conv_transpose3d_group_norm_forward", "conv_transpose3d_relu_group_norm"]


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Order:
    return ORDERS[request.param]


def small(dtype: torch.dtype = torch.float64, device: str = "cpu") -> tuple[Tensor, ...]:
    shapes = ((2, 2, 2, 1, 2), (2, 4, 2, 1, 1), (4,), (4,), (4,))
    return tuple(torch.randn(shape, dtype=dtype, device=device, requires_grad=True) for shape in shapes)


def on_small(order: Order, output: int = 0) -> Any:
    """One of the outputs of the functional form, as a function of the tensors."""

    def function(input: Tensor, weight: Tensor, bias: Tensor, norm_weight: Tensor, norm_bias: Tensor) -> Tensor:
        results: tuple[Tensor, ...] = ops.conv_transpose3d_group_norm_forward(
            input, weight, bias, [2, 1, 1], [1, 0, 0], [0, 0, 0], 1, [1, 1, 1], 2, norm_weight, norm_bias, 1e-5,
            order.relu, order.negative_slope,
        )  # fmt: skip
        return results[output]

    return function


def arguments(problem: Problem, tensors: tuple[Tensor, ...], name: str, order: Order) -> tuple[Any, ...]:
    args = (*tensors[:3], *geometry(problem), 3, *tensors[3:], 1e-5)  # type: ignore[arg-type]
    return args if "relu" in name else (*args, order.relu, order.negative_slope)


@pytest.mark.parametrize("output", [0, 1])
def test_gradcheck(output: int, order: Order) -> None:
    function, tensors = on_small(order, output), small()
    assert torch.autograd.gradcheck(function, tensors, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, tensors, atol=1e-4)


def test_backward_of_the_norm_alone(order: Order) -> None:
    input = torch.randn(2, 4, 2, 1, 3, dtype=torch.float64).requires_grad_()
    weight, bias = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    grad = torch.randn_like(input, requires_grad=True)
    split = input.detach().reshape(2, 2, -1)
    mean, rstd = split.mean(2), (split.var(2, correction=0) + 1e-5).rsqrt()

    def function(grad: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        results: tuple[Tensor, ...] = ops.group_norm_backward(
            grad, input, mean, rstd, weight, bias, 2, order.relu, order.negative_slope
        )
        return results

    with torch.no_grad():
        computed = function(grad, weight, bias)
    for actual, composite in zip(computed, function(grad, weight, bias), strict=True):
        torch.testing.assert_close(actual, composite)
    assert torch.autograd.gradcheck(function, (grad, weight, bias))


def test_hessian(order: Order) -> None:
    input, *others = (tensor.detach() for tensor in small())
    function = on_small(order)

    def total(values: Tensor) -> Tensor:
        result: Tensor = function(values, *others).pow(3).sum()
        return result

    by_transforms = torch.func.hessian(total)(input)
    torch.testing.assert_close(by_transforms, torch.autograd.functional.hessian(total, input))
    reverse_twice = torch.func.jacrev(torch.func.jacrev(total))(input)
    torch.testing.assert_close(by_transforms, reverse_twice)


@pytest.mark.parametrize("mapped", [(0,), (0, 1), (1, 2), (3, 4), (0, 1, 2, 3, 4)], ids=str)
def test_vmap(mapped: tuple[int, ...], order: Order) -> None:
    tensors = [tensor.detach() for tensor in small()]
    dims: list[int | None] = [None] * 5
    for i in mapped:
        tensors[i] = torch.randn(3, *tensors[i].shape, dtype=torch.float64).movedim(0, i % 2)
        dims[i] = i % 2
    for output in range(4):
        function = on_small(order, output)
        together = torch.vmap(function, tuple(dims))(*tensors)
        one_by_one = torch.stack(
            [
                function(*(t if d is None else t.select(d, k) for t, d in zip(tensors, dims, strict=True)))
                for k in range(3)
            ]
        )
        torch.testing.assert_close(together, one_by_one)


def test_gradients_per_sample(order: Order) -> None:
    input, *others = (tensor.detach() for tensor in small())
    function = on_small(order)

    def loss(sample: Tensor, *parameters: Tensor) -> Tensor:
        result: Tensor = function(sample.unsqueeze(0), *parameters).square().sum()
        return result

    each = torch.func.grad(loss, argnums=(1, 2, 3, 4))
    together = torch.vmap(each, (0, None, None, None, None))(input, *others)
    for i, sample in enumerate(input):
        for actual, expected in zip(together, each(sample, *others), strict=True):
            torch.testing.assert_close(actual[i], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_opcheck(name: str, layout: str, dtype: torch.dtype, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(dtype, device, layout, requires_grad=True), *affine(problem, dtype, device))
    args = arguments(problem, tensors, name, ORDERS["norm_leaky_relu"])
    results = torch.library.opcheck(getattr(ops, name).default, args)
    assert set(results.values()) == {"SUCCESS"}, results


@pytest.mark.parametrize("layout", LAYOUTS)
def test_opcheck_of_the_backward(layout: str, order: Order, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, device, layout), *affine(problem, torch.float32, device))
    args = arguments(problem, tensors, "conv_transpose3d_group_norm_forward", order)
    output, x, mean, rstd = (tensor.detach() for tensor in ops.conv_transpose3d_group_norm_forward(*args))
    grad = torch.randn_like(output).requires_grad_()
    args = (grad, x, mean, rstd, *tensors[3:], 3, order.relu, order.negative_slope)
    results = torch.library.opcheck(ops.group_norm_backward.default, args)
    assert set(results.values()) == {"SUCCESS"}, results


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compile(dynamic: bool, device: str) -> None:
    problem, order = ALL_DIFFERENT, ORDERS["relu_norm"]
    tensors = (*problem.tensors(torch.float32, device, requires_grad=True), *affine(problem, torch.float32, device))
    compiled = torch.compile(lambda *given: call(given, problem, 3, order), fullgraph=True, dynamic=dynamic)
    expected, actual = call(tensors, problem, 3, order), compiled(*tensors)
    torch.testing.assert_close(actual, expected)
    grad = torch.randn_like(expected)
    for pair in zip(
        torch.autograd.grad(actual, tensors, grad), torch.autograd.grad(expected, tensors, grad), strict=True
    ):
        torch.testing.assert_close(*pair)


def modules() -> list[tuple[nn.Module, nn.Module]]:
    """The module, and PyTorch's that it stands for, with the same parameters."""
    pairs = []
    for relu, slope, affine_norm in ((True, 1.0, True), (False, 0.25, True), (False, 0.0, False)):
        given: dict[str, Any] = {
            "kernel_size": (3, 2, 1),
            "stride": (2, 1, 1),
            "padding": (1, 0, 0),
            "groups": 2,
            "bias": not relu,
        }
        if relu:
            ours: nn.Module = convt3d.nn.ConvTranspose3dReLUGroupNorm(4, 6, **given, num_groups=3)  # type: ignore[arg-type]
        else:
            ours = convt3d.nn.ConvTranspose3dGroupNorm(
                4,
                6,
                **given,
                num_groups=3,
                affine=affine_norm,
                negative_slope=slope,  # type: ignore[arg-type]
            )
        convolution, norm = nn.ConvTranspose3d(4, 6, **given), nn.GroupNorm(3, 6, affine=affine_norm)  # type: ignore[arg-type]
        if affine_norm:
            nn.init.normal_(ours.norm_weight)  # type: ignore[arg-type]
            nn.init.normal_(ours.norm_bias)  # type: ignore[arg-type]
        state = ours.state_dict()
        convolution.load_state_dict({name: value for name, value in state.items() if "norm" not in name})
        norm.load_state_dict({name[5:]: value for name, value in state.items() if "norm" in name})
        chain = (convolution, nn.ReLU(), norm) if relu else (convolution, norm, nn.LeakyReLU(slope))
        pairs.append((ours, nn.Sequential(*chain)))
    return pairs


@pytest.mark.parametrize("shape", [(2, 4, 3, 4, 5), (4, 3, 4, 5)], ids=str)
def test_modules(shape: tuple[int, ...]) -> None:
    input = torch.randn(shape)
    for ours, chain in modules():
        # PyTorch's group norm takes the first dimension for the batch.
        expected = chain[1:](chain[0](input).reshape(-1, 6, 5, 5, 5)).reshape(chain[0](input).shape)  # type: ignore[index]
        torch.testing.assert_close(ours(input), expected, atol=1e-5, rtol=1e-5)
        scripted = torch.jit.script(ours)
        torch.testing.assert_close(scripted(input), ours(input))


def test_export() -> None:
    input = torch.randn(2, 4, 3, 4, 5)
    for ours, _ in modules():
        program = torch.export.export(ours, (input,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        other = torch.randn(3, 4, 3, 4, 5)
        torch.testing.assert_close(program.module()(other), ours(other))


@pytest.mark.slow
def test_aot_inductor_package_loaded_in_a_new_process(device: str, tmp_path: Path) -> None:
    network = nn.Sequential(*(ours for ours, _ in modules()[:1])).to(device)
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    with torch.no_grad():
        assert_same_packaged(torch.export.export(network, (input,)), network, [(input,)], tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_flops_are_those_of_the_convolution(name: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, "cpu"), *(t.detach() for t in affine(problem, torch.float32, "cpu")))
    counts = []
    for op, args in (
        (getattr(ops, name), arguments(problem, tensors, name, ORDERS["norm"])),
        (ops.conv_transpose3d, (*tensors[:3], *geometry(problem))),
    ):
        with FlopCounterMode(display=False) as counter:
            op(*args)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("kind", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_groups": 2}, "num_groups must divide the channels of what is normalised, C_out = 9, got 2"),
        ({"num_groups": 0}, "num_groups must be positive, got 0"),
        ({"eps": -1.0}, "eps must be non-negative and finite, got -1"),
        ({"negative_slope": float("inf")}, "negative_slope must be finite, got inf"),
        ({"norm_weight": torch.ones(8)}, r"norm_weight must be 1-D with C_out = 9 elements, got shape \(8\)"),
        ({"norm_bias": torch.ones(9, 1)}, r"norm_bias must be 1-D with C_out = 9 elements, got shape \(9, 1\)"),
        ({"norm_weight": torch.ones(9).half()}, "norm_weight must be of dtype float32 beside input of float32"),
        ({"dtype": torch.float16}, "dtype must be (of dtype )?float32"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_errors(kind: str, change: dict[str, Any], message: str) -> None:
    problem = PROBLEMS[0]
    input, weight, bias = (tensor.to(kind) for tensor in problem.tensors(torch.float32, "cpu"))
    given = {"num_groups": 3, **change}
    given = {name: value.to(kind) if isinstance(value, Tensor) else value for name, value in given.items()}
    with pytest.raises(RuntimeError, match=f"conv_transpose3d_group_norm: {message}"):
        convt3d.conv_transpose3d_group_norm(input, weight, bias, **problem.parameters, **given)


def test_wrong_types() -> None:
    input, weight, bias = PROBLEMS[0].tensors(torch.float32, "cpu")
    with pytest.raises(TypeError, match=r"num_groups must be an int, got 1\.5"):
        convt3d.conv_transpose3d_group_norm(input, weight, bias, **PROBLEMS[0].parameters, num_groups=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="norm_weight must be a Tensor, got int"):
        convt3d.conv_transpose3d_relu_group_norm(
            input,
            weight,
            bias,
            **PROBLEMS[0].parameters,
            num_groups=3,
            norm_weight=1,  # type: ignore[arg-type]
        )
    with pytest.raises(ValueError, match="num_groups must divide out_channels = 6, got 4"):
        convt3d.nn.ConvTranspose3dGroupNorm(4, 6, 2, num_groups=4)


def test_explain_of_a_model() -> None:
    (with_relu, _), (without, _), _ = modules()
    explanation = convt3d.explain(nn.Sequential(with_relu), torch.randn(2, 4, 3, 4, 5))
    (call,) = explanation.calls
    assert (call.name, call.computed_by, call.relu, call.norm_groups) == ("0", "convt3d", True, 3)
    assert call.explanation is not None
    text = str(explanation)
    assert "convt3d + ReLU + group norm" in text
    assert call.explanation.output_shape == (2, 6, 5, 5, 5)
    assert call.explanation.norm_way == "passes"
    assert "group norm: a pass of its own gathers the statistics, another normalises: " in text
    assert f"{call.explanation.norm_ms:.3g} ms expected, in no number above but the measured times" in text
    (call,) = convt3d.explain(without, torch.randn(2, 4, 3, 4, 5)).calls
    assert (call.relu, call.norm_groups) == (False, 3)


def test_explain_of_a_result_in_float32_on_another_gpu() -> None:
    class Network(nn.Module):
        def forward(self, x: Tensor, w: Tensor) -> Tensor:
            return convt3d.conv_transpose3d_group_norm(x, w, num_groups=2, dtype=torch.float32)

    tensors = torch.randn(2, 3, 4, 5, 6).bfloat16(), torch.randn(3, 4, 1, 1, 1).bfloat16()
    (call,) = convt3d.explain(Network(), tensors, device_capability=(8, 0)).calls
    assert call.explanation is not None
    assert call.explanation.norm_ms > (2 + 4) * 2 * 4 * 4 * 5 * 6 / known_device((8, 0)).bytes_per_ms


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_measured_calls_are_those_of_the_model(dtype: torch.dtype) -> None:
    """What explain measures on a GPU, on the CPU: convt3d's operator and PyTorch's chain of the same arguments."""
    for ours, _ in modules():
        input = torch.randn(2, 4, 3, 4, 5).to(dtype)
        (call,) = record(ours.to(dtype), input)
        torch.manual_seed(0)
        operands = [None if t is None else measuring._random(t, input.device) for t in measuring._tensors(call)]
        results = []
        for prepare in (measuring._convt3d, measuring._torch):
            torch.manual_seed(1)
            results.append(prepare(call, operands)().double())
        assert (results[0] - results[1]).norm() <= {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype] * results[
            1
        ].norm()
        times = measuring.Measurements(on_host=True).times(call)
        assert times[0] is not None
        assert times[1] is not None

"""The transposed convolution with a group norm behind it, against PyTorch's own operators in float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference import LAYOUTS, NORM_FLOOR, PROBLEMS, ROUNDING, Problem, norm_error
from torch import Tensor

import convt3d

ops = torch.ops.convt3d
ALL_DIFFERENT = PROBLEMS[0]  # 9 output channels in 3 groups
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@dataclass(frozen=True)
class Order:
    """Where the activations are."""

    relu: bool
    negative_slope: float


ORDERS = {
    "relu_norm": Order(True, 1.0),
    "norm": Order(False, 1.0),
    "norm_relu": Order(False, 0.0),
    "norm_leaky_relu": Order(False, 0.2),
    "relu_norm_leaky_relu": Order(True, 0.2),
}


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Order:
    return ORDERS[request.param]


def geometry(problem: Problem) -> tuple[Any, ...]:
    names = ("stride", "padding", "output_padding", "groups", "dilation")
    return tuple(problem.parameters[name] for name in names)


def affine(problem: Problem, dtype: torch.dtype, device: str) -> tuple[Tensor, Tensor]:
    weight = 1 + 0.3 * torch.randn(problem.out_channels, device=device)
    return weight.to(dtype).requires_grad_(), torch.randn(problem.out_channels, device=device).to(
        dtype
    ).requires_grad_()


def reference(
    tensors: tuple[Tensor, ...], problem: Problem, num_groups: int, order: Order, eps: float = 1e-5
) -> Tensor:
    """PyTorch's operators."""
    input, weight, bias, norm_weight, norm_bias = tensors
    output = F.conv_transpose3d(input, weight, bias, **problem.parameters)
    output = F.group_norm(output.relu() if order.relu else output, num_groups, norm_weight, norm_bias, eps)
    return F.leaky_relu(output, order.negative_slope)


def call(tensors: tuple[Tensor, ...], problem: Problem, num_groups: int, order: Order, **others: Any) -> Tensor:
    input, weight, bias, norm_weight, norm_bias = tensors
    return convt3d.conv_transpose3d_group_norm(
        input,
        weight,
        bias,
        **problem.parameters,
        num_groups=num_groups,
        norm_weight=norm_weight,
        norm_bias=norm_bias,
        relu=order.relu,
        negative_slope=order.negative_slope,
        **others,
    )


def doubled(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.detach().double().cpu().requires_grad_() for tensor in tensors)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_groups", [1, 3, 9])
def test_forward_and_gradients(layout: str, dtype: torch.dtype, num_groups: int, order: Order, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(dtype, device, layout, requires_grad=True), *affine(problem, dtype, device))
    exact = doubled(tensors)
    expected = reference(exact, problem, num_groups, order)
    output = call(tensors, problem, num_groups, order)
    assert output.dtype == dtype
    assert output.stride() == convt3d.conv_transpose3d(*tensors[:3], **problem.parameters).stride()
    bound = 1.2 * NORM_FLOOR[dtype]
    if dtype in (torch.float16, torch.bfloat16):  # a norm after a rounding, as PyTorch's
        bound = 1.2 * norm_error(reference(tensors, problem, num_groups, order), expected)
    assert norm_error(output, expected) <= bound
    with torch.no_grad():
        assert torch.equal(call(tensors, problem, num_groups, order), output)
    # Near an activation's corner a rounding decides the side, and either is right.
    value = reference(exact, problem, num_groups, Order(order.relu, 1.0))
    counts = (value.abs() > 16 * ROUNDING[dtype]).to(device) if order.negative_slope != 1 else 1
    grad = (problem.grad_output(dtype, device, layout) * counts).to(memory_format=LAYOUTS[layout])
    gradients = torch.autograd.grad(output, tensors, grad)
    wanted = torch.autograd.grad(expected, exact, grad.double().cpu())
    bound = {torch.float64: 1e-12, torch.float32: 4e-6, torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    for name, actual, right, tensor in zip(("x", "w", "b", "nw", "nb"), gradients, wanted, tensors, strict=True):
        assert actual.dtype == tensor.dtype
        # The norm takes most of what a bias adds: its gradient is a sum of large terms that cancel.
        scale = grad.double().norm().cpu() if name == "b" else right.norm()
        assert (actual.double().cpu() - right).norm() <= bound * scale, name


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_problems(problem: Problem, device: str) -> None:
    tensors = (*problem.tensors(torch.float32, device), *affine(problem, torch.float32, device))
    order = ORDERS["relu_norm"]
    groups = problem.out_channels
    output = call(tensors, problem, groups, order)
    assert norm_error(output, reference(doubled(tensors), problem, groups, order)) <= 2 * NORM_FLOOR[torch.float32]
    short = convt3d.conv_transpose3d_relu_group_norm(
        *tensors[:3], **problem.parameters, num_groups=groups, norm_weight=tensors[3], norm_bias=tensors[4]
    )
    assert torch.equal(short, output)
    raw = ops.conv_transpose3d_relu_group_norm(*tensors[:3], *geometry(problem), groups, *tensors[3:])
    assert torch.equal(raw, output)


def test_without_weight_and_bias(device: str) -> None:
    problem, order = ALL_DIFFERENT, ORDERS["norm_relu"]
    input, weight, bias = problem.tensors(torch.float32, device)
    output = call((input, weight, bias, None, None), problem, 3, order)  # type: ignore[arg-type]
    ones, zeros = torch.ones(9, device=device), torch.zeros(9, device=device)
    assert norm_error(output, call((input, weight, bias, ones, zeros), problem, 3, order).double()) <= 1e-7


def test_is_an_instance_norm(device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, device), *affine(problem, torch.float32, device))
    input, weight, bias, norm_weight, norm_bias = doubled(tensors)
    convolved = F.conv_transpose3d(input, weight, bias, **problem.parameters)
    expected = F.instance_norm(convolved, weight=norm_weight, bias=norm_bias)
    assert norm_error(call(tensors, problem, 9, ORDERS["norm"]), expected) <= 2 * NORM_FLOOR[torch.float32]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_mean_loses_nothing(layout: str, device: str) -> None:
    """A mean of 1000 with a deviation of 1, as the convolution before the norm stores it."""
    channels, size = 6, (7, 9, 11)
    values = (1000 + torch.randn(2, channels, *size, device=device)).to(memory_format=LAYOUTS[layout])
    identity = torch.eye(channels, device=device).reshape(channels, channels, 1, 1, 1)
    output = convt3d.conv_transpose3d_group_norm(values, identity, num_groups=2)
    no_steps = ([1] * 3, [0] * 3, [0] * 3, 1, [1] * 3)
    _, stored, *_ = ops.conv_transpose3d_group_norm_forward(values, identity, None, *no_steps, 2)
    assert norm_error(stored, values.double().cpu()) <= NORM_FLOOR[torch.float32]
    expected = F.group_norm(stored.double().cpu(), 2)
    assert norm_error(output, expected) <= (1e-4 if device == "cpu" else 2e-7)  # ATen's statistics are float32's


@pytest.mark.parametrize("layout", LAYOUTS)
def test_outlier_first(layout: str, device: str) -> None:
    values = torch.randn(1, 4, 8, 8, 8, device=device).to(memory_format=LAYOUTS[layout])
    values[0, 0, 0, 0, 0] = 1e6
    identity = torch.eye(4, device=device).reshape(4, 4, 1, 1, 1)
    output = convt3d.conv_transpose3d_group_norm(values, identity, num_groups=1, eps=0.0)
    expected = F.group_norm(values.double().cpu(), 1, eps=0.0)
    assert norm_error(output, expected) <= 1e-6


def test_groups_of_one_element(device: str) -> None:
    """Their deviation is 0, and what is left is the bias."""
    input, weight = torch.randn(2, 3, 1, 1, 1, device=device), torch.randn(3, 4, 1, 1, 1, device=device)
    bias = torch.randn(4, device=device, requires_grad=True)
    input.requires_grad_()
    output = convt3d.conv_transpose3d_group_norm(input, weight, num_groups=4, norm_bias=bias)
    tolerance = 1e-3 if device == "cpu" else 0.0  # ATen multiplies what it then subtracts
    torch.testing.assert_close(output, bias.reshape(1, 4, 1, 1, 1).expand_as(output), atol=tolerance, rtol=0)
    output.sum().backward()
    assert input.grad is not None
    assert bias.grad is not None
    torch.testing.assert_close(input.grad, torch.zeros_like(input), atol=tolerance, rtol=0)
    assert torch.equal(bias.grad, torch.full_like(bias, 2))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("num_groups", [2, 4])
@pytest.mark.parametrize("size", [(1, 1, 1), (1, 2, 1)], ids=str)
@pytest.mark.parametrize("name", ["conv_transpose3d_group_norm", "conv_transpose3d_relu_group_norm"])
def test_refuses_one_element_where_pytorch_does(
    name: str, size: tuple[int, int, int], num_groups: int, batch: int
) -> None:
    input, weight = torch.randn(batch, 3, *size), torch.randn(3, 4, 3, 3, 2)
    parameters: dict[str, Any] = {"stride": 2, "padding": (1, 1, 1), "output_padding": (0, 0, 1)}

    def outcome(function: Any) -> str:
        try:
            function()
        except ValueError as error:
            return str(error).partition(":")[0]
        return "computed"

    expected = outcome(lambda: F.group_norm(F.conv_transpose3d(input, weight, **parameters), num_groups))
    assert outcome(lambda: getattr(convt3d, name)(input, weight, **parameters, num_groups=num_groups)) == expected
    assert (expected == "computed") == (batch > 1 or num_groups == 2 or size != (1, 1, 1))
    layer = convt3d.nn.ConvTranspose3dGroupNorm(3, 4, (3, 3, 2), **parameters, num_groups=num_groups)
    assert outcome(lambda: layer(input)) == expected
    if expected != "computed":
        with pytest.raises(torch.jit.Error, match="Expected more than 1 value per channel"):
            torch.jit.script(layer)(input)


def test_empty_batch(device: str) -> None:
    input, weight = torch.empty(0, 3, 2, 2, 2, device=device), torch.randn(3, 4, 1, 1, 1, device=device)
    input.requires_grad_()
    norm_weight = torch.ones(4, device=device, requires_grad=True)
    output = convt3d.conv_transpose3d_group_norm(input, weight, num_groups=2, norm_weight=norm_weight)
    assert output.shape == (0, 4, 2, 2, 2)
    output.sum().backward()
    assert norm_weight.grad is not None
    assert torch.equal(norm_weight.grad, torch.zeros_like(norm_weight))


@pytest.mark.parametrize("arrangement", ["expanded", "channels", "narrow", "permuted", "batch"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_any_strides(arrangement: str, layout: str, device: str) -> None:
    problem, order = ALL_DIFFERENT, ORDERS["relu_norm_leaky_relu"]
    tensors = (
        *problem.tensors(torch.float32, device, layout, requires_grad=True),
        *affine(problem, torch.float32, device),
    )
    output = call(tensors, problem, 3, order)
    n, c, d, h, w = output.shape
    grad = {
        "expanded": torch.randn((), device=device).expand(output.shape),
        "channels": torch.randn(c, 1, 1, 1, device=device).expand(output.shape),
        "narrow": torch.randn(n, c + 2, d + 1, h, w + 3, device=device)[:, 1:-1, 1:, :, 2:-1],
        "permuted": torch.randn(w, h, c, d, n, device=device).permute(4, 2, 3, 1, 0),
        "batch": torch.randn(n * 2, c, d, h, w, device=device)[::2],
    }[arrangement]
    strided = torch.autograd.grad(output, tensors, grad, retain_graph=True)
    dense = torch.autograd.grad(output, tensors, grad.clone(memory_format=torch.contiguous_format))
    for actual, expected in zip(strided, dense, strict=True):
        assert (actual - expected).norm() <= 2e-6 * expected.norm()


def test_same_bits_again(order: Order, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, device, requires_grad=True), *affine(problem, torch.float32, device))
    grad = problem.grad_output(torch.float32, device)

    def run() -> tuple[Tensor, ...]:
        output = call(tensors, problem, 3, order)
        return output, *torch.autograd.grad(output, tensors, grad)

    first = run()
    for _ in range(3):
        assert all(torch.equal(*pair) for pair in zip(first, run(), strict=True))


@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("result_dtype", [None, torch.float32], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_mixed_dtypes(
    weight_dtype: torch.dtype, result_dtype: torch.dtype | None, layout: str, order: Order, device: str
) -> None:
    problem = ALL_DIFFERENT
    convolution = problem.tensors(torch.bfloat16, device, layout, requires_grad=True)
    tensors = (*convolution, *affine(problem, weight_dtype, device))
    output = call(tensors, problem, 3, order, dtype=result_dtype)
    assert output.dtype == (result_dtype or torch.bfloat16)
    assert norm_error(output, reference(doubled(tensors), problem, 3, order)) <= 3 * NORM_FLOOR[torch.bfloat16]
    gradients = torch.autograd.grad(output, tensors, torch.randn_like(output))
    assert [gradient.dtype for gradient in gradients] == [tensor.dtype for tensor in tensors]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["conv_transpose3d_group_norm", "conv_transpose3d_relu_group_norm"])
def test_autocast(name: str, dtype: torch.dtype, device: str) -> None:
    """The dtype is that of PyTorch's chain."""
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, device, requires_grad=True), *affine(problem, torch.float32, device))
    order = ORDERS["relu_norm" if "relu" in name else "norm"]
    with torch.autocast(device, dtype=dtype):
        expected = reference(tensors, problem, 3, order)
        output = getattr(convt3d, name)(
            *tensors[:3], **problem.parameters, num_groups=3, norm_weight=tensors[3], norm_bias=tensors[4]
        )
        raw = getattr(ops, name)(*tensors[:3], *geometry(problem), 3, *tensors[3:])
    assert output.dtype == expected.dtype == raw.dtype
    assert torch.equal(output, raw)
    assert norm_error(output, reference(doubled(tensors), problem, 3, order)) <= 4 * NORM_FLOOR[dtype]
    for gradient in torch.autograd.grad(output.float().square().sum(), tensors):
        assert gradient.dtype == torch.float32


def test_saves_one_tensor_of_the_outputs_size(order: Order) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, "cpu", requires_grad=True), *affine(problem, torch.float32, "cpu"))
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        output = call(tensors, problem, 3, order)
    large = {tensor.data_ptr() for tensor in saved if tensor.numel() >= output.numel()}
    assert len(large) == 1
    assert output.data_ptr() not in large
    small = {tensor.data_ptr() for tensor in saved} - large - {tensor.data_ptr() for tensor in tensors}
    assert len(small) == 2  # mean and rstd

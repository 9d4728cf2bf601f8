"""The backward of the convolution with a group norm: what it computes, and with which of PyTorch's helpers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from reference import run_python
from test_group_norm import ALL_DIFFERENT, ORDERS, Order, affine, call
from test_group_norm_registrations import arguments
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

ops = torch.ops.convt3d


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Order:
    return ORDERS[request.param]


@pytest.mark.parametrize("affine_norm", [False, True])
@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=3)), ids=str)
def test_backward_of_what_is_asked_for(mask: tuple[bool, ...], affine_norm: bool, order: Order, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = (*problem.tensors(torch.float32, device), *affine(problem, torch.float32, device))
    args = arguments(problem, tensors, "conv_transpose3d_group_norm_forward", order)
    output, x, mean, rstd = (tensor.detach() for tensor in ops.conv_transpose3d_group_norm_forward(*args))
    of_norm = tensors[3:] if affine_norm else (None, None)
    args = (torch.randn_like(output), x, mean, rstd, *of_norm, 3, order.relu, order.negative_slope)
    with torch.no_grad():
        everything, some = ops.group_norm_backward(*args), ops.group_norm_backward(*args, mask)
        fake = ops.group_norm_backward(*(arg.to("meta") if isinstance(arg, Tensor) else arg for arg in args), mask)
    for gradient, whole, shape, wanted in zip(some, everything, fake, mask, strict=True):
        assert (gradient is not None) == (shape is not None) == wanted
        if wanted:
            assert torch.equal(gradient, whole)
            assert (gradient.shape, gradient.stride()) == (shape.shape, shape.stride())

    def given(grad: Tensor) -> tuple[Tensor, ...]:
        results = ops.group_norm_backward(grad, *args[1:], mask)
        return (grad, *(result for result in results if result is not None))

    mapped = torch.vmap(given)(args[0][None])[1:]
    for slice, gradient in zip(mapped, given(args[0])[1:], strict=True):
        torch.testing.assert_close(slice[0], gradient)


def test_gradients_that_nobody_wants_are_not_computed() -> None:
    problem, masks = ALL_DIFFERENT, []

    class Masks(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is ops.group_norm_backward.default:
                masks.append(tuple(args[9]) if len(args) > 9 else (True, True, True))
            return func(*args, **(kwargs or {}))

    tensors = (*problem.tensors(torch.float32, "cpu"), *(t.detach() for t in affine(problem, torch.float32, "cpu")))
    cases = {(0,): (True, False, False), (2, 3): (True, True, False), (4,): (False, False, True)}
    for wanted, mask in cases.items():
        given = tuple(tensor.clone().requires_grad_(i in wanted) for i, tensor in enumerate(tensors))
        output = call(given, problem, 3, ORDERS["relu_norm"])
        with Masks():
            gradients = torch.autograd.grad(output.sum(), [given[i] for i in wanted])
        assert masks.pop() == mask
        everything = tuple(tensor.clone().requires_grad_() for tensor in tensors)
        expected = torch.autograd.grad(call(everything, problem, 3, ORDERS["relu_norm"]).sum(), everything)
        for i, gradient in zip(wanted, gradients, strict=True):
            torch.testing.assert_close(gradient, expected[i])


FALLBACK = """
import torch
import torch._functorch.autograd_function  # holds its own reference
del torch._functorch.utils.enable_single_level_autograd_function  # as if PyTorch had moved it

import convt3d
from convt3d._registrations import torch_internals
from torch.autograd import gradcheck, gradgradcheck

assert not torch_internals.AVAILABLE
torch.manual_seed(0)
shapes = (2, 4, 2, 3, 1), (4, 3, 3, 2, 2), (6,), (6,), (6,)
tensors = tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
given = [2, 1, 3], [1, 0, 1], [1, 0, 2], 2, [1, 2, 1], 3
ops = torch.ops.convt3d
functions = [
    lambda x, w, b, nw, nb: ops.conv_transpose3d_relu_group_norm(x, w, b, *given, nw, nb),
    lambda x, w, b, nw, nb: ops.conv_transpose3d_group_norm(x, w, b, *given, nw, nb, 1e-5, False, 0.2),
    lambda x, w, b, nw, nb: ops.conv_transpose3d_group_norm_forward(x, w, b, *given, nw, nb)[:2],
]
for function in functions:
    assert gradcheck(function, tensors, fast_mode=True)
    assert gradgradcheck(function, tensors, fast_mode=True)
    frozen = (tensors[0].detach(), *tensors[1:4], tensors[4].detach())
    assert gradcheck(function, frozen, fast_mode=True)
    with torch.no_grad():
        plain = function(*tensors)
    torch.testing.assert_close(function(*tensors), plain)
for function in functions[:2]:
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for loss in (function, compiled):
        gradients = torch.autograd.grad(loss(*tensors).sin().sum(), tensors)
        expected = expected if loss is compiled else gradients
        torch.testing.assert_close(gradients, expected)
print("differentiable")
"""


def test_fallback_to_the_public_registration() -> None:
    """Without the private helpers everything but torch.func.grad and forward mode goes on working."""
    assert run_python(FALLBACK) == "differentiable"

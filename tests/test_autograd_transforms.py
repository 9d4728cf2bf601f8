"""Derivatives of any order and kind: gradcheck, torch.func, forward mode, checkpointing, the public fallback."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference import Problem, run_python
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch.utils.checkpoint import checkpoint

import convt3d
from convt3d._registrations import torch_internals

ops = torch.ops.convt3d
SMALL = [
    Problem("all_different", 2, 4, 6, (2, 3, 1), (3, 2, 2), (2, 1, 3), (1, 0, 1), (1, 0, 2), (1, 2, 1), 2),
    Problem("phases_without_tap", 1, 2, 3, (2, 1, 3), (2, 3, 2), (2, 2, 4), (0, 1, 1), (1, 0, 3), (2, 4, 2)),
]
# PyTorch's own double backward of a transposed convolution rejects output_padding, so where it is the reference:
NO_OUTPUT_PADDING = Problem(
    "no_output_padding", 2, 4, 6, (2, 3, 2), (3, 2, 2), (2, 1, 3), (1, 0, 1), (0, 0, 0), (1, 2, 1), 2
)

Function = Callable[[Tensor, Tensor, Tensor], Tensor]


def _ours(name: str, problem: Problem) -> Function:
    return lambda input, weight, bias: getattr(convt3d, name)(input, weight, bias, **problem.parameters)


def _pytorch(name: str, problem: Problem) -> Function:
    def function(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        output = F.conv_transpose3d(input, weight, bias, **problem.parameters)
        return output.relu() if name.endswith("_relu") else output

    return function


def _both(name: str, problem: Problem, transform: Callable[[Function], Any]) -> None:
    """The same transform of ours and of PyTorch's operator gives the same numbers."""
    torch.testing.assert_close(transform(_ours(name, problem)), transform(_pytorch(name, problem)))


def _doubles(problem: Problem, device: str, *, requires_grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    return problem.tensors(torch.float64, device, requires_grad=requires_grad)


# ---- gradcheck ----


@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_gradcheck(problem: Problem, operator_name: str, device: str) -> None:
    assert gradcheck(
        _ours(operator_name, problem),
        _doubles(problem, device, requires_grad=True),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
        fast_mode=True,
    )


@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_gradgradcheck(problem: Problem, operator_name: str, device: str) -> None:
    assert gradgradcheck(
        _ours(operator_name, problem),
        _doubles(problem, device, requires_grad=True),
        check_fwd_over_rev=True,
        check_rev_over_rev=True,
        check_batched_grad=True,
        fast_mode=True,
    )


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_gradcheck_of_the_gradients(problem: Problem, has_relu: bool, device: str) -> None:
    input, weight, _ = _doubles(problem, device, requires_grad=True)
    grad_output = problem.grad_output(torch.float64, device).requires_grad_()
    relu_output = problem.grad_output(torch.float64, device).relu() if has_relu else None
    parameters = problem.parameters

    def by_input(grad_output: Tensor, weight: Tensor) -> Tensor:
        return ops.conv_transpose3d_input_grad(grad_output, weight, relu_output, **parameters)

    def by_weight(grad_output: Tensor, input: Tensor) -> Tensor:
        return ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, relu_output, **parameters)

    def by_bias(grad_output: Tensor) -> Tensor:
        return ops.conv_transpose3d_bias_grad(grad_output, relu_output)

    for function, leaves in (
        (by_input, (grad_output, weight)),
        (by_weight, (grad_output, input)),
        (by_bias, (grad_output,)),
    ):
        assert gradcheck(function, leaves, check_forward_ad=True, check_batched_grad=True, fast_mode=True)
        assert gradgradcheck(function, leaves, check_fwd_over_rev=True, fast_mode=True)


# ---- torch.func ----


def test_grad(operator_name: str, device: str) -> None:
    tensors = _doubles(SMALL[0], device)
    _both(operator_name, SMALL[0], lambda f: grad(lambda *args: f(*args).sin().sum(), argnums=(0, 1, 2))(*tensors))


def test_third_derivative(operator_name: str, device: str) -> None:
    tensors = _doubles(NO_OUTPUT_PADDING, device)

    def thrice(function: Function) -> Any:
        first = grad(lambda *args: function(*args).sin().sum(), argnums=0)
        second = grad(lambda *args: first(*args).sin().sum(), argnums=1)
        return grad(lambda *args: second(*args).sin().sum(), argnums=(0, 1, 2))(*tensors)

    _both(operator_name, NO_OUTPUT_PADDING, thrice)


@pytest.mark.parametrize("argument", [0, 1, 2])
@pytest.mark.parametrize("jacobian", [jacrev, jacfwd])
def test_jacobian(jacobian: Any, argument: int, operator_name: str, device: str) -> None:
    tensors = _doubles(SMALL[0], device)
    _both(operator_name, SMALL[0], lambda f: jacobian(f, argnums=argument)(*tensors))


def test_hessian(operator_name: str, device: str) -> None:
    input, weight, bias = _doubles(SMALL[1], device)
    _both(operator_name, SMALL[1], lambda f: hessian(lambda weight: f(input, weight, bias).sin().sum())(weight))


def test_jvp_and_its_compositions(operator_name: str, device: str) -> None:
    problem = SMALL[0]
    tensors = _doubles(problem, device)
    tangents, others = (tuple(torch.randn_like(tensor) for tensor in tensors) for _ in range(2))

    def directional(function: Function, direction: tuple[Tensor, ...]) -> Function:
        return lambda *args: jvp(function, args, direction)[1]

    def gradient(function: Function) -> Callable[..., Any]:
        return grad(lambda *args: function(*args).sin().sum(), argnums=(0, 1, 2))

    _both(operator_name, problem, lambda f: directional(f, tangents)(*tensors))
    _both(operator_name, problem, lambda f: directional(directional(f, tangents), others)(*tensors))
    _both(operator_name, problem, lambda f: gradient(directional(f, tangents))(*tensors))
    _both(operator_name, problem, lambda f: directional(gradient(f), tangents)(*tensors))
    _both(operator_name, problem, lambda f: directional(directional(gradient(f), tangents), others)(*tensors))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_forward_mode_with_some_tangents(missing: int, operator_name: str, device: str) -> None:
    tensors = _doubles(SMALL[0], device)
    tangents = [torch.randn_like(tensor) for tensor in tensors]

    def tangent(function: Function) -> Tensor:
        with forward_ad.dual_level():
            duals = [
                tensor if index == missing else forward_ad.make_dual(tensor, tangents[index])
                for index, tensor in enumerate(tensors)
            ]
            return forward_ad.unpack_dual(function(*duals)).tangent

    _both(operator_name, SMALL[0], tangent)


def test_vjp(operator_name: str, device: str) -> None:
    tensors = _doubles(SMALL[0], device)
    cotangent = SMALL[0].grad_output(torch.float64, device)
    _both(operator_name, SMALL[0], lambda f: vjp(f, *tensors)[1](cotangent))


@pytest.mark.parametrize(
    "mapped",
    [(0, None, None), (None, 1, None), (None, None, 1), (2, None, 0), (3, 5, None), (None, 2, 1), (1, 0, 1)],
    ids=str,
)
def test_vmap(mapped: tuple[int | None, ...], operator_name: str, device: str) -> None:
    problem = SMALL[0]
    size = 3
    tensors = tuple(
        tensor if dim is None else torch.stack([tensor * (index + 1) for index in range(size)], dim)
        for tensor, dim in zip(_doubles(problem, device), mapped, strict=True)
    )
    _both(operator_name, problem, lambda f: vmap(f, in_dims=mapped)(*tensors))
    _both(operator_name, problem, lambda f: vmap(f, in_dims=mapped, out_dims=1)(*tensors))

    def per_slice_gradient(function: Function) -> Any:
        gradient = grad(lambda *args: function(*args).sin().sum(), argnums=(0, 1, 2))
        return vmap(gradient, in_dims=mapped)(*tensors)

    _both(operator_name, problem, per_slice_gradient)


def test_per_sample_gradients_of_a_module(device: str) -> None:
    module = torch.nn.Sequential(
        convt3d.nn.ConvTranspose3dReLU(2, 4, (2, 3, 1), stride=2, groups=2), convt3d.nn.ConvTranspose3d(4, 1, 2)
    ).to(device)
    parameters = {name: parameter.detach() for name, parameter in module.named_parameters()}
    batch = torch.randn(5, 2, 2, 3, 2, device=device)

    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        return functional_call(module, parameters, (sample[None],)).square().sum()

    together = vmap(grad(loss), in_dims=(None, 0))(parameters, batch)
    for index in range(5):
        alone = grad(loss)(parameters, batch[index])
        for name, gradient in alone.items():
            torch.testing.assert_close(together[name][index], gradient)


@pytest.mark.parametrize("transform", ["grad", "jvp"])
def test_compiled_transform(transform: str, operator_name: str, fresh_compiler: None) -> None:
    tensors = _doubles(SMALL[0], "cpu")

    def transformed(function: Function) -> Callable[..., Any]:
        if transform == "grad":
            return grad(lambda *args: function(*args).sin().sum(), argnums=(0, 1, 2))
        return lambda *args: jvp(function, args, tuple(torch.ones_like(arg) for arg in args))[1]

    compiled = torch.compile(transformed(_ours(operator_name, SMALL[0])), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*tensors), transformed(_pytorch(operator_name, SMALL[0]))(*tensors))


# ---- the rest of autograd ----


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["plain", "reentrant"])
def test_checkpoint(use_reentrant: bool, operator_name: str, device: str) -> None:
    problem = SMALL[0]
    tensors = _doubles(problem, device, requires_grad=True)
    function = _ours(operator_name, problem)
    expected = torch.autograd.grad(function(*tensors).sin().sum(), tensors)
    checkpoint(function, *tensors, use_reentrant=use_reentrant).sin().sum().backward()
    torch.testing.assert_close(tuple(tensor.grad for tensor in tensors), expected)


def test_saved_tensor_hooks(operator_name: str, device: str) -> None:
    problem = SMALL[0]
    tensors = _doubles(problem, device, requires_grad=True)
    function = _ours(operator_name, problem)
    expected = torch.autograd.grad(function(*tensors).sin().sum(), tensors)
    with torch.autograd.graph.save_on_cpu():
        output = function(*tensors)
    torch.testing.assert_close(torch.autograd.grad(output.sin().sum(), tensors), expected)


def test_private_helpers_are_there() -> None:
    """If this fails, PyTorch moved a helper: forward mode and torch.func.grad fall away until it is found again."""
    assert torch_internals.AVAILABLE


FALLBACK = """
import torch
import torch._functorch.autograd_function  # holds its own reference
del torch._functorch.utils.enable_single_level_autograd_function  # as if PyTorch had moved it

import convt3d
from convt3d._registrations import torch_internals
from torch.autograd import gradcheck, gradgradcheck

assert not torch_internals.AVAILABLE
torch.manual_seed(0)
shapes = (2, 4, 2, 3, 1), (4, 3, 3, 2, 2), (6,)
tensors = tuple(torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
parameters = dict(stride=(2, 1, 3), padding=(1, 0, 1), output_padding=(1, 0, 2), groups=2, dilation=(1, 2, 1))
for operator in (convt3d.conv_transpose3d, convt3d.conv_transpose3d_relu):
    function = lambda *tensors: operator(*tensors, **parameters)
    assert gradcheck(function, tensors, fast_mode=True)
    assert gradgradcheck(function, tensors, fast_mode=True)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for loss in (function, compiled):
        gradients = torch.autograd.grad(loss(*tensors).sin().sum(), tensors)
        expected = expected if loss is compiled else gradients
        torch.testing.assert_close(gradients, expected)
    mapped = torch.vmap(operator, in_dims=(0, None))(tensors[0][None], tensors[1][:, :1])
    assert torch.equal(mapped[0], operator(tensors[0], tensors[1][:, :1]))
print("differentiable")
"""


def test_fallback_to_the_public_registration() -> None:
    """Without the private helpers everything but torch.func.grad and forward mode goes on working."""
    assert run_python(FALLBACK) == "differentiable"

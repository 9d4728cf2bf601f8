"""Derivatives of the operator of all gradients: to any order, forward and reverse, and a penalty of the gradient."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from reference import Problem
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, jacrev, jvp, vmap

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable

ops = torch.ops.convt3d
MASKS = list(itertools.product((False, True), repeat=3))
SMALL = Problem("all_different", 2, 4, 6, (2, 3, 1), (3, 2, 2), (2, 1, 3), (1, 0, 1), (1, 0, 2), (1, 2, 1), 2)


def _function(problem: Problem, relu_output: Tensor | None, output_mask: tuple[bool, ...]) -> Callable[..., Any]:
    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        results = ops.conv_transpose3d_backward(*tensors, relu_output, **problem.parameters, output_mask=output_mask)
        return tuple(result for result in results if result is not None)

    return function


def _single_operators(
    problem: Problem, relu_output: Tensor | None, output_mask: tuple[bool, ...]
) -> Callable[..., tuple[Tensor, ...]]:
    """The same of three operators, which are tested by themselves."""

    def function(grad_output: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        parameters = problem.parameters
        results = (
            ops.conv_transpose3d_input_grad(grad_output, weight, relu_output, **parameters),
            ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, relu_output, **parameters),
            ops.conv_transpose3d_bias_grad(grad_output, relu_output),
        )
        return tuple(result for result, asked in zip(results, output_mask, strict=True) if asked)

    return function


def _leaves(problem: Problem, device: str, *, requires_grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    input, weight, _ = problem.tensors(torch.float64, device, requires_grad=requires_grad)
    return problem.grad_output(torch.float64, device).requires_grad_(requires_grad), input, weight


def _relu_output(problem: Problem, device: str, has_relu: bool) -> Tensor | None:
    return problem.grad_output(torch.float64, device).relu() if has_relu else None


@pytest.mark.parametrize("output_mask", MASKS[1:], ids=str)
@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
def test_gradcheck(has_relu: bool, output_mask: tuple[bool, ...], device: str) -> None:
    function = _function(SMALL, _relu_output(SMALL, device, has_relu), output_mask)
    leaves = _leaves(SMALL, device, requires_grad=True)
    assert gradcheck(function, leaves, check_forward_ad=True, check_batched_grad=True, fast_mode=True)


@pytest.mark.parametrize("output_mask", [(True, True, True), (True, True, False), (False, True, True)], ids=str)
@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
def test_gradgradcheck(has_relu: bool, output_mask: tuple[bool, ...], device: str) -> None:
    function = _function(SMALL, _relu_output(SMALL, device, has_relu), output_mask)
    leaves = _leaves(SMALL, device, requires_grad=True)
    assert gradgradcheck(function, leaves, check_fwd_over_rev=True, fast_mode=True)


@pytest.mark.parametrize("needed", MASKS[1:], ids=str)
def test_gradients_of_some_arguments(needed: tuple[bool, ...], device: str) -> None:
    leaves = _leaves(SMALL, device)
    for leaf, is_needed in zip(leaves, needed, strict=True):
        leaf.requires_grad_(is_needed)
    relu_output = _relu_output(SMALL, device, True)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    outcomes = []
    for make in (_function, _single_operators):
        loss = sum(result.sin().sum() for result in make(SMALL, relu_output, (True, True, True))(*leaves))
        assert isinstance(loss, Tensor)
        outcomes.append(torch.autograd.grad(loss, wanted))
    torch.testing.assert_close(*outcomes)


@pytest.mark.parametrize("missing", [0, 1, 2, None])
@pytest.mark.parametrize("output_mask", [(True, True, True), (False, True, True), (True, False, False)], ids=str)
def test_forward_mode_with_some_tangents(output_mask: tuple[bool, ...], missing: int | None, device: str) -> None:
    leaves = _leaves(SMALL, device)
    tangents = [torch.randn_like(leaf) for leaf in leaves]
    relu_output = _relu_output(SMALL, device, True)

    def tangent(function: Callable[..., tuple[Tensor, ...]]) -> list[Tensor]:
        with forward_ad.dual_level():
            duals = [
                leaf if index == missing else forward_ad.make_dual(leaf, tangents[index])
                for index, leaf in enumerate(leaves)
            ]
            unpacked = [forward_ad.unpack_dual(result) for result in function(*duals)]
        return [torch.zeros_like(pair.primal) if pair.tangent is None else pair.tangent for pair in unpacked]

    outcomes = [tangent(make(SMALL, relu_output, output_mask)) for make in (_function, _single_operators)]
    torch.testing.assert_close(*outcomes)


@pytest.mark.parametrize("transform", ["jvp of jvp", "jacrev", "grad of grad"])
def test_transforms(transform: str, device: str) -> None:
    leaves = _leaves(SMALL, device)
    tangents = tuple(torch.randn_like(leaf) for leaf in leaves)

    def transformed(function: Callable[..., Any]) -> Any:
        def loss(*leaves: Tensor) -> Tensor:
            return torch.stack([result.sin().sum() for result in function(*leaves)]).sum()

        if transform == "jacrev":
            return jacrev(function, argnums=(0, 1, 2))(*leaves)
        if transform == "jvp of jvp":
            return jvp(lambda *leaves: jvp(function, leaves, tangents)[1], leaves, tangents)
        return grad(lambda *leaves: grad(loss, argnums=1)(*leaves).sin().sum(), argnums=(0, 1, 2))(*leaves)

    makes = (_function, _single_operators)
    torch.testing.assert_close(*(transformed(make(SMALL, None, (True, True, True))) for make in makes))


@pytest.mark.parametrize("mapped", [dims for dims in itertools.product((None, 1), repeat=4) if any(dims)], ids=str)
@pytest.mark.parametrize("output_mask", [(True, True, True), (True, False, True)], ids=str)
def test_vmap(output_mask: tuple[bool, ...], mapped: tuple[int | None, ...], device: str) -> None:
    relu_output = _relu_output(SMALL, device, True)
    assert relu_output is not None
    size = 3
    tensors = tuple(
        tensor if dim is None else torch.stack([tensor * (index + 1) for index in range(size)], dim)
        for tensor, dim in zip((*_leaves(SMALL, device), relu_output), mapped, strict=True)
    )

    def mapping(make: Callable[..., Any]) -> Any:
        function = lambda *tensors: make(SMALL, tensors[3], output_mask)(*tensors[:3])  # noqa: E731
        return vmap(function, in_dims=mapped)(*tensors)

    expected = []
    for index in range(size):
        here = [
            tensor if dim is None else tensor.select(dim, index) for tensor, dim in zip(tensors, mapped, strict=True)
        ]
        expected.append(_single_operators(SMALL, here[3], output_mask)(*here[:3]))
    torch.testing.assert_close(mapping(_function), tuple(torch.stack(parts) for parts in zip(*expected, strict=True)))


# ---- training ----


def _penalised(function: Callable[..., Tensor], parameters: list[Tensor], image: Tensor, problem: Problem) -> Tensor:
    """A critic's loss with WGAN-GP's penalty, whose gradient goes through the gradient of the input."""
    critic = function(image, *parameters, **problem.parameters).tanh().sum((1, 2, 3, 4))
    (by_image,) = torch.autograd.grad(critic.sum(), image, create_graph=True)
    return critic.mean() + 10 * (by_image.flatten(1).norm(dim=1) - 1).square().mean()


def _relu_of_pytorch(*tensors: Tensor, **parameters: Any) -> Tensor:
    return F.conv_transpose3d(*tensors, **parameters).relu()


@pytest.mark.parametrize(
    "functions",
    [
        (convt3d.conv_transpose3d, F.conv_transpose3d),
        (convt3d.conv_transpose3d_relu, _relu_of_pytorch),
    ],
    ids=["linear", "relu"],
)
def test_gradient_penalty_agrees_with_pytorch(functions: tuple[Callable[..., Tensor], ...], device: str) -> None:
    """Of the loss, and of the parameters behind a step of the optimiser."""
    problem = Problem("", 3, 4, 6, (2, 3, 2), (3, 2, 2), (2, 1, 3), (1, 0, 1), (0, 0, 0), (1, 2, 1), 2)
    image, *begin = problem.tensors(torch.float64, device)
    outcomes = []
    for function in functions:
        parameters = [tensor.clone().requires_grad_() for tensor in begin]
        optimizer = torch.optim.SGD(parameters, lr=0.1)
        loss = _penalised(function, parameters, image.clone().requires_grad_(), problem)
        loss.backward()
        optimizer.step()
        assert all(not torch.equal(*pair) for pair in zip(parameters, begin, strict=True))
        outcomes.append((loss.detach(), *(parameter.detach() for parameter in parameters)))
    torch.testing.assert_close(*outcomes)

"""The five systems that the project grew from, against PyTorch: outputs and all gradients."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from reference import LAYOUTS, SYSTEMS, SYSTEMS_SMALL, Problem, assert_accurate, forward, gradients, poison
from torch import Tensor, nn

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


def _arguments(problem: Problem) -> dict[str, Any]:
    sizes = {"in_channels": problem.in_channels, "out_channels": problem.out_channels}
    return {**sizes, "kernel_size": problem.kernel_size, **problem.parameters}


def _models(problem: Problem, has_bias: bool, device: str) -> tuple[nn.Module, nn.Module]:
    """The system on PyTorch's layers and on ours, with the same weights."""
    arguments = {**_arguments(problem), "bias": has_bias}
    theirs: nn.Module = nn.ConvTranspose3d(**arguments)
    ours: nn.Module = convt3d.nn.ConvTranspose3d(**arguments)
    if problem.name == "seed3":
        norm = nn.GroupNorm(8, problem.out_channels)
        theirs = nn.Sequential(theirs, nn.ReLU(), norm)
        ours = nn.Sequential(convt3d.nn.ConvTranspose3dReLU(**arguments), nn.Identity(), copy.deepcopy(norm))
    ours.load_state_dict(theirs.state_dict())
    return theirs.to(device), ours.to(device)


def _how(mode: str, model: nn.Module) -> Any:
    if mode == "compiled":
        return torch.compile(model, fullgraph=True)
    return torch.jit.script(model) if mode == "scripted" else model


def _results(callable_model: Any, model: nn.Module, input: Tensor, grad_output: Tensor) -> list[Tensor | None]:
    leaf = input.clone().requires_grad_()
    model.zero_grad()
    output = callable_model(leaf)
    output.backward(grad_output)
    return [output.detach(), leaf.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("has_bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("mode", ["eager", "compiled", "scripted"])
@pytest.mark.parametrize("problem", SYSTEMS_SMALL, ids=str)
def test_training(problem: Problem, mode: str, has_bias: bool, device: str) -> None:
    theirs, ours = _models(problem, has_bias, device)
    callable_model = _how(mode, ours.train())
    for _ in range(2):
        input = torch.randn(problem.input_shape, device=device)
        grad_output = torch.randn(problem.output_shape, device=device)
        actual = _results(callable_model, ours, input, grad_output)
        wide = copy.deepcopy(theirs).double()
        expected = _results(wide, wide, input.double(), grad_output.double())
        for mine, other in zip(actual, expected, strict=True):
            assert mine is not None
            assert other is not None
            scale = other.square().mean().sqrt().item()
            torch.testing.assert_close(mine.double(), other, rtol=1e-4, atol=1e-4 * scale)


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("mode", ["eager", "compiled", "scripted"])
@pytest.mark.parametrize("problem", SYSTEMS_SMALL, ids=str)
def test_evaluation(problem: Problem, mode: str, device: str) -> None:
    theirs, ours = (model.eval() for model in _models(problem, True, device))
    callable_model = _how(mode, ours)
    input = torch.randn(problem.input_shape, device=device)
    with torch.no_grad():
        expected = copy.deepcopy(theirs).double()(input.double())
        for _ in range(2):
            torch.testing.assert_close(callable_model(input).double(), expected, rtol=1e-4, atol=1e-5)
    with torch.inference_mode():
        torch.testing.assert_close(ours(input).double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("problem", SYSTEMS, ids=str)
@pytest.mark.cuda
def test_full_size(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    """Output and input gradient on the first and the last image, the weight gradient whole."""
    has_relu = problem.name == "seed3"
    input, weight, bias = problem.tensors(dtype, "cuda", layout, requires_grad=True)
    grad_output = problem.grad_output(dtype, "cuda", layout)
    poison(problem.output_shape)
    operator = convt3d.conv_transpose3d_relu if has_relu else convt3d.conv_transpose3d
    output = operator(input, weight, bias, **problem.parameters)
    poison(problem.input_shape, problem.weight_shape)
    actual = torch.autograd.grad(output, (input, weight, bias), grad_output)

    ends = [0, problem.batch - 1]
    expected = forward(problem, input[ends], weight, bias)
    magnitude = forward(problem, input[ends].abs(), weight.abs(), bias.abs())
    assert_accurate(output[ends], expected.relu() if has_relu else expected, magnitude, problem.forward_terms)

    mask = output.detach() if has_relu else None
    expected_gradients = gradients(problem, grad_output, input, weight, mask)
    magnitudes = gradients(problem, grad_output.abs(), input.abs(), weight.abs(), mask)
    terms = (problem.input_grad_terms, problem.weight_grad_terms, output[:, 0].numel())
    for index in range(3):
        assert_accurate(actual[index], expected_gradients[index], magnitudes[index], terms[index])

"""The five systems that the project grew from, against PyTorch: outputs and all gradients."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference import SYSTEMS, SYSTEMS_SMALL, Problem, assert_accurate, forward, gradients, poison
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


KINDS = [
    (torch.float32, "NCDHW"),
    (torch.float32, "NDHWC"),
    (torch.float16, "NDHWC"),
    (torch.bfloat16, "NCDHW"),
]


@pytest.mark.parametrize(("dtype", "layout"), KINDS, ids=str)
@pytest.mark.parametrize("problem", SYSTEMS, ids=str)
@pytest.mark.cuda
def test_full_size_is_exact_on_integers(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    """PyTorch's float32 is reference enough: rounded to integers it is exact, whatever its algorithm."""
    has_relu = problem.name == "seed3"
    input, weight, bias = problem.tensors(dtype, "cuda", layout, integers=True, requires_grad=True)
    grad_output = problem.grad_output(dtype, "cuda", layout, integers=True)
    poison(problem.output_shape)
    operator = convt3d.conv_transpose3d_relu if has_relu else convt3d.conv_transpose3d
    output = operator(input, weight, bias, **problem.parameters)
    poison(problem.input_shape, problem.weight_shape)
    actual = torch.autograd.grad(output, (input, weight, bias), grad_output)

    leaves = [tensor.detach().float().requires_grad_() for tensor in (input, weight, bias)]
    expected = F.conv_transpose3d(*leaves, **problem.parameters)
    rounded = expected.detach().round()
    assert torch.equal(output, (rounded.relu() if has_relu else rounded).to(dtype))
    masked = torch.where(rounded > 0, grad_output, 0).float() if has_relu else grad_output.float()
    for result, gradient in zip(actual[:2], torch.autograd.grad(expected, leaves[:2], masked), strict=True):
        assert torch.equal(result, gradient.round().to(dtype))
    assert torch.equal(actual[2], masked.double().sum((0, 2, 3, 4)).to(dtype))


@pytest.mark.parametrize(("dtype", "layout"), KINDS, ids=str)
@pytest.mark.parametrize("problem", SYSTEMS, ids=str)
@pytest.mark.cuda
def test_full_volume_accuracy(problem: Problem, dtype: torch.dtype, layout: str) -> None:
    """Two images of the full size, so that float64 takes seconds."""
    problem = dataclasses.replace(problem, batch=2)
    input, weight, bias = problem.tensors(dtype, "cuda", layout, requires_grad=True)
    grad_output = problem.grad_output(dtype, "cuda", layout)
    poison(problem.output_shape)
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    poison(problem.input_shape, problem.weight_shape)
    results = [output, *torch.autograd.grad(output, (input, weight, bias), grad_output)]

    theirs = F.conv_transpose3d(input, weight, bias, **problem.parameters)
    baselines = [theirs, *torch.autograd.grad(theirs, (input, weight, bias), grad_output)]
    expected = [forward(problem, input, weight, bias), *gradients(problem, grad_output, input, weight)]
    magnitudes = [
        forward(problem, input.abs(), weight.abs(), bias.abs()),
        *gradients(problem, grad_output.abs(), input.abs(), weight.abs()),
    ]
    terms = (problem.forward_terms, problem.input_grad_terms, problem.weight_grad_terms, output[:, 0].numel())
    for index in range(4):
        assert_accurate(results[index], expected[index], magnitudes[index], terms[index], pytorch=baselines[index])

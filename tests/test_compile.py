"""torch.compile: whole graphs, forward and backward, static and dynamic shapes."""

import copy
from typing import Any

import pytest
import torch
from reference import LAYOUTS, PROBLEMS, Problem
from torch import Tensor, nn

import convt3d

pytestmark = pytest.mark.usefixtures("fresh_compiler")

ALL_DIFFERENT = PROBLEMS[0]


def _forward_and_gradients(function: Any, tensors: tuple[Tensor, ...], grad_output: Tensor) -> tuple[Tensor, ...]:
    output = function(*tensors)
    return (output, *torch.autograd.grad(output, tensors, grad_output))


@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
@pytest.mark.parametrize("name", ["stride", "padding", "output_padding", "dilation"])
def test_symbolic_int_for_three(name: str, dynamic: bool | None, operator_name: str) -> None:
    input, weight, bias = Problem("", 2, 3, 4, (5, 6, 7), (3, 3, 2)).tensors(torch.float32, "cpu", integers=True)

    def function(value: int) -> Tensor:
        parameters = {"stride": 5, name: value}
        output: Tensor = getattr(convt3d, operator_name)(input, weight, bias, **parameters)
        return output

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for value in (2, 3, 1, 4):
        assert torch.equal(compiled(value), function(value))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[3]], ids=str)
def test_forward_and_backward(problem: Problem, dynamic: bool, layout: str, operator_name: str, device: str) -> None:
    tensors = problem.tensors(torch.float32, device, layout, integers=True, requires_grad=True)
    grad_output = problem.grad_output(torch.float32, device, layout, integers=True)

    def function(input: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        output: Tensor = getattr(convt3d, operator_name)(input, weight, bias, **problem.parameters)
        return output

    compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    expected = _forward_and_gradients(function, tensors, grad_output)
    for actual, wanted in zip(_forward_and_gradients(compiled, tensors, grad_output), expected, strict=True):
        assert torch.equal(actual, wanted)
        assert actual.stride() == wanted.stride()


def test_dynamic_shapes_compile_once(operator_name: str, device: str) -> None:
    module_type = convt3d.nn.ConvTranspose3dReLU if operator_name.endswith("_relu") else convt3d.nn.ConvTranspose3d
    module = module_type(4, 3, (3, 2, 3), (2, 1, 3), (1, 0, 1), (1, 0, 2)).to(device)
    compiled = torch.compile(module, fullgraph=True, dynamic=True, backend="aot_eager")
    compiled(torch.randn(2, 4, 3, 5, 6, device=device)).sum().backward()
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in ((3, 4, 5, 6, 7), (4, 4, 7, 3, 6), (5, 4, 4, 9, 4)):
            input = torch.randn(size, device=device)
            output = compiled(input)
            assert torch.equal(output, module(input))
            output.sum().backward()


class _Network(nn.Module):
    """Up-sampling as it is used: convolutions before and after, normalisation, a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv3d(2, 6, 3, padding=1)
        self.up = convt3d.nn.ConvTranspose3d(
            6, 8, (2, 3, 2), stride=2, padding=(0, 1, 0), output_padding=(0, 1, 0), groups=2
        )
        self.norm = nn.GroupNorm(4, 8)
        self.up_relu = convt3d.nn.ConvTranspose3dReLU(8, 4, 3, stride=(1, 2, 2), padding=1, output_padding=(0, 1, 1))
        self.after = nn.Conv3d(4, 1, 1)

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.after(self.up_relu(self.norm(self.up(self.before(input)).relu())))
        return output


@pytest.mark.slow
@pytest.mark.parametrize("memory_format", LAYOUTS.values(), ids=LAYOUTS)
def test_network_trains_like_eager(memory_format: torch.memory_format, device: str) -> None:
    """With Inductor, which generates code around the operators and may choose other strides for their arguments."""
    network = _Network().to(device, memory_format=memory_format)
    other = copy.deepcopy(network)
    compiled = torch.compile(other, fullgraph=True)
    optimizers = [torch.optim.SGD(model.parameters(), lr=1e-2) for model in (network, other)]
    for _ in range(2):
        input = torch.randn(2, 2, 3, 4, 5, device=device).to(memory_format=memory_format)
        losses = []
        for model, optimizer in zip((network, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            losses.append(model(input).square().mean())
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0])
    for mine, theirs in zip(other.parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_output_size_and_unbatched_input(device: str) -> None:
    module = convt3d.nn.ConvTranspose3d(3, 2, 3, stride=2).to(device)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    input = torch.randn(3, 4, 5, 6, device=device)
    assert torch.equal(compiled(input, output_size=[9, 12, 13]), module(input, output_size=[9, 12, 13]))


def test_autocast_inside(device: str) -> None:
    module = convt3d.nn.ConvTranspose3dReLU(3, 2, 3, stride=2).to(device)

    def function(input: Tensor) -> Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            output: Tensor = module(input)
        return output

    input = torch.randn(2, 3, 4, 5, 6, device=device)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert compiled(input).dtype == torch.bfloat16
    assert torch.equal(compiled(input), function(input))


def test_inference_mode(operator_name: str, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = problem.tensors(torch.float32, device, integers=True)

    def function(*tensors: Tensor) -> Tensor:
        output: Tensor = getattr(convt3d, operator_name)(*tensors, **problem.parameters)
        return output

    with torch.inference_mode():
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
        assert torch.equal(compiled(*tensors), function(*tensors))


def test_bad_argument_is_named_while_compiling(device: str) -> None:
    function = torch.compile(convt3d.conv_transpose3d, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="input must have C_in = 3 channels"):
        function(torch.zeros(1, 2, 3, 3, 3, device=device), torch.zeros(3, 2, 1, 1, 1, device=device))

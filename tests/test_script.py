"""TorchScript: scripted and traced models, trained, saved and loaded in a new process."""

import copy
from pathlib import Path

import pytest
import torch
from recorded_calls import Calls
from reference import PROBLEMS, run_python
from torch import Tensor, nn

import convt3d

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = convt3d.nn.ConvTranspose3d(4, 6, (3, 2, 4), (2, 1, 3), (1, 0, 2), (1, 0, 2), 2, True, (1, 2, 1))
        self.up_relu = convt3d.nn.ConvTranspose3dReLU(6, 3, 2, stride=2, bias=False)
        self.last = nn.Conv3d(3, 1, 1)

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.last(self.up_relu(self.up(input)))
        return output


def _input(device: str, batch: int = 2) -> Tensor:
    return torch.randn(batch, 4, 3, 4, 5, device=device)


def test_scripted_training_equals_eager(device: str) -> None:
    """Enough calls for the profiling executor to specialise the graph."""
    network = _Network().to(device)
    other = copy.deepcopy(network)
    scripted = torch.jit.script(other)
    optimizers = [torch.optim.SGD(model.parameters(), lr=1e-2) for model in (network, other)]
    for step in range(4):
        input = _input(device, batch=2 + step % 2)
        inputs = [input.clone().requires_grad_() for _ in range(2)]
        outputs = []
        for model, leaf, optimizer in zip((network, scripted), inputs, optimizers, strict=True):
            optimizer.zero_grad()
            outputs.append(model(leaf))
            outputs[-1].square().mean().backward()
        torch.testing.assert_close(outputs[1], outputs[0])
        assert inputs[0].grad is not None
        torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
        for mine, theirs in zip(other.parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)
        for optimizer in optimizers:
            optimizer.step()


def test_gradients_of_a_scripted_layer_are_one_call(device: str) -> None:
    network = _Network().to(device)
    scripted = torch.jit.script(network)
    for _ in range(3):  # the profiling executor has specialised the graph by then
        with Calls() as calls:
            scripted(_input(device).requires_grad_()).sum().backward()
        assert calls.names == ["", "_relu", "_backward", "_backward"]


LOADED = """
import sys
import torch
import convt3d

model, case = sys.argv[1:]
network = torch.jit.load(model)
input, expected, gradients = torch.load(case)
output = network(input)
torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)
output.square().mean().backward()
torch.testing.assert_close([parameter.grad for parameter in network.parameters()], gradients, rtol=1e-4, atol=1e-5)
print("close")
"""


@pytest.mark.parametrize("how", ["script", "trace"])
def test_saved_and_loaded_in_a_new_process(how: str, device: str, tmp_path: Path) -> None:
    network = _Network().to(device)
    input = _input(device)
    module = torch.jit.script(network) if how == "script" else torch.jit.trace(network, (input,))
    module.save(tmp_path / "network.pt")
    output = network(input)
    output.square().mean().backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    torch.save((input, output.detach(), gradients), tmp_path / "case.pt")
    assert run_python(LOADED, str(tmp_path / "network.pt"), str(tmp_path / "case.pt")) == "close"


def test_traced_for_another_size(device: str) -> None:
    network = _Network().to(device)
    traced = torch.jit.trace(network, (_input(device),))
    kinds = {node.kind() for node in traced.up.graph.nodes()}
    assert "convt3d::conv_transpose3d" in kinds
    other = torch.randn(3, 4, 5, 2, 4, device=device)
    torch.testing.assert_close(traced(other), network(other))


def test_frozen(device: str) -> None:
    network = _Network().eval().to(device)
    frozen = torch.jit.freeze(torch.jit.script(network))
    input = _input(device)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(frozen(input), network(input))


@pytest.mark.parametrize("module_type", [convt3d.nn.ConvTranspose3d, convt3d.nn.ConvTranspose3dReLU])
def test_scripted_module_takes_output_size_and_unbatched_input(module_type: type[nn.Module], device: str) -> None:
    module = module_type(4, 2, 3, stride=2).to(device)
    scripted = torch.jit.script(module)
    input = _input(device)
    for output_size in (None, [7, 9, 12], [2, 2, 8, 10, 11]):
        assert torch.equal(scripted(input, output_size), module(input, output_size))
    assert torch.equal(scripted(input[0]), module(input[0]))
    assert torch.equal(scripted(input[0], [7, 9, 12]), module(input[0], [7, 9, 12]))
    with pytest.raises(torch.jit.Error, match="requested an output size"):
        scripted(input, [7, 9, 13])


def test_scripted_call_of_every_operator(device: str) -> None:
    @torch.jit.script
    def function(
        input: Tensor, weight: Tensor, bias: Tensor, grad_output: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        output = torch.ops.convt3d.conv_transpose3d(input, weight, bias, [2, 3, 1], [1, 0, 2], [1, 2, 0], 3, [1, 2, 3])
        relu = torch.ops.convt3d.conv_transpose3d_relu(
            input,
            weight,
            bias,
            groups=3,
            stride=[2, 3, 1],
            padding=[1, 0, 2],
            output_padding=[1, 2, 0],
            dilation=[1, 2, 3],
        )
        by_input = torch.ops.convt3d.conv_transpose3d_input_grad(
            grad_output, weight, relu, [2, 3, 1], [1, 0, 2], [1, 2, 0], 3, [1, 2, 3]
        )
        by_weight = torch.ops.convt3d.conv_transpose3d_weight_grad(
            grad_output, input, [3, 2, 4], None, [2, 3, 1], [1, 0, 2], [1, 2, 0], 3, [1, 2, 3]
        )
        by_bias = torch.ops.convt3d.conv_transpose3d_bias_grad(grad_output, relu)
        _, masked, sums = torch.ops.convt3d.conv_transpose3d_backward(
            grad_output, input, weight, relu, [2, 3, 1], [1, 0, 2], [1, 2, 0], 3, [1, 2, 3], [False, True, True]
        )
        return output, relu, by_input, by_weight, by_bias, masked, sums

    problem = PROBLEMS[0]
    input, weight, bias = problem.tensors(torch.float32, device, integers=True)
    grad_output = problem.grad_output(torch.float32, device, integers=True)
    ops, parameters = torch.ops.convt3d, problem.parameters
    relu = ops.conv_transpose3d_relu(input, weight, bias, **parameters)
    expected = (
        ops.conv_transpose3d(input, weight, bias, **parameters),
        relu,
        ops.conv_transpose3d_input_grad(grad_output, weight, relu, **parameters),
        ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, **parameters),
        ops.conv_transpose3d_bias_grad(grad_output, relu),
        ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, relu, **parameters),
        ops.conv_transpose3d_bias_grad(grad_output, relu),
    )
    for actual, wanted in zip(function(input, weight, bias, grad_output), expected, strict=True):
        assert torch.equal(actual, wanted)

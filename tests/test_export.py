"""torch.export and AOTInductor packages."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from packaged import assert_same_packaged
from reference import PROBLEMS, run_python
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = convt3d.nn.ConvTranspose3d(4, 6, (3, 2, 4), (2, 1, 3), (1, 0, 2), (1, 0, 2), 2, True, (1, 2, 1))
        self.up_relu = convt3d.nn.ConvTranspose3dReLU(6, 3, 2, stride=2)

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.up_relu(self.up(input))
        return output


@pytest.fixture
def network(device: str) -> nn.Module:
    return _Network().eval().to(device)


LOADED_EXPORT = """
import sys
import torch
import convt3d

program, cases = sys.argv[1:]
module = torch.export.load(program).module()
for input, expected in torch.load(cases):
    assert torch.equal(module(input), expected)
print("equal")
"""


@pytest.mark.own_plans  # the other process has them, and bits are compared
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_export_saved_and_loaded_in_a_new_process(
    network: nn.Module, dynamic: bool, device: str, tmp_path: Path
) -> None:
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    dims = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 4: torch.export.Dim.DYNAMIC}
    program = torch.export.export(network, (input,), dynamic_shapes=(dims,) if dynamic else None)
    targets = {str(node.target) for node in program.graph.nodes}
    assert {"convt3d.conv_transpose3d.default", "convt3d.conv_transpose3d_relu.default"} <= targets
    torch.export.save(program, tmp_path / "program.pt2")
    inputs = [input, torch.randn(3, 4, 5, 4, 2, device=device)] if dynamic else [input]
    with torch.no_grad():
        torch.save([(case, network(case)) for case in inputs], tmp_path / "cases.pt")
    assert run_python(LOADED_EXPORT, str(tmp_path / "program.pt2"), str(tmp_path / "cases.pt")) == "equal"


def test_exported_program_trains(network: nn.Module, device: str) -> None:
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    network(input).sum().backward()
    expected = [parameter.grad for parameter in network.parameters()]
    network.zero_grad()
    module = torch.export.export(network, (input,)).module()
    module(input).sum().backward()
    torch.testing.assert_close([parameter.grad for parameter in module.parameters()], expected)


def test_run_decompositions_keeps_the_operators(network: nn.Module, device: str) -> None:
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    program = torch.export.export(network, (input,)).run_decompositions()
    with torch.no_grad():
        assert torch.equal(program.module()(input), network(input))


@pytest.fixture
def is_the_same_packaged(tmp_path: Path) -> Callable[..., None]:
    """In a folder of the test's own."""
    return partial(assert_same_packaged, folder=tmp_path)


@pytest.mark.slow
def test_aot_inductor_package_loaded_in_a_new_process(
    network: nn.Module, device: str, is_the_same_packaged: Callable[..., None]
) -> None:
    calls = [(torch.randn(batch, 4, 3, 4, 5, device=device),) for batch in (2, 5)]
    with torch.no_grad():
        shapes = ({0: torch.export.Dim("batch", min=1, max=8)},)
        program = torch.export.export(network, calls[0], dynamic_shapes=shapes)
        is_the_same_packaged(program, network, calls)


@pytest.mark.slow
def test_packaged_training_step(network: nn.Module, device: str, is_the_same_packaged: Callable[..., None]) -> None:
    """Loss and gradients as one graph, in which the gradients of a layer are one operator."""
    parameters = {name: parameter.detach() for name, parameter in network.named_parameters()}

    def step(input: Tensor, *values: Tensor) -> list[Tensor]:
        leaves = [value.detach().requires_grad_() for value in (input, *values)]
        output = functional_call(network, dict(zip(parameters, leaves[1:], strict=True)), (leaves[0],))
        loss = output.square().mean()
        return [loss.detach(), *torch.autograd.grad(loss, leaves)]

    calls = [
        tuple(value + 0.01 * torch.randn_like(value) for value in (torch.randn(2, 4, 3, 4, 5, device=device), *rest))
        for rest in (parameters.values(), parameters.values())
    ]
    graph = make_fx(step)(*calls[0])
    program = torch.export.export(graph, calls[0])
    called = [str(node.target) for node in program.graph.nodes]
    assert called.count("convt3d.conv_transpose3d_backward.default") == 2
    is_the_same_packaged(program, step, calls)


def _remedy() -> dict[str, Any]:
    """What docs/troubleshooting.md defines for it."""
    page = (Path(__file__).resolve().parents[1] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    block = re.search(r"```py\n(def single_gradients.*?\n\n\n)", page, re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {"torch": torch}
    exec(block[1], names)
    return names


@pytest.mark.slow
def test_packaged_backward_of_some_gradients(device: str, is_the_same_packaged: Callable[..., None]) -> None:
    """AOTInductor packages no operator that returns None, so that the operator is taken apart first."""
    problem = PROBLEMS[0]
    stride, padding, output_padding, groups, dilation = problem.parameters.values()

    class Gradients(nn.Module):
        def forward(self, grad_output: Tensor, input: Tensor, weight: Tensor, relu_output: Tensor) -> list[Tensor]:
            results: list[Tensor | None] = []
            for output_mask in [(True, False, True), (False, True, False)]:
                results += torch.ops.convt3d.conv_transpose3d_backward(
                    *(grad_output, input, weight, relu_output),
                    *(stride, padding, output_padding, groups, dilation, output_mask),
                )
            return [result for result in results if result is not None]

    input, weight, _ = problem.tensors(torch.float32, device)
    relu_output = problem.grad_output(torch.float32, device).relu()
    tensors = (problem.grad_output(torch.float32, device), input, weight, relu_output)
    program = torch.export.export(Gradients(), tensors)
    backward = torch.ops.convt3d.conv_transpose3d_backward.default
    single = program.run_decompositions({backward: _remedy()["single_gradients"]})
    called = {node.target for node in single.graph.nodes}
    assert backward not in called
    is_the_same_packaged(single, Gradients(), [tensors])

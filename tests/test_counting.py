"""PyTorch's own tools that count and profile: FLOPs, the shapes of operators, the module at work."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference import PROBLEMS, Problem, run_python
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.module_tracker import ModuleTracker

import convt3d


def _flops(function: Any, problem: Problem, wanted: tuple[bool, ...]) -> int:
    tensors = problem.tensors(torch.float32, "cpu")
    for tensor, needed in zip(tensors, wanted, strict=True):
        tensor.requires_grad_(needed)
    with FlopCounterMode(display=False) as counter:
        output = function(*tensors, **problem.parameters)
        if any(wanted):
            output.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize(
    "wanted",
    [(False, False, False), (True, False, True), (False, True, False), (False, True, True), (True, True, True)],
)
@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[7]], ids=str)
def test_flops(problem: Problem, wanted: tuple[bool, ...], operator_name: str) -> None:
    products = problem.batch * problem.forward_terms * problem.out_channels
    one = 2 * products * problem.input_shape[2] * problem.input_shape[3] * problem.input_shape[4]
    actual = _flops(getattr(convt3d, operator_name), problem, wanted)
    assert actual == one * (1 + sum(wanted[:2]))
    if problem.groups == 1 or not any(wanted):
        assert actual == _flops(F.conv_transpose3d, problem, wanted)


@pytest.mark.parametrize("first", ["convt3d", "torch.utils.flop_counter"])
def test_import_order(first: str) -> None:
    """Importing convt3d does not import PyTorch's counters, which may come before or after."""
    program = f"""
import sys, {first}
assert {first!r} != "convt3d" or "torch.utils.flop_counter" not in sys.modules
import convt3d
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False) as counter:
    convt3d.conv_transpose3d(torch.ones(1, 2, 3, 3, 3), torch.ones(2, 5, 2, 2, 2))
print(counter.get_total_flops())
"""
    assert run_python(program) == str(2 * 27 * 2 * 5 * 8)


def test_profiler_records_shapes(operator_name: str) -> None:
    problem = PROBLEMS[0]
    input, weight, bias = problem.tensors(torch.float32, "cpu", requires_grad=True)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        getattr(convt3d, operator_name)(input, weight, bias, **problem.parameters).sum().backward()
    shapes = {event.key: event.input_shapes for event in recorded.key_averages(group_by_input_shape=True)}
    forward = shapes[f"convt3d::{operator_name}"]
    assert forward[:3] == [list(tensor.shape) for tensor in (input, weight, bias)]
    output, relu = list(problem.output_shape), operator_name.endswith("_relu")
    mask = output if relu else []
    assert shapes["convt3d::conv_transpose3d_backward"][:4] == [output, list(input.shape), list(weight.shape), mask]


def test_module_tracker() -> None:
    seen = []

    class Spy(nn.Module):
        def forward(self, input: Tensor) -> Tensor:
            seen.append(set(tracker.parents))
            return input

    class Layer(convt3d.nn.ConvTranspose3d):
        def __init__(self) -> None:
            super().__init__(3, 4, 2)
            self.spy = Spy()

        def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
            return super().forward(self.spy(input), output_size)

    model = nn.Sequential(Layer(), convt3d.nn.ConvTranspose3dReLU(4, 2, 2))
    with ModuleTracker() as tracker, FlopCounterMode(display=False) as counter:
        model(torch.randn(1, 3, 2, 2, 2, requires_grad=True)).sum().backward()
    assert seen == [{"Global", "Sequential", "Sequential.0", "Sequential.0.spy"}]
    of_module = {name: sum(counts.values()) for name, counts in counter.get_flop_counts().items()}
    assert of_module["Sequential.0"] == 3 * 2 * 8 * 3 * 4 * 8
    assert of_module["Sequential.1"] == 3 * 2 * 27 * 4 * 2 * 8

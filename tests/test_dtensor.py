"""On DTensors the operators compute what they compute on whole tensors, and communicate only where they have to."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import pytest
import reference
import torch
from processes import run_group
from reference import Problem, run_python
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

import convt3d

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from torch.distributed.device_mesh import DeviceMesh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo"),
]

# ---- each operator, however its tensors are placed ----

GEOMETRY: dict[str, Any] = {
    "stride": (2, 1, 3), "padding": (1, 0, 2), "output_padding": (1, 2, 0), "dilation": (1, 3, 2)
}  # fmt: skip
# Of one group, no size that may be sharded is a multiple of the two processes.
PROBLEMS = {
    1: Problem("one group", 3, 5, 7, (2, 4, 3), (3, 2, 4), **GEOMETRY),
    2: Problem("two groups", 3, 6, 10, (2, 4, 3), (3, 2, 4), **GEOMETRY, groups=2),
}

R, S0, S1, S2, P = Replicate(), Shard(0), Shard(1), Shard(2), Partial()
ACTIVATION, WEIGHT, BIAS = (R, S0, S1, S2, P), (R, S0, S1, P), (None, R, S0, P)
MASK = (None, R, S0, S1, S2)
# What the tensors of an operator come as; None: the optional one is not given.
PLACEMENTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "conv_transpose3d": {"input": ACTIVATION, "weight": WEIGHT, "bias": BIAS},
    "conv_transpose3d_relu": {"input": ACTIVATION, "weight": WEIGHT, "bias": BIAS},
    "conv_transpose3d_input_grad": {"grad_output": ACTIVATION, "weight": WEIGHT, "relu_output": MASK},
    "conv_transpose3d_weight_grad": {"grad_output": ACTIVATION, "input": ACTIVATION, "relu_output": MASK},
    "conv_transpose3d_bias_grad": {"grad_output": ACTIVATION, "relu_output": MASK},
    "conv_transpose3d_backward": {
        "grad_output": (R, S0, S1, P),
        "input": (R, S0, S1),
        "weight": (R, S0, S1),
        "relu_output": (None, S0, S1),
    },
}
# What nothing has to be communicated for, and the result's placement then; the others make the result whole or sharded.
WITH_ANY_GROUPS = {
    "conv_transpose3d": {(R, R, R): R, (R, R, None): R, (S0, R, R): S0, (S0, R, None): S0},
    "conv_transpose3d_relu": {(R, R, R): R, (R, R, None): R, (S0, R, R): S0, (S0, R, None): S0},
    "conv_transpose3d_input_grad": {(R, R, R): R, (S0, R, None): S0, (S0, R, S0): S0},
    "conv_transpose3d_weight_grad": {(R, R, R): R, (S0, S0, None): P, (S0, S0, S0): P},
    "conv_transpose3d_backward": {(S0, S0, R, None): (S0, P, P), (S0, S0, R, S0): (S0, P, P)},
}
WITH_ONE_GROUP = {
    "conv_transpose3d": {(R, S1, S0): S1, (R, S1, None): S1, (S1, S0, R): P, (S1, S0, None): P, (S1, S0, P): P},
    "conv_transpose3d_relu": {(R, S1, S0): S1, (R, S1, None): S1},
    "conv_transpose3d_input_grad": {(R, S0, None): S1, (R, S0, R): S1, (S1, S1, None): P, (S1, S1, S1): P},
    "conv_transpose3d_weight_grad": {(R, S1, None): S0, (R, S1, R): S0, (S1, R, None): S1, (S1, R, S1): S1},
    "conv_transpose3d_backward": {
        (R, S1, S0, None): (S1, S0, R),
        (S1, R, S1, None): (P, S1, S0), (S1, R, S1, S1): (P, S1, S0),
    },
    "conv_transpose3d_bias_grad": {
        (R, R): R, (S0, None): P, (S0, S0): P, (S1, None): S0, (S1, S1): S0, (S2, None): P, (S2, S2): P
    },
}  # fmt: skip


def _calls() -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    for operator, of_tensors in PLACEMENTS.items():
        for groups in (1,) if operator == "conv_transpose3d_bias_grad" else PROBLEMS:
            for placements in itertools.product(*of_tensors.values()):
                yield operator, groups, placements


@functools.cache
def _tensors(problem: Problem) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = {
        "input": problem.input_shape,
        "weight": problem.weight_shape,
        "bias": (problem.out_channels,),
        "grad_output": problem.output_shape,
        "relu_output": problem.output_shape,
    }
    return {name: torch.randn(shape, dtype=torch.float64, generator=random) for name, shape in shapes.items()}


def _call(operator: str, problem: Problem, tensors: list[Any]) -> Any:
    if operator == "conv_transpose3d_weight_grad":
        tensors = [*tensors[:2], problem.kernel_size, *tensors[2:]]
    parameters = [] if operator == "conv_transpose3d_bias_grad" else problem.parameters.values()
    return getattr(torch.ops.convt3d, operator)(*tensors, *parameters)


@functools.cache
def _expected(operator: str, problem: Problem, has_optional: bool) -> tuple[Tensor, ...]:
    tensors = _tensors(problem)
    input, weight = tensors["input"], tensors["weight"]
    if operator in ("conv_transpose3d", "conv_transpose3d_relu"):
        output = reference.forward(problem, input, weight, tensors["bias"] if has_optional else None)
        return (output.relu() if operator.endswith("relu") else output,)
    relu_output = tensors["relu_output"] if has_optional else None
    gradients = reference.gradients(problem, tensors["grad_output"], input, weight, relu_output)
    if operator == "conv_transpose3d_backward":
        return gradients
    return (gradients[["input_grad", "weight_grad", "bias_grad"].index(operator.removeprefix("conv_transpose3d_"))],)


def _distributed(tensor: Tensor, mesh: DeviceMesh, placement: Any) -> Any:
    if placement is None:
        return None
    if placement.is_partial():  # terms that differ
        return DTensor.from_local(tensor * (0.25, 0.75)[mesh.get_local_rank()], mesh, [placement])
    return distribute_tensor(tensor, mesh, [placement])


def _call_distributed(mesh: DeviceMesh) -> list[tuple[tuple[Tensor, ...], Any, int]]:
    """Of each call the whole results, their placements and how often it communicated."""
    outcomes = []
    for operator, groups, placements in _calls():
        tensors = [_tensors(PROBLEMS[groups])[name] for name in PLACEMENTS[operator]]
        given = [_distributed(*item) for item in zip(tensors, itertools.repeat(mesh), placements)]
        with CommDebugMode() as communication:
            called = _call(operator, PROBLEMS[groups], given)
        results = called if isinstance(called, tuple) else (called,)
        places = tuple(str(result.placements[0]) for result in results)
        outcomes.append((tuple(map(DTensor.full_tensor, results)), places, communication.get_total_counts()))
    return outcomes


# ---- calls that differ in a parameter only ----

PARAMETERS: list[dict[str, Any]] = [
    {},
    {"stride": (1, 3, 2)},
    {"stride": (3, 1, 2)},
    {"padding": (1, 0, 0)},
    {"stride": 3, "output_padding": (2, 1, 0)},
    {"dilation": (2, 1, 3)},
    {"groups": 2},
]


def _call_with_parameters(mesh: DeviceMesh) -> list[tuple[tuple[int, ...], Tensor]]:
    """Outputs for tensors of the same shapes and placements: the shape that DTensor says, and the tensor itself."""
    tensors = (torch.ones(3, 2, 3, 4, 5, dtype=torch.float64), torch.ones(2, 5, 3, 2, 4, dtype=torch.float64))
    input, weight = (distribute_tensor(tensor, mesh, [place]) for tensor, place in zip(tensors, (S0, R), strict=True))
    outputs = [convt3d.conv_transpose3d(input, weight, **parameters) for parameters in PARAMETERS]
    return [(tuple(output.shape), output.full_tensor()) for output in outputs]


def _call_on_one_image(mesh: DeviceMesh) -> Tensor:
    """A batch that not every process can have a part of."""
    tensors = _tensors(PROBLEMS[1])
    input, weight = (
        distribute_tensor(tensor, mesh, [placement])
        for tensor, placement in ((tensors["input"][:1], S0), (tensors["weight"], R))
    )
    output: DTensor = convt3d.conv_transpose3d_relu(input, weight, **GEOMETRY)
    return output.full_tensor()


# ---- networks ----

STEPS = 2


class Network(nn.Module):
    """Where channels are shared, the processes share those in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.first = convt3d.nn.ConvTranspose3dReLU(4, 8, (3, 2, 4), (2, 1, 3), (1, 0, 2))
        self.second = convt3d.nn.ConvTranspose3d(8, 6, (2, 3, 1), (1, 2, 1))

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.second(self.first(input))
        return output


def _network() -> Network:
    torch.manual_seed(0)
    return Network().double()


def _batches() -> Tensor:
    return torch.randn(STEPS, 4, 4, 2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def _share_channels(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
    """The last dimension of the mesh shares the channels in the middle."""
    last = {"first": {"weight": S1, "bias": S0}, "second": {"weight": S0, "bias": R}}.get(name, {})
    for key, placement in last.items():
        placements = [R] * (mesh.ndim - 1) + [placement]
        parameter = getattr(module, key)
        setattr(module, key, nn.Parameter(distribute_tensor(parameter.detach(), mesh, placements)))


def _train(model: nn.Module, batches: list[Tensor]) -> dict[str, Tensor]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    state = model.state_dict()
    return {name: value.full_tensor() if isinstance(value, DTensor) else value for name, value in state.items()}


def _train_distributed(mesh: DeviceMesh, batch: Any, share_channels: bool, compiled: bool = False) -> dict[str, Tensor]:
    model = distribute_module(_network(), mesh, _share_channels if share_channels else None)
    called = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
    _train(called, [distribute_tensor(whole, mesh, [batch] + [R] * (mesh.ndim - 1)) for whole in _batches()])
    return {name: value.full_tensor() for name, value in model.state_dict().items()}


def everything(device: str) -> dict[str, Any]:
    """In one of two processes."""
    mesh = torch.distributed.init_device_mesh(device, (2,))
    return {
        "calls": _call_distributed(mesh),
        "parameters": _call_with_parameters(mesh),
        "one image": _call_on_one_image(mesh),
        "networks": {
            "data parallel": _train_distributed(mesh, S0, share_channels=False),
            "tensor parallel": _train_distributed(mesh, R, share_channels=True),
            "tensor parallel, compiled": _train_distributed(mesh, R, share_channels=True, compiled=True),
        },
    }


def networks_on_two_dimensions(device: str) -> dict[str, dict[str, Tensor]]:
    """In one of four processes."""
    mesh = torch.distributed.init_device_mesh(device, (2, 2), mesh_dim_names=("data", "model"))
    sharded = distribute_module(_network(), mesh["model"], _share_channels)
    fully_shard(sharded, mesh=mesh["data"])
    mine = [batch.chunk(2)[mesh.get_local_rank("data")] for batch in _batches()]
    return {
        "data and tensor parallel": _train_distributed(mesh, S0, share_channels=True),
        "FSDP and tensor parallel": _train(
            sharded, [distribute_tensor(batch, mesh["model"], [R], src_data_rank=None) for batch in mine]
        ),
    }


# ---- tests ----


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def of_two_processes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    results: dict[str, Any] = run_group(everything, request.param, tmp_path_factory.mktemp("dtensor"))
    return results


def test_results_are_those_of_whole_tensors(of_two_processes: dict[str, Any]) -> None:
    for (operator, groups, placements), (result, *_) in zip(_calls(), of_two_processes["calls"], strict=True):
        expected = _expected(operator, PROBLEMS[groups], placements[-1] is not None)
        call = f"{operator} with {groups} groups on {placements}"
        torch.testing.assert_close(result, expected, msg=lambda text, call=call: f"{call}: {text}")


def test_what_needs_no_communication(of_two_processes: dict[str, Any]) -> None:
    outcomes = {call: outcome[1:] for call, outcome in zip(_calls(), of_two_processes["calls"], strict=True)}
    silent = {
        (operator, groups, placements): result
        for groups, tables in ((1, (WITH_ONE_GROUP, WITH_ANY_GROUPS)), (2, (WITH_ANY_GROUPS,)))
        for table in tables
        for operator, of_placements in table.items()
        for placements, result in of_placements.items()
    }
    for call, placement in silent.items():
        placements = placement if isinstance(placement, tuple) else (placement,)
        assert outcomes[call] == (tuple(map(str, placements)), 0), call
    # A process takes its part of what is replicated for free; where none is, the tables say all that costs nothing.
    for call, (_, communications) in outcomes.items():
        if communications == 0 and R not in call[2]:
            assert call in silent
    assert sum(communications > 0 for _, communications in outcomes.values()) > len(outcomes) / 2


def test_parameters_tell_calls_apart(of_two_processes: dict[str, Any]) -> None:
    input, weight = torch.ones(3, 2, 3, 4, 5).double(), torch.ones(2, 5, 3, 2, 4).double()
    for parameters, (shape, output) in zip(PARAMETERS, of_two_processes["parameters"], strict=True):
        expected = nn.functional.conv_transpose3d(input, weight, **parameters)
        assert shape == expected.shape, parameters
        assert torch.equal(output, expected), parameters  # sums of ones


def test_batch_smaller_than_the_mesh(of_two_processes: dict[str, Any]) -> None:
    expected = _expected("conv_transpose3d_relu", PROBLEMS[1], has_optional=False)[0][:1]
    torch.testing.assert_close(of_two_processes["one image"], expected)


def _assert_trained_like_one(states: dict[str, dict[str, Tensor]]) -> None:
    initial = {name: value.clone() for name, value in _network().state_dict().items()}
    expected = _train(_network(), list(_batches()))
    assert not any(torch.allclose(value, initial[name], rtol=1e-3, atol=1e-3) for name, value in expected.items())
    for way, state in states.items():
        assert list(state) == list(expected), way
        for name, value in expected.items():
            torch.testing.assert_close(state[name], value, msg=lambda text, way=way: f"{way}: {text}")


def test_networks_train_like_one_process(of_two_processes: dict[str, Any]) -> None:
    _assert_trained_like_one(of_two_processes["networks"])


def test_networks_on_a_mesh_of_two_dimensions(device: str, tmp_path: Path) -> None:
    _assert_trained_like_one(run_group(networks_on_two_dimensions, device, tmp_path, size=4))


# ---- when the strategies are registered ----

CALL = """
import torch.distributed.tensor
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
mesh = torch.distributed.init_device_mesh("cpu", (1,))
input, weight = (torch.distributed.tensor.distribute_tensor(torch.ones(2, 2, 2, 2, 2), mesh) for _ in range(2))
try:
    print(type(convt3d.conv_transpose3d(input, weight)).__name__)
except Exception as error:
    print(type(error).__name__, error)
torch.distributed.destroy_process_group()
"""


def _what_a_call_says(imports: str) -> str:
    return run_python(f"{imports}{CALL}").splitlines()[-1]  # gloo may have said something before


def test_dtensor_imported_before() -> None:
    assert _what_a_call_says("import torch.distributed.tensor, convt3d") == "DTensor"


def test_dtensor_imported_afterwards_by_something_else() -> None:
    imports = """
import convt3d, sys
assert "torch.distributed.tensor" not in sys.modules
import torch._dynamo
"""
    assert _what_a_call_says(imports) == "DTensor"


def test_without_register_sharding() -> None:
    """The package imports, and DTensor says what is missing."""
    imports = """
import torch.distributed.tensor.experimental
del torch.distributed.tensor.experimental.register_sharding
import convt3d
"""
    assert "sharding strategy" in _what_a_call_says(imports)

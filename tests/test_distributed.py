"""A step in two processes is the step in one: DistributedDataParallel and FSDP2."""

import copy
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from processes import run_group
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard

import convt3d

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo"),
]

PROCESSES = 2
STEPS = 3


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.ConvTranspose3d(3, 4, (3, 2, 4), (2, 1, 3), (1, 0, 2), bias=False), nn.ReLU(), nn.GroupNorm(2, 4)
        )
        self.second = nn.ConvTranspose3d(4, 6, (2, 3, 1), (1, 2, 1), groups=2, bias=False)
        self.last = nn.Conv3d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(torch.tanh(self.second(self.first(x))))
        return y


def _network() -> Network:
    torch.manual_seed(0)
    return Network()


def _batches() -> Tensor:
    return torch.randn(STEPS, PROCESSES * 2, 3, 3, 4, 5, generator=torch.Generator().manual_seed(1))


def _train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Tensor) -> None:
    for batch in batches:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()


def _adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def _ddp(model: nn.Module) -> nn.Module:
    return nn.parallel.DistributedDataParallel(model)


def _fsdp(model: nn.Module) -> nn.Module:
    """The second layer is a group of its own, whose class FSDP changes as well."""
    assert isinstance(model, Network)
    mesh = torch.distributed.init_device_mesh(next(model.parameters()).device.type, (PROCESSES,))
    for part in (model.second, model.first, model):
        fully_shard(part, mesh=mesh)
    return model


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {"ddp": _ddp, "fsdp": _fsdp}

ORDERS = ["converted first", "wrapped first"]


def _whole(value: Tensor) -> Tensor:
    whole: Tensor = value.full_tensor() if hasattr(value, "full_tensor") else value  # type: ignore[operator]
    return whole.detach().clone()


def train(device: str) -> dict[str, dict[str, Tensor]]:
    """In one of the processes: the parameters after training on its half of each batch, by wrapper and order."""
    states = {}
    for wrapper, order in itertools.product(WRAPPERS, ORDERS):
        model: nn.Module = _network().to(device)
        if order == "converted first":
            convt3d.convert(model)
            model = WRAPPERS[wrapper](model)
        else:
            model = WRAPPERS[wrapper](model)
            convt3d.convert(model)
        if wrapper == "ddp" or order == "converted first":
            assert type(next(m for m in model.modules() if isinstance(m, nn.GroupNorm))) is not nn.GroupNorm
        layers = [m for m in model.modules() if isinstance(m, nn.ConvTranspose3d)]
        assert len(layers) == 2
        assert all(isinstance(layer, convt3d.nn.ConvTranspose3d) for layer in layers)
        batches = _batches().chunk(PROCESSES, dim=1)[torch.distributed.get_rank()]
        _train(model, _adam(model), batches.to(device))
        states[f"{wrapper}, {order}"] = {
            name.removeprefix("module."): _whole(value) for name, value in model.state_dict().items()
        }
    return states


def test_two_processes_train_like_one(device: str, tmp_path: Path) -> None:
    original = _network()
    initial = copy.deepcopy(original.state_dict())
    _train(original, _adam(original), _batches())
    trained = original.state_dict()
    assert not any(torch.allclose(value, initial[name], rtol=1e-3, atol=1e-5) for name, value in trained.items())
    states = run_group(train, device, tmp_path, PROCESSES)
    assert len(states) == len(WRAPPERS) * len(ORDERS)
    for way, state in states.items():
        assert list(state) == list(trained), way
        for name, value in trained.items():
            torch.testing.assert_close(
                state[name], value, rtol=1e-3, atol=1e-5, msg=lambda text, way=way: f"{way}: {text}"
            )

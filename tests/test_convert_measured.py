"""convert with an example: every layer is measured both ways, and left where convt3d is not faster."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import convt3d
from convt3d._convert import measured
from convt3d._explain.measuring import Measurements
from convt3d._explain.recording import RecordedCall


class Model(nn.Module):
    """A layer that is called twice, one that trains by itself, one that is not called."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ConvTranspose3d(3, 4, (2, 1, 3), (2, 1, 2), bias=False)
        self.second = nn.ConvTranspose3d(4, 4, (1, 3, 1), padding=(0, 1, 0), groups=2)
        self.relu = nn.ReLU()
        self.unused = nn.ConvTranspose3d(4, 2, 1)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        x = self.first(x)
        y: Tensor = self.relu(self.second(x * scale))
        return y + self.relu(self.second(-x))


def _input() -> Tensor:
    return torch.randn(2, 3, 3, 4, 5)


def test_times_of_every_layer(device: str) -> None:
    model = Model().to(device).train()
    original = copy.deepcopy(model)
    report = convt3d.convert(model, example=(_input().to(device), 2.0))
    layers = {layer.name: layer for layer in report.layers}
    for name in ("first", "second"):
        assert layers[name].torch_ms is not None
        assert layers[name].convt3d_ms is not None
        assert layers[name].torch_ms > 0
        assert layers[name].convt3d_ms > 0
    assert layers["unused"].action == "left"
    assert layers["unused"].note == "not measured: the example does not reach it"
    assert type(model.unused) is nn.ConvTranspose3d
    lines = str(report).splitlines()
    assert lines[0].split() == ["layer", "action", "with", "torch", "ms", "convt3d", "ms", "note"]
    assert f"{layers['first'].torch_ms:.3f}" in lines[1]
    assert lines[3].split()[:5] == ["unused", "left", "-", "-", "-"]
    if device == "cpu":
        assert [layer.action for layer in report.layers] == ["converted", "fused", "left"]
    assert model.training
    torch.manual_seed(0)
    input = _input().to(device)
    torch.testing.assert_close(model(input), original(input), rtol=1e-4, atol=1e-4)


def test_measuring_leaves_the_model_as_it_is() -> None:
    model = Model()
    model.first.eval()
    attributes = {name: dict(vars(module)) for name, module in model.named_modules()}
    input, state = _input(), torch.get_rng_state()
    measured.measure_layers(model, input)
    assert torch.equal(torch.get_rng_state(), state)
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == attributes
    assert all(parameter.grad is None for parameter in model.parameters())


class _Clock:
    """In the place of the measurements: times by input channels and mode, for calls that claim to be on a GPU."""

    def __init__(self, times: dict[tuple[int, bool], tuple[float | None, float | None, str]]) -> None:
        self.times = times
        self.asked: list[tuple[int, bool]] = []

    def install(self, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
        record, clock = measured.record, self

        def recorded(*args: Any, **kwargs: Any) -> list[RecordedCall]:
            return [dataclasses.replace(call, device=torch.device(device)) for call in record(*args, **kwargs)]

        def times(self: Measurements, call: RecordedCall) -> tuple[float | None, float | None, str]:
            key = (call.input.shape[1], self._training)
            clock.asked.append(key)
            return clock.times[key]

        monkeypatch.setattr(measured, "record", recorded)
        monkeypatch.setattr(Measurements, "times", times)


def test_converts_where_convt3d_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the layer's own mode, and by the sum over its calls."""
    model = Model().train()
    model.first.eval()
    times = {
        (3, False): (1.0, 1.5, ""),
        (3, True): (9.0, 1.0, ""),
        (4, True): (2.5, 2.0, ""),
        (4, False): (1.0, 5.0, ""),
    }
    clock = _Clock(times)
    clock.install(monkeypatch, "cuda")
    report = convt3d.convert(model, example=_input())
    assert clock.asked == [(3, False), (4, True), (4, True)]
    first, second, _ = report.layers
    assert (first.action, first.torch_ms, first.convt3d_ms) == ("converted", 1.5, 1.0)
    assert (second.action, second.torch_ms, second.convt3d_ms) == ("left", 4.0, 5.0)
    assert second.note == "PyTorch's kernels are as fast or faster here"
    assert type(model.first) is convt3d.nn.ConvTranspose3d
    assert type(model.second) is nn.ConvTranspose3d
    assert type(model.relu) is nn.ReLU


@pytest.mark.parametrize(("device", "action"), [("cuda", "left"), ("cpu", "fused")])
def test_a_tie(device: str, action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Left on a GPU; on the CPU both run the same kernels."""
    model = nn.Sequential(nn.ConvTranspose3d(3, 4, 2), nn.ReLU())
    _Clock({(3, True): (1.0, 1.0, "")}).install(monkeypatch, device)
    assert convt3d.convert(model, example=_input()).layers[0].action == action


def test_what_cannot_be_measured_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.ConvTranspose3d(3, 4, 2), nn.ReLU())
    _Clock({(3, True): (None, 1.0, "convt3d not measured: no memory")}).install(monkeypatch, "cuda")
    (layer,) = convt3d.convert(model, example=_input()).layers
    assert (layer.action, layer.note) == ("left", "convt3d not measured: no memory")


def test_a_training_step_takes_all_gradients() -> None:
    """The operators that are called and timed, as the profiler sees them."""
    names = {}
    for training in (False, True):
        model = nn.Sequential(nn.ConvTranspose3d(3, 4, 2)).train(training)
        with torch.profiler.profile() as profile:
            measured.measure_layers(model, _input())
        names[training] = {event.key for event in profile.key_averages()}
    ours = {"convt3d::conv_transpose3d_backward"}
    assert ours | {"aten::convolution_backward", "convt3d::conv_transpose3d"} <= names[True]
    assert "convt3d::conv_transpose3d" in names[False]
    assert not (ours | {"aten::convolution_backward"}) & names[False]


def test_examples_that_are_none() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(3, 4, 2))
    with pytest.raises(TypeError, match=r"convt3d.convert: the example of a model must be a tensor or a tuple"):
        convt3d.convert(model, example=[_input()])  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"convt3d.convert: 0.weight has no values yet"):
        convt3d.convert(nn.Sequential(nn.LazyConvTranspose3d(3, 2)), example=_input())
    assert type(model[0]) is nn.ConvTranspose3d

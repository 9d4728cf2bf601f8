"""The report of `convt3d.explain(model, example_input)`: its table, its sums and what is measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch
from explained_model import Decoder, explained, inputs
from torch import Tensor, nn

import convt3d
from convt3d._explain import measuring

if TYPE_CHECKING:
    from collections.abc import Callable


def engines_of(call: convt3d.ExplainedCall) -> str:
    """Who computes the gradients, by the words of the plan."""
    assert call.backward is not None
    if call.backward.engine != "separate":
        return call.backward.engine
    gradients = (word.split("=") for word in call.backward.plan.split() if "_grad=" in word)
    return " + ".join(dict.fromkeys(engine for _, engine in gradients))


def test_table() -> None:
    model = Decoder()
    convt3d.convert(model)
    result = explained(model, inputs(), measure=True)
    lines = str(result).splitlines()
    assert lines[0].split()[:4] == ["layer", "computed", "by", "input"]
    for line, call in zip(lines[1:5], result.calls, strict=True):
        assert call.explanation is not None
        cells = line.split()
        assert cells[0] == call.name
        for value in ("x".join(map(str, call.explanation.output_shape)), call.explanation.engine, "fp32", "NCDHW"):
            assert value in cells
        engines = engines_of(call).split()
        backward_ms = f"{call.backward_ms:.3g}"
        assert cells[-1 - len(engines) :] == [backward_ms, *engines]
    explanations = [call.explanation for call in result.calls if call.explanation]
    assert lines[5].split() == [
        "sum",
        f"{sum(one.bytes for one in explanations) / 1e6:.3g}",
        f"{sum(one.flops for one in explanations) / 1e9:.3g}",
        f"{sum(one.limit_ms for one in explanations):.3g}",
        f"{sum(one.expected_ms for one in explanations):.3g}",
        "-",
        "-",
        f"{sum(call.backward_ms or 0 for call in result.calls):.3g}",
    ]
    unmeasured: dict[str, None] = {}
    for call in result.calls:
        if call.explanation and not call.explanation.measured:
            unmeasured[f"forward ({call.explanation.engine})"] = None
        if call.backward and not call.backward.measured:
            unmeasured[f"backward ({engines_of(call)})"] = None
    assert lines[6:] == [
        "device: NVIDIA H200 (assumed)",
        "expected by a model, not measured on this GPU: " + ", ".join(unmeasured),
        *(f"{name}: not measured: it is on the device cpu" for name in ("up.0", "same", "last")),
    ]
    assert str(explained(Decoder(), inputs())).endswith("4 of 4 calls computed by torch; see convt3d.convert")


def test_sums_are_of_all_calls_or_not_shown() -> None:
    (call,) = explained(nn.ConvTranspose3d(2, 2, 2), torch.randn(1, 2, 3, 3, 3)).calls
    measured = dataclasses.replace(call, convt3d_ms=0.25, cudnn_ms=1.5)
    both = str(convt3d.ModelExplanation((measured, measured))).splitlines()
    engines = engines_of(call).split()
    assert both[1].split()[: -1 - len(engines)][-2:] == ["0.25", "1.5"]  # then: backward ms, its engines
    assert both[3].split()[-3:-1] == ["0.5", "3"]
    partly = str(convt3d.ModelExplanation((measured, dataclasses.replace(measured, cudnn_ms=None)))).splitlines()
    assert partly[3].split()[-3:-1] == ["0.5", "-"]


class Stopwatch:
    """In the place of a clock: keeps what the calls return, and fails at the third."""

    def __init__(self, *_: Any) -> None:
        self.results: list[Tensor] = []

    def time(self, call: Callable[[], Tensor]) -> tuple[float, Tensor]:
        if len(self.results) == 2:
            raise RuntimeError("no algorithm\nat all")
        self.results.append(call())
        return float(len(self.results)), self.results[-1]


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    stopwatch = Stopwatch()
    monkeypatch.setattr(measuring, "_host_time", lambda timed: stopwatch.time(timed)[0])
    monkeypatch.setattr(measuring, "_why_not", lambda _, **__: "")
    layer = convt3d.nn.ConvTranspose3dReLU(4, 6, (3, 2, 1), stride=(1, 2, 3), groups=2, padding=(1, 0, 0), bias=False)
    x = torch.randn(1, 1, 3, 4, 5).to(memory_format=torch.channels_last_3d).expand(2, 4, 3, 4, 5)  # overlaps
    result = explained(nn.Sequential(layer, layer.__class__(6, 4, 2)), x, measure=True)
    ours, torchs = stopwatch.results
    for tensor in stopwatch.results:
        assert tensor.shape == result.calls[0].explanation.output_shape  # type: ignore[union-attr]
        assert tensor.min() == 0
        assert tensor.max() > 0
    assert ours.stride() == torchs.stride()
    assert (result.calls[0].convt3d_ms, result.calls[0].cudnn_ms, result.calls[0].note) == (1.0, 2.0, "")
    assert (result.calls[1].convt3d_ms, result.calls[1].cudnn_ms) == (None, None)
    reason = "not measured: RuntimeError: no algorithm"
    assert result.calls[1].note == f"convt3d {reason}; torch {reason}"


@pytest.mark.cuda
def test_measured_beside_cudnn() -> None:
    model, example = Decoder().cuda(), inputs("cuda")
    convt3d.convert(model)
    random = torch.cuda.get_rng_state()
    result = explained(model, example)
    assert torch.equal(torch.cuda.get_rng_state(), random)
    for call in result.calls:
        assert call.note == ""
        assert call.convt3d_ms is not None
        assert call.cudnn_ms is not None
        assert 1e-4 < call.convt3d_ms < 100
        assert 1e-4 < call.cudnn_ms < 100
        assert call.explanation is not None
        assert call.explanation.device.startswith(torch.cuda.get_device_name())
    assert result.calls[1] == result.calls[2]  # measured once
    unmeasured = explained(model, example, measure=False)
    assert all(call.convt3d_ms is None and call.cudnn_ms is None for call in unmeasured.calls)
    for dtype in (torch.float16, torch.float64):
        result = explained(model.to(dtype), inputs("cuda", dtype))
        assert [call.note for call in result.calls] == [""] * 4
    with torch.autocast("cuda", torch.float16):
        result = explained(model.float(), example)
    assert [call.explanation.precision for call in result.calls if call.explanation] == ["fp16"] * 4
    assert [call.note for call in result.calls] == [""] * 4


@pytest.mark.cuda
def test_measured_time_is_that_of_the_work() -> None:
    small, large = (torch.randn(1, 64, size, size, size, device="cuda") for size in (8, 64))
    model = nn.ConvTranspose3d(64, 64, 2, stride=2).cuda()
    times = [explained(model, x).calls[0] for x in (small, large)]
    for fast, slow in ((times[0].convt3d_ms, times[1].convt3d_ms), (times[0].cudnn_ms, times[1].cudnn_ms)):
        assert fast is not None
        assert slow is not None
        assert slow > 10 * fast  # 512 times the work, of which launches hide a part

"""benchmarks/end_to_end.py, on the CPU in the size for tests."""

from __future__ import annotations

import functools
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import convt3d

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import end_to_end
import network_records
from gan import Generator
from networks import workloads
from segmentation import DynUNetWorkload
from surroundocc import SurroundOccDecoder, SurroundOccUpsampling

TINY = ["--device", "cpu", "--tiny", "--seconds", "0", "--run", "eager", "--only", "surroundocc-upsampling"]
META = {"gpu": "A", "torch": "2", "cudnn": "9", "csrc_tree": "c", "python_tree": "p", "date": "today"}


def _transposed(network: nn.Module) -> list[nn.ConvTranspose3d]:
    return [module for module in network.modules() if isinstance(module, nn.ConvTranspose3d)]


def test_surroundocc_decoder_is_that_of_the_configuration() -> None:
    with torch.device("meta"):
        decoder, upsampling = SurroundOccDecoder(), SurroundOccUpsampling()
        volumes = torch.empty(1, 512, 25, 25, 2), torch.empty(1, 256, 50, 50, 4), torch.empty(1, 128, 100, 100, 8)
        outputs = decoder(*volumes)
    assert [tuple(output.shape) for output in outputs] == [
        (1, 17, 25, 25, 2),
        (1, 17, 50, 50, 4),
        (1, 17, 100, 100, 8),
        (1, 17, 200, 200, 16),
    ]
    convolutions = [block[0] for block in decoder.deblocks]  # type: ignore[index]
    assert [layer.in_channels for layer in convolutions] == [512, 256, 256, 128, 128, 64, 64]
    assert [layer.out_channels for layer in convolutions] == [256, 256, 128, 128, 64, 64, 32]
    assert [layer.stride[0] for layer in convolutions] == [1, 2, 1, 2, 1, 2, 1]
    assert [repr(layer) for layer in _transposed(upsampling)] == [repr(layer) for layer in _transposed(decoder)]


@pytest.mark.parametrize("name", ["surroundocc", "surroundocc-upsampling"])
def test_surroundocc_runs_its_norms_with_the_convolutions(name: str) -> None:
    network = workloads(tiny=True)[name].make(training=True)
    report = convt3d.convert(network)
    assert [(layer.action, len(layer.partners), layer.note) for layer in report.layers] == [("fused", 2, "")] * 3


def test_surroundocc_decoder_adds_the_finer_volumes() -> None:
    workload = workloads(tiny=True)["surroundocc"]
    network = workload.make(training=False)
    volumes = workload.inputs(torch.Generator().manual_seed(1))
    expected = network(*volumes)
    for changed, first in [(0, 0), (1, 1), (2, 2)]:  # which volume, and the coarsest output that it reaches
        others = [volume + 1 if index == changed else volume for index, volume in enumerate(volumes)]
        equal = [torch.equal(output, before) for output, before in zip(network(*others), expected, strict=True)]
        assert equal == [True] * first + [False] * (4 - first)


@pytest.mark.parametrize("name", ["surroundocc", "surroundocc-upsampling"])
def test_upsampling_gets_the_volumes_of_the_decoder(name: str) -> None:
    workload, seen = workloads()[name], []
    with torch.device("meta"):
        network = workload.make(training=False)
        for layer in _transposed(network):
            layer.register_forward_pre_hook(lambda _, inputs: seen.append(tuple(inputs[0].shape)))
    random = torch.Generator().manual_seed(1)
    network(*(input.to("meta") for input in workload.inputs(random)))
    assert seen == [(1, 256, 25, 25, 2), (1, 128, 50, 50, 4), (1, 64, 100, 100, 8)]


@pytest.mark.parametrize(("patch", "channels"), [(64, [32, 64, 128, 256]), (128, [32, 64, 128, 256, 320])])
def test_dynunet_ends_at_four_voxels(patch: int, channels: list[int]) -> None:
    pytest.importorskip("monai", reason="the extra `clients` is not installed")
    network = DynUNetWorkload(patch=patch).make(training=False)
    assert sorted(layer.out_channels for layer in _transposed(network)) == channels
    assert patch >> len(channels) == 4


def test_dynunet_trains_with_deep_supervision() -> None:
    pytest.importorskip("monai", reason="the extra `clients` is not installed")
    workload = DynUNetWorkload(tiny=True)
    random = torch.Generator().manual_seed(1)
    output = workload.make(training=True).train()(*workload.inputs(random))
    assert output.shape[:3] == (2, 2, 3)  # batch, depths, classes
    labels, one_hot = workload.targets(random)
    sure = 50 * one_hot[:, None].expand_as(output)
    assert workload.loss((sure,), (labels, one_hot)).item() == pytest.approx(-1, abs=1e-4)  # no cross entropy, all Dice
    half_wrong = torch.stack((sure[:, 0], -sure[:, 1]), dim=1)
    of_wrong = workload.loss((half_wrong[:, 1:],), (labels, one_hot))
    assert workload.loss((half_wrong,), (labels, one_hot)).item() == pytest.approx((-2 + of_wrong.item()) / 3, abs=1e-3)


# What reaches each transposed convolution, the batch's size first, and what each makes of it.
SHAPES = {
    "unet-128": [
        ((2, 768, 8, 8, 8), (2, 128, 16, 16, 16)),
        ((2, 256, 16, 16, 16), (2, 64, 32, 32, 32)),
        ((2, 128, 32, 32, 32), (2, 32, 64, 64, 64)),
        ((2, 64, 64, 64, 64), (2, 3, 128, 128, 128)),
    ],
    "vnet-96": [
        ((2, 256, 6, 6, 6), (2, 128, 12, 12, 12)),
        ((2, 256, 12, 12, 12), (2, 64, 24, 24, 24)),
        ((2, 128, 24, 24, 24), (2, 32, 48, 48, 48)),
        ((2, 64, 48, 48, 48), (2, 16, 96, 96, 96)),
    ],
    "mednext-s-96": [  # depthwise, then of the residual connection, at each size; the last one is the head
        *(
            ((2, 512 >> level, *(6 << level,) * 3), (2, channels >> level, *((12 << level) - 1,) * 3))
            for level in range(4)
            for channels in (512, 256)
        ),
        ((2, 32, 96, 96, 96), (2, 3, 96, 96, 96)),
    ],
    "gan3d-generator": [
        ((64, 200, 1, 1, 1), (64, 512, 4, 4, 4)),
        ((64, 512, 4, 4, 4), (64, 256, 8, 8, 8)),
        ((64, 256, 8, 8, 8), (64, 128, 16, 16, 16)),
        ((64, 128, 16, 16, 16), (64, 64, 32, 32, 32)),
        ((64, 64, 32, 32, 32), (64, 1, 64, 64, 64)),
    ],
}


@pytest.mark.parametrize("name", SHAPES)
def test_layers_of_a_network(name: str) -> None:
    if name != "gan3d-generator":
        pytest.importorskip("monai", reason="the extra `clients` is not installed")
    workload, seen = workloads()[name], []
    with torch.device("meta"):
        network = workload.make(training=False).eval()
        for layer in _transposed(network):
            layer.register_forward_hook(
                lambda _, inputs, output: seen.append((tuple(inputs[0].shape), tuple(output.shape)))
            )
        network(*(torch.empty_like(input, device="meta") for input in workload.inputs(torch.Generator())))
    assert seen == SHAPES[name]


def test_channels_of_swin_unetr() -> None:
    pytest.importorskip("monai", reason="the extra `clients` is not installed")
    layers = _transposed(workloads()["swin-unetr-96"].make(training=True))
    channels = [(768, 384), (384, 192), (192, 96), (96, 48), (48, 48)]
    assert [(layer.in_channels, layer.out_channels) for layer in layers] == channels


def test_generator_is_that_of_the_paper() -> None:
    torch.manual_seed(0)
    voxels = Generator(5, 2)(torch.randn(3, 5))
    assert voxels.shape == (3, 1, 64, 64, 64)
    assert 0 < voxels.min() < 0.5 < voxels.max() < 1
    convolutions = _transposed(Generator())
    assert [layer.bias is not None for layer in convolutions] == [False] * 4 + [True]
    assert sum(parameter.numel() for parameter in Generator().parameters()) == 64 * (
        200 * 512 + 512 * 256 + 256 * 128 + 128 * 64 + 64
    ) + 1 + 2 * (512 + 256 + 128 + 64)


@pytest.mark.slow
@pytest.mark.parametrize("name", workloads())
def test_every_network_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In its size for tests: inference and a training step, as right when it is converted."""
    if not name.startswith(("surroundocc", "gan3d")):
        pytest.importorskip("monai", reason="the extra `clients` is not installed")
    assert end_to_end.main([*TINY[:-1], name]) == 0
    assert [line.split(" | ")[1] for line in capsys.readouterr().out.splitlines() if line.startswith(f"| {name} ")] == [
        "inference",
        "training",
    ]


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_records_are_written_and_shown(layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "records.json"
    assert end_to_end.main([*TINY, "--layout", layout, "--json", str(file)]) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| surroundocc-upsampling")]
    records = json.loads(file.read_text())["records"]
    assert [(record["pass"], record["layout"]) for record in records] == [("inference", layout), ("training", layout)]
    for record in records:
        assert record["converted_layers"] == 3
        assert record["calls"]["original"] >= 3
        assert record["ms"]["converted"] > 0
        assert record["error"]["converted"] < 1e-5
    assert end_to_end.main(["--from-record", str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == printed


def test_compiled(monkeypatch: pytest.MonkeyPatch, fresh_compiler: None, capsys: pytest.CaptureFixture[str]) -> None:
    compile_, compiled = torch.compile, []

    def capture_only(network: nn.Module, **options: Any) -> Any:
        compiled.append(network)
        return compile_(network, backend="aot_eager", **options)

    monkeypatch.setattr(torch, "compile", capture_only)
    assert end_to_end.main([*TINY, "--run", "compiled", "--pass", "training"]) == 0
    assert [type(_transposed(network)[0]).__module__ for network in compiled] == [
        "torch.nn.modules.conv",
        "convt3d._convert.normed",
    ]
    assert " compiled | fp32 | NCDHW | " in capsys.readouterr().out


@pytest.mark.parametrize("pass_", ["inference", "training"])
def test_a_wrong_result_fails(pass_: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    convert = convt3d.convert

    def convert_wrongly(network: nn.Module) -> convt3d.Report:
        with torch.no_grad():
            _transposed(network)[1].weight.mul_(1.1)
            next(network.children())[1][1].weight.mul_(1.1)
        return convert(network)

    monkeypatch.setattr(convt3d, "convert", convert_wrongly)
    assert end_to_end.main([*TINY, "--pass", pass_]) == 1
    assert f"FAILED surroundocc-upsampling {pass_} eager fp32 NCDHW: wrong" in capsys.readouterr().err


def test_calls_take_turns() -> None:
    order: list[str] = []
    calls = {name: functools.partial(order.append, name) for name in ("a", "b")}
    times = end_to_end.time_in_turns(calls, torch.device("cpu"), seconds=0)
    blocks = [name for index, name in enumerate(order) if index == 0 or order[index - 1] != name]
    assert blocks == ["a", "b"] * (1 + end_to_end.FEWEST_BLOCKS)
    assert {name: len(of_name) for name, of_name in times.items()} == {"a": 60, "b": 60}


def _record(network: str, ms: float) -> network_records.Record:
    return {
        "network": network,
        "pass": "inference",
        "run": "eager",
        "precision": "fp16",
        "layout": "NCDHW",
        "converted_layers": 3,
        "ms": {"original": ms, "converted": ms},
        "calls": {"original": 9, "converted": 9},
        "peak_mib": {"original": 1, "converted": 1},
        "error": {"original": 0, "converted": 0},
    }


def test_merge_replaces_its_cases_and_drops_those_of_another_machine() -> None:
    old = network_records.merge(None, META, [_record("a", 1), _record("b", 1)])
    merged = network_records.merge(old, {**META, "date": "tomorrow"}, [_record("a", 2)])
    assert [(record["network"], record["ms"]["original"]) for record in merged["records"]] == [("b", 1), ("a", 2)]
    assert network_records.merge(old, {**META, "gpu": "B"}, [_record("a", 2)])["records"] == [_record("a", 2)]


def test_bad_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in [
        (["--from-record", str(tmp_path / "absent.json")], "there is no file"),
        ([*TINY, "--precision", "fp16"], "no case has what is asked for"),
    ]:
        with pytest.raises(SystemExit) as caught:
            end_to_end.main(arguments)
        assert caught.value.code == 2
        assert message in capsys.readouterr().err

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
from networks import DynUNetWorkload, SurroundOccDecoder, SurroundOccUpsampling, workloads

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
        "convt3d.nn",
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

"""The benchmark's layers of networks: the file, the option, and that it has what the networks have."""

from __future__ import annotations

import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from record_files import save_record

from convt3d.benchmark.__main__ import main
from convt3d.benchmark.layers import find_layer, group_of, known_layers, parse_layer, spec_of
from convt3d.benchmark.networks import networks, select_networks

ROOT = Path(__file__).resolve().parents[1]


def test_spec_makes_the_same_layer() -> None:
    layers = [*known_layers(), *(one.layer for of_network in networks().values() for one in of_network)]
    assert len(layers) > 90
    for layer in layers:
        assert replace(parse_layer(spec_of(layer)), name=layer.name) == layer


def test_spec_leaves_defaults_out() -> None:
    layer = parse_layer("N=2,C_in=4,C_out=6,input=3x5x7,kernel=1x2x3,stride=2,padding=0x1x1,groups=2,bias=1")
    assert spec_of(layer) == "N=2,C_in=4,C_out=6,input=3x5x7,kernel=1x2x3,stride=2,padding=0x1x1,groups=2,bias=1"
    assert spec_of(parse_layer("N=1,C_in=4,C_out=6,input=3,kernel=1")) == "N=1,C_in=4,C_out=6,input=3,kernel=1"


def test_networks_are_those_of_the_table() -> None:
    text = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+?) \| (\d+) \|", text, re.MULTILINE)
    assert {name: len(layers) for name, layers in networks().items()} == {name: int(count) for name, count in rows}


def test_a_layer_is_named_by_its_spec() -> None:
    (*_, last) = select_networks(["MONAI DynUNet"])
    assert (last.network, last.module) == ("MONAI DynUNet", "upsamples.4.transp_conv.conv")
    assert last.layer.output_shape == (2, 32, 128, 128, 128)
    assert last.layer.stride == last.layer.kernel_size
    assert find_layer(last.layer.name) == last.layer  # a record's layer is known again
    assert group_of(last.layer.name) == "given"


def test_list_names_networks_and_modules(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--network", "nnU-Net *", "--layer", "kb58"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if "GFLOP" in line]
    assert listed[0] == "suite/kb58"
    assert len(listed) == 6  # both networks have the same five layers
    for network in ("nnU-Net PlainConvUNet", "nnU-Net ResidualEncoderUNet"):
        assert sum(line.startswith(f"{network}: decoder.transpconvs.") for line in lines) == 5


def test_records_of_a_network_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first, *_) = select_networks(["MONAI VNet"])
    file = tmp_path / "record.json"
    save_record(file, first.layer.name, "kb58", "kb72")
    shown = []
    for options in (["--network", "MONAI VNet"], ["--network", "MONAI VNet", "--layer", "kb58"], []):
        assert main(["--from-record", str(file), *options]) == 0
        lines = capsys.readouterr().out.splitlines()
        shown.append([name for name in (first.layer.name, "kb58", "kb72") if name in lines])
    assert shown == [[first.layer.name], [first.layer.name, "kb58"], [first.layer.name, "kb58", "kb72"]]


def test_unknown_network(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--list", "--network", "no such"])
    assert end.value.code == 2
    message = capsys.readouterr().err
    assert "no network matches 'no such'" in message
    assert all(name in message for name in networks())


def test_file_has_what_the_networks_have(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("monai", reason="the extra `clients` is not installed")
    pytest.importorskip("dynamic_network_architectures", reason="the extra `clients` is not installed")
    monkeypatch.setattr(sys, "path", [*sys.path])
    script = runpy.run_path(str(ROOT / "scripts/network_layers.py"))
    assert script["main"](["--check"]) == 0, capsys.readouterr().out

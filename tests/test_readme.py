"""The numbers and the figure at the top of the README are those of the committed records."""

from __future__ import annotations

import json
import re
import shutil
import sys
from itertools import product
from pathlib import Path
from statistics import geometric_mean

import pytest
import torch
from record_files import save_record

import convt3d
from convt3d.benchmark.layers import group_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import readme_numbers as script  # noqa: E402  # scripts/readme_numbers.py


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the script reads and writes, to be changed."""
    for path in (script.README, script.FIGURE):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    shutil.copytree(ROOT / script.RESULTS, tmp_path / script.RESULTS)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    return tmp_path


def test_readme_and_figure_are_what_the_records_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--check"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("h200.json", "convt3d_ms", 99.0),
        ("h200_gradients_earlier.json", "convt3d_ms", 99.0),
        ("end_to_end_h200.json", "ms", {"original": 1.0, "converted": 99.0}),
    ],
)
def test_another_record_is_noticed_and_written(copy: Path, name: str, field: str, value: object) -> None:
    path = copy / script.RESULTS / name
    content = json.loads(path.read_text(encoding="utf-8"))
    content["records"][0][field] = value
    path.write_text(json.dumps(content), encoding="utf-8")
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    assert (copy / script.README).read_text(encoding="utf-8") != (ROOT / script.README).read_text(encoding="utf-8")


def test_edited_readme_is_noticed(copy: Path) -> None:
    readme = copy / script.README
    text = readme.read_text(encoding="utf-8")
    readme.write_text(text.replace("gradient of the weight | **", "gradient of the weight | **9"), encoding="utf-8")
    assert readme.read_text(encoding="utf-8") != text
    assert script.main(["--check"]) == 1


def test_layers_in_use_have_rows_of_their_own(tmp_path: Path) -> None:
    save_record(tmp_path / script.RESULTS / "h200.json", "kb58", "kb72", "psmnet_64_64")
    results = script.measured(tmp_path)
    assert [title for title in script.titles(results) if "in use" in title] == [
        "forward, layers in use",
        "gradient of the weight, layers in use",
    ]
    rows = script.section(results).splitlines()
    assert "| forward | **3.54** (2.50 to 5.00) | not measured | not measured | not measured |" in rows
    assert "| forward, layers in use | **1.67** (1.67 to 1.67) | not measured | not measured | not measured |" in rows
    assert ">forward, layers in use<" in script.figure(results)


def test_a_mean_of_the_table_is_that_of_the_record() -> None:
    ratios: dict[tuple[str, str], float] = {}
    for name in script.LAYER_RECORDS:
        for record in json.loads((ROOT / script.RESULTS / name).read_text(encoding="utf-8"))["records"]:
            if (record["pass"], record["precision"]) == ("forward", "fp16") and group_of(record["layer"]) == "suite":
                ratio = min(record["peers_ms"].values()) / record["convt3d_ms"]
                ratios.setdefault((record["layer"], record["layout"]), ratio)
    row = re.search(r"^\| forward \|(.*)\|$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    found = list(ratios.values())
    mean, least, greatest = (script._number(value) for value in (geometric_mean(found), min(found), max(found)))
    assert row[1].split("|")[2].strip() == f"**{mean}** ({least} to {greatest})"


def _engines(capability: tuple[int, int], operator: str) -> set[str]:
    """What computes layers of many kinds, but for `simt`, which takes what is left."""
    found = set()
    for channels, out_channels, groups in ((64, 32, 1), (32, 32, 32), (32, 16, 8), (256, 16, 2), (3, 2, 1)):
        for kernel, stride in ((2, 2), (3, 1), (4, 2), (5, 3)):
            for dtype, layout in product(
                (torch.float32, torch.float16), (torch.contiguous_format, torch.channels_last_3d)
            ):
                input = torch.empty(2, channels, 8, 12, 16, device="meta", dtype=dtype, memory_format=layout)
                weight = torch.empty(channels, out_channels // groups, *[kernel] * 3, device="meta", dtype=dtype)
                found.add(
                    convt3d.explain(
                        input,
                        weight,
                        stride=stride,
                        groups=groups,
                        device_capability=capability,
                        operator=operator,  # type: ignore[call-overload]
                    ).engine
                )
    return found - {"simt"}


def test_support_table_names_the_engines() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme.partition("| GPU (compute capability) |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    explained: list[tuple[int, int]] = []
    named: dict[str, str] = {}
    for gpus, *cells, _ in rows:
        capabilities = [
            (int(major), int(minor.replace("x", "0"))) for major, minor in re.findall(r"(\d+)\.([\dx])", gpus)
        ]
        if gpus.startswith("before"):
            with pytest.raises(RuntimeError, match="no build has kernels"):
                _engines((capabilities[0][0] - 1, 5), "forward")
            continue
        named = {
            operator: named[operator] if cell == "as before" else cell
            for operator, cell in zip(("forward", "input_grad", "weight_grad"), cells, strict=True)
        }
        for capability in capabilities:
            for operator, cell in named.items():
                engines = set(re.findall(r"`(\w+)`", cell)) - {"simt"}
                assert _engines(capability, operator) == engines, (capability, operator)
        explained += capabilities
    assert {(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)} <= set(explained)


def test_no_pass_is_left_out() -> None:
    passes = {result.pass_ for result in script.measured(ROOT)}
    gradients = {"backward_input", "backward_weight", "backward", "backward_of_slice"}
    assert passes == {"forward", *gradients, "inference", "training"}

"""The benchmark's command: what it lists, shows, plots and refuses; and, on a GPU, measures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch
from record_files import META, record, save_record

from convt3d.benchmark import plot, records
from convt3d.benchmark.__main__ import main
from convt3d.benchmark.layers import groups, select_layers
from convt3d.benchmark.timing import QUICK, Timer

if TYPE_CHECKING:
    from pathlib import Path


def test_command_lists_layers_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--layer", "seed*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [f"suite/{layer.name}" for layer in groups()["suite"]][:5]


def test_command_refuses_an_unknown_layer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--layer", "nothing_like_this"])
    assert exit_info.value.code == 2
    assert "no layer matches 'nothing_like_this'" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_command_says_that_it_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--layer", "seed1*"])
    assert exit_info.value.code == 2
    assert "a CUDA device is needed" in capsys.readouterr().err


def test_workspaces_are_shown() -> None:
    with_peer: records.Record = {**record(), "workspace_bytes": 3 << 19, "peers_workspace_bytes": {"cudnn_NCDHW": 0}}
    shown = [with_peer, record(layout="NDHWC"), {**record("backward"), "workspace_bytes": 1 << 20}]
    assert records.format_workspaces(shown).splitlines() == [
        "forward fp32 NCDHW: workspaces in MiB: convt3d 1.5, cudnn_NCDHW 0.0",
        "backward fp32 NCDHW: workspaces in MiB: convt3d 1.0",
    ]


def test_summary_gives_means_and_the_worst_case() -> None:
    shown = [record(ms=1.0), record(layout="NDHWC", ms=4.0), {**record("backward_input"), "peers_ms": {}}]
    suite: records.Record = {**record(ms=2.0), "layer": "kb58"}
    use: records.Record = {**record(ms=5.0), "layer": "psmnet_64_64"}
    assert records.format_summary([*shown, suite, use]).splitlines() == [
        "given: forward fp32: 2.50x, at least 1.25x; 25.0% of the limit (2 records)",
        "given: backward_input fp32: no peer; 25.0% of the limit (1 records)",
        "suite: forward fp32: 2.50x, at least 2.50x; 25.0% of the limit (1 records)",
        "use: forward fp32: 1.00x, at least 1.00x; 10.0% of the limit (1 records)",
    ]


def test_plans_are_shown_beside_the_chosen_one() -> None:
    plans: list[records.MeasuredPlan] = [
        {"ms": ms, "expected_ms": 1.5, "plan": f"tile={number}"} for number, ms in enumerate((2.0, 1.6, 3.0))
    ]
    shown: list[records.Record] = [record(), {**record("backward_input"), "engine": "mma", "plans": plans}]
    shown.append({**shown[1], "plans": plans[2:]})
    assert records.format_plans(shown[:2]).splitlines() == [
        "backward_input fp32 NCDHW: the chosen plan takes 1.25 times the best of 3",
        "  0: 2.0000 (1.00), expected 1.5000, mma: tile=0",
        "  1: 1.6000 (0.80), expected 1.5000, mma: tile=1",
        "  2: 3.0000 (1.50), expected 1.5000, mma: tile=2",
    ]
    assert records.format_plan_summary(shown) == (
        "mma backward_input fp32: chosen plans take 1.118 times the best measured, at most 1.25, within 10 % in 1 of 2"
    )
    assert records.format_plans([record()]) == records.format_plan_summary([record()]) == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--engine", "mma"],
            "gpu.json has records of no --engine, --plans or --no-peers, and these would be of --engine",
        ),
        (["--plans", "3", "--no-peers"], "would be of --plans 3 --no-peers: give another file"),
        (["--plans", "-1"], "--plans must not be negative, got -1"),
        (["--no-peers"], "--json and --plot compare"),
    ],
)
def test_command_keeps_records_of_another_kind_apart(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    save_record(tmp_path / "gpu.json", "kb58")
    with pytest.raises(SystemExit) as exit_info:
        main(["--json", "gpu.json", *options])
    assert exit_info.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_command_shows_a_record_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gpu.json"
    save_record(path, "kb58", "kb72")
    options = ["--from-record", str(path), "--layer", "kb5*", "--pass", "forward", "--layout", "NDHWC"]
    assert main(options) == 0
    shown = capsys.readouterr().out
    assert "A GPU" in shown
    assert "kb58" in shown
    assert "kb72" not in shown
    assert "backward_weight" not in shown
    assert "NCDHW 1.0" not in shown
    assert "suite: forward fp32: 5.00x, at least 5.00x; 50.0% of the limit (1 records)" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from-record", "absent.json"], "absent.json: no such file"),
        (["--from-record", "gpu.json", "--layer", "kb9*"], "none of its 4 records is asked for"),
    ],
)
def test_command_refuses_a_record_with_nothing_to_show(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    save_record(tmp_path / "gpu.json", "kb58")
    with pytest.raises(SystemExit) as exit_info:
        main(options)
    assert exit_info.value.code == 2
    assert message in capsys.readouterr().err


def test_command_plots_a_record_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    record_path, picture = tmp_path / "gpu.json", tmp_path / "pictures" / "gpu.png"
    spec = "N=1,C_in=2,C_out=3,input=4,kernel=2"
    save_record(record_path, "kb58", spec, "named_by_the_user")
    assert main(["--from-record", str(record_path), "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    missing = [line for line in capsys.readouterr().out.splitlines() if "missing in the roofline" in line]
    assert missing == [
        f"{picture}: the sizes of layer 'named_by_the_user' are not known; it is missing in the roofline"
    ]


def test_picture_has_the_records_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    drawn = []

    class KeptFigure(figures.Figure):  # type: ignore[misc, name-defined]
        def __init__(self, **arguments: object) -> None:
            super().__init__(**arguments)
            drawn.append(self)

    monkeypatch.setattr(figures, "Figure", KeptFigure)
    fast: records.Record = {**record(ms=1.0), "layer": "kb58"}
    slow: records.Record = {**record(layout="NDHWC", ms=10.0), "layer": "kb72", "precision": "tf32"}
    assert plot.draw(tmp_path / "gpu.svg", META, [fast, slow]) == []
    contiguous, channels_last, roofline = drawn[-1].axes
    assert [(bar.get_x(), pytest.approx(bar.get_width())) for bar in contiguous.patches] == [(1, 4.0)] * 2
    assert [(bar.get_x(), pytest.approx(bar.get_width())) for bar in channels_last.patches] == [(1, -0.5)] * 2
    assert [label.get_text() for label in contiguous.get_yticklabels()] == ["kb58", "kb72", "MEAN OF 2 (suite)"]
    points = [tuple(point) for group in roofline.collections for point in group.get_offsets()]
    for entry, (intensity, teraflops) in zip((fast, slow), points, strict=True):
        (layer,) = select_layers([entry["layer"]])
        elements = sum(
            torch.Size(shape).numel() for shape in (layer.input_shape, layer.weight_shape, layer.output_shape)
        )
        assert intensity == pytest.approx(layer.gflop * 1e9 / (4 * elements))
        assert teraflops == pytest.approx(layer.gflop / entry["convt3d_ms"])


def test_command_refuses_a_picture_of_an_unknown_kind(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(SystemExit) as exit_info:
        main(["--plot", "picture.xyz"])
    assert exit_info.value.code == 2
    assert "--plot must end in one of" in capsys.readouterr().err


def test_plot_without_matplotlib_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SystemExit) as exit_info:
        main(["--plot", "picture.png"])
    assert exit_info.value.code == 2
    assert "convt3d[bench]" in capsys.readouterr().err


@pytest.mark.cuda
def test_command_measures_plans_of_one_engine_into_a_file_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "plans.json"
    spec = "layer=small,N=2,C_in=24,C_out=16,input=5x6x7,kernel=2x3x2,stride=2x1x2,padding=0x1x0"
    options = [
        "--layer",
        spec,
        "--precision",
        "fp16",
        "--quick",
        "--json",
        str(path),
        "--engine",
        "mma",
        "--plans",
        "3",
    ]
    assert main([*options, "--no-peers"]) == 0
    content = records.load(path)
    assert content is not None
    assert content["meta"]["asked"] == "--engine mma --plans 3 --no-peers"
    assert len(content["records"]) == 6
    for entry in content["records"]:
        assert (entry["engine"], len(entry["plans"])) == ("mma", 3)
        assert len({plan["plan"] for plan in entry["plans"]}) == 3


@pytest.mark.cuda
def test_command_measures_every_pass_and_layout(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    spec = "layer=small,N=2,C_in=8,C_out=6,input=5x6x7,kernel=2x3x1,stride=1,padding=0x1x0,groups=2,bias=1"
    assert main(["--layer", spec, "--precision", "fp32", "--quick", "--json", str(path)]) == 0
    content = records.load(path)
    assert content is not None
    assert len(content["records"]) == 6
    for entry in content["records"]:
        assert entry["convt3d_ms"] > 0
        assert entry["error"] < 1e-5
        cudnn = {"cudnn_NCDHW", "cudnn_NDHWC"}
        assert cudnn <= set(entry["peers_ms"]) | set(entry["peers_absent"])


@pytest.mark.cuda
def test_workspace_is_what_a_call_allocates_beside_its_results() -> None:
    timer, mebibyte = Timer(QUICK), 1 << 20
    kept: list[torch.Tensor] = []

    def call(scratch: int) -> torch.Tensor:
        if not kept:
            kept.append(torch.empty(64 * mebibyte, dtype=torch.int8, device="cuda"))
        torch.empty(scratch * mebibyte, dtype=torch.int8, device="cuda")
        return torch.ones(4 * mebibyte, dtype=torch.int8, device="cuda")

    assert timer.workspace_bytes(lambda: call(8)) == 4 * mebibyte  # freed before the result is made, in part of it
    held = torch.ones(mebibyte, device="cuda")
    assert timer.workspace_bytes(lambda: held) is None
    both = lambda: (torch.ones(4 * mebibyte, dtype=torch.int8, device="cuda"), call(2))  # noqa: E731
    assert timer.workspace_bytes(both) == 0

"""The tables of docs/performance.md are those of the committed records."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from record_files import HOST_META, META, record, save_record

from convt3d.benchmark import records
from convt3d.benchmark.overhead import AUTOCAST, REPLACES

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import performance_tables  # noqa: E402  # scripts/performance_tables.py

FUNCTION = "convt3d.conv_transpose3d"


def test_page_has_the_tables_of_the_records() -> None:
    for page in performance_tables.TABLES:
        text = (ROOT / page).read_text(encoding="utf-8")
        assert performance_tables.with_tables(page, text, ROOT) == text
        assert len(text.splitlines()) <= 120


def test_tables_follow_the_records(tmp_path: Path) -> None:
    save_record(tmp_path / performance_tables.RESULTS / "h200.json", "kb58", "kb72", "psmnet_64_64")
    assert performance_tables.means(tmp_path).splitlines()[2:] == [
        "| forward, fp32 | 2 | simt | 3.54 | 2.50 | 0 of 4 | 0.35 |",
        "| weight gradient, fp32 | 2 | simt | 3.54 | 2.50 | 0 of 4 | 0.35 |",
        "| forward, fp32, layers in use | 1 | simt | 1.67 | 1.67 | 0 of 2 | 0.17 |",
        "| weight gradient, fp32, layers in use | 1 | simt | 1.67 | 1.67 | 0 of 2 | 0.17 |",
    ]
    assert performance_tables.means_of_portable_build(tmp_path) == "Not measured.\n"
    save_record(tmp_path / performance_tables.RESULTS / "h200_sm80.json", "kb72")
    assert performance_tables.means_of_portable_build(tmp_path).splitlines()[2:] == [
        "| forward, fp32 | 1 | simt | 5.00 | 5.00 | 0 of 2 | 0.50 |",
        "| weight gradient, fp32 | 1 | simt | 5.00 | 5.00 | 0 of 2 | 0.50 |",
    ]
    first, second, in_use = performance_tables.layers(tmp_path).splitlines()[2:]
    assert in_use.startswith("| psmnet_64_64 | - |")
    assert first.endswith("| 5.00 (0.50) | 5.00 (0.50) |")
    assert second.startswith("| kb72 | - |")


def test_workspaces_are_those_of_the_records(tmp_path: Path) -> None:
    assert performance_tables.workspaces(tmp_path) == "Not measured.\n"
    file = tmp_path / performance_tables.RESULTS / "h200.json"
    measured = [
        {
            **record(pass_, layout),
            "layer": layer,
            "precision": "fp16",
            "workspace_bytes": ours << 20,
            "peers_workspace_bytes": dict.fromkeys(("cudnn_NDHWC", "matmul_shuffle"), cudnn << 20),
        }
        for layer, pass_, layout, ours, cudnn in (
            ("kb58", "forward", "NCDHW", 1, 3),
            ("kb58", "forward", "NDHWC", 2, 3),
            ("kb72", "backward", "NDHWC", 5, 0),
        )
    ]
    without_peer = {**measured[2], "pass": "backward_weight", "peers_workspace_bytes": {}}
    unmeasured = {**record(), "layer": "kb73"}
    content = records.merge(None, META, [*measured, without_peer, unmeasured])  # type: ignore[list-item]
    records.save(file, content)
    header, _, first, second = performance_tables.workspaces(tmp_path).splitlines()
    assert header.startswith("| layer | forward, tf32 | forward, fp16 | input gradient, tf32 |")
    assert first == "| kb58 | - | 2.0 / 3.0 | - | - | - | - | - | - |"
    assert second == "| kb72 | - | - | - | - | - | 5.0 / - | - | 5.0 / 0.0 |"


def test_host_times_are_the_latest_of_each_precision_with_their_origin(tmp_path: Path) -> None:
    assert performance_tables.host(tmp_path) == "Not measured.\n"
    folder = tmp_path / performance_tables.RESULTS
    save_record(folder / "h200.json", "kb58")
    assert performance_tables.host(tmp_path) == "Not measured.\n"
    us = {name: 10.0 + number for number, name in enumerate([*dict.fromkeys(REPLACES.values()), *REPLACES])}
    of_tf32 = {name: value for name, value in us.items() if not name.endswith(AUTOCAST)}
    records.save(folder / "h200.json", records.merge_overhead(None, HOST_META, {"tf32": of_tf32, "fp16": of_tf32}))
    newer: records.HostMeta = {**HOST_META, "date": "2026-02-01", "gpu": "Another", "csrc_tree": 40 * "c" + "+changes"}
    records.save(folder / "h100.json", records.merge_overhead(None, newer, {"fp16": {**us, FUNCTION: 9.5}}))
    header, _, first, *_, last, empty, origin = performance_tables.host(tmp_path).splitlines()
    assert header == "| call | tf32 | fp16 |"
    assert first == f"| `{FUNCTION}` | 14.0 / 10.0 | 9.5 / 10.0 |"
    assert last == f"| `{FUNCTION}: forward and backward in autocast` | - | 18.0 / 13.0 |"
    assert empty == ""
    of_tf32_origin, of_fp16_origin = origin.split("; ")
    versions = "A processor, Python 3.12.3, torch 2.11.0, driver 1"
    assert of_tf32_origin == f"tf32: 2026-01-31, A GPU, {versions}, `csrc` c0, `convt3d` p0"
    assert of_fp16_origin == f"fp16: 2026-02-01, Another, {versions}, `csrc` cccccccccccc+changes, `convt3d` p0."


def test_page_without_a_marker_is_refused() -> None:
    with pytest.raises(SystemExit, match="must have the lines"):
        performance_tables.with_tables(performance_tables.PAGE, "# Performance\n", ROOT)

"""Host times: how they are measured, and what a record file keeps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from record_files import HOST_META, META, record

from convt3d.benchmark import environment, records
from convt3d.benchmark.__main__ import main
from convt3d.benchmark.overhead import AUTOCAST, REPLACES, format_overhead, measure_overhead

if TYPE_CHECKING:
    from pathlib import Path

US = {"F.conv_transpose3d": 12.0, "convt3d.conv_transpose3d": 15.5}


def test_overhead_measures_every_call_beside_the_one_it_replaces() -> None:
    measured = measure_overhead("fp32", torch.device("cpu"), bursts=3)
    assert set(measured) == {name for name in (*REPLACES, *REPLACES.values()) if not name.endswith(AUTOCAST)}
    assert all(0.5 < value < 1e5 for value in measured.values())


def test_overhead_table_shows_what_our_calls_take_more() -> None:
    table = format_overhead({"fp16": US})
    theirs, ours = table.splitlines()
    assert theirs.split() == ["fp16", "F.conv_transpose3d", "12.00", "us"]
    assert ours.split() == ["fp16", "convt3d.conv_transpose3d", "15.50", "us", "+3.50"]


@pytest.mark.cuda
def test_command_measures_the_overhead(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    assert main(["--overhead", "--precision", "fp16", "--json", str(path)]) == 0
    content = records.load(path)
    assert content is not None
    assert set(content["overhead"]["fp16"]["us"]) == {*REPLACES, *REPLACES.values()}
    assert set(content["overhead"]["fp16"]["meta"]) == {*META, "python", "processor"}


def test_the_processor_has_a_name() -> None:
    assert environment._processor()


def test_records_of_other_sources_leave_the_overhead(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    content = records.merge_overhead(records.merge(None, META, [record()]), HOST_META, {"fp16": US})
    records.save(path, content)
    assert records.load(path) == content
    other: records.Meta = {**META, "csrc_tree": "another", "date": "2026-02-01"}
    merged = records.merge(content, other, [record("backward_input")])
    assert merged["meta"] == other
    assert merged["records"] == [record("backward_input")]
    assert merged["overhead"] == {"fp16": {"meta": HOST_META, "us": US}}


@pytest.mark.parametrize("field", ["gpu", "torch", "cudnn"])
def test_records_of_another_origin_drop_the_overhead(field: str) -> None:
    content = records.merge_overhead(records.merge(None, META, [record()]), HOST_META, {"fp16": US})
    assert "overhead" not in records.merge(content, {**META, field: "another"}, [])  # type: ignore[misc]


def test_overhead_leaves_the_records() -> None:
    """... with their meta: they were not measured again, by whatever source the overhead is of."""
    old = records.merge_overhead(records.merge(None, META, [record()]), HOST_META, {"fp16": US, "tf32": US})
    newer: records.HostMeta = {**HOST_META, "date": "2026-02-01", "csrc_tree": "another"}
    merged = records.merge_overhead(old, newer, {"fp16": {"F.conv_transpose3d": 13.0}})
    assert merged["meta"] == META
    assert merged["records"] == [record()]
    assert merged["overhead"] == {
        "fp16": {"meta": newer, "us": {"F.conv_transpose3d": 13.0}},
        "tf32": {"meta": HOST_META, "us": US},
    }
    assert old["overhead"]["fp16"]["us"] == US


def test_overhead_of_another_gpu_begins_a_file() -> None:
    old = records.merge_overhead(records.merge(None, META, [record()]), HOST_META, {"tf32": US})
    other: records.HostMeta = {**HOST_META, "gpu": "another"}
    assert records.merge_overhead(old, other, {"fp16": US}) == {
        "meta": other,
        "records": [],
        "overhead": {"fp16": {"meta": other, "us": US}},
    }


def test_command_shows_the_overhead_of_a_file_with_its_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gpu.json"
    layer = {**record(), "layer": "kb58"}
    content = records.merge_overhead(records.merge(None, META, [layer]), HOST_META, {"fp16": US})  # type: ignore[list-item]
    records.save(path, content)
    assert main(["--from-record", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "processor A processor" in shown
    assert "15.50 us" in shown

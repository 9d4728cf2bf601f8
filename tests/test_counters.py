"""benchmarks/counters.py: what needs no GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import counters

from convt3d.benchmark.layers import select_layers

LAYER = "N=2,C_in=8,C_out=16,input=4x8x8,kernel=2,stride=2"  # 2 * 8 * 16 * 256 * 8 multiply-adds
PRODUCTS = 2 * 8 * 16 * 256 * 8


def ncu_csv(*kernels: tuple[str, float, float, float]) -> str:
    """As ncu writes it: kernels with their times, clocks and the share of the tensor cores."""
    names = ["ID", "Kernel Name", counters.TIME, counters.CLOCKS, *counters.SHARES.values()]
    rows = [names, ["", "", "us", "cycle", "%", "%", "%", "%"]]
    rows += [
        [str(number), name, str(time), f"{clocks:,}", str(tensor), "40.04", "30.06", "12.5"]
        for number, (name, time, clocks, tensor) in enumerate(kernels)
    ]
    text = "\n".join(",".join(f'"{field}"' for field in row) for row in rows)
    return f"==PROF== Connected to process 1\n{text}\n==PROF== Disconnected\n"


def case(precision: str, layout: str) -> counters.Case:
    return counters.Case(select_layers([LAYER])[0], precision, layout)


def test_kernels_are_shared_out_over_the_calls(tmp_path: Path) -> None:
    path = tmp_path / "ncu.csv"
    clocks = 4 * PRODUCTS / 1024  # of one multiprocessor, where a quarter of the time suffices
    path.write_text(
        ncu_csv(
            ("convt3d_pack_halo_weight", 1, 900, 0),
            ("convt3d_halo_forward", 3, clocks, 50),
            ("convt3d_depthwise_rows", 5, 1000, 0),
        )
    )
    found = counters.read(path, [case("tf32", "NCDHW"), case("fp16", "NDHWC")], multiprocessors=1)
    assert [(one["precision"], one["layout"], one["kernel"]) for one in found] == [
        ("tf32", "NCDHW", "convt3d_halo_forward"),
        ("fp16", "NDHWC", "convt3d_depthwise_rows"),
    ]
    assert [one["packing"] for one in found] == [25, 0]
    assert [one["useful"] for one in found] == [50, None]
    assert [one["dram"] for one in found] == [40, 40]
    assert [one["l2"] for one in found] == [30.1, 30.1]


@pytest.mark.parametrize(("precision", "useful"), [("tf32", 50), ("fp16", 25), ("bf16", 25), ("fp32", 150)])
def test_useful_products_by_precision_and_device(tmp_path: Path, precision: str, useful: float) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text(ncu_csv(("convt3d_halo_forward", 3, 2 * PRODUCTS / 1024 / 4, 100)))
    (found,) = counters.read(path, [case(precision, "NCDHW")], multiprocessors=4)
    assert found["useful"] == useful


def test_another_number_of_calls_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "ncu.csv"
    path.write_text(ncu_csv(("convt3d_halo_forward", 3, 10, 50)))
    with pytest.raises(ValueError, match="saw 1 forwards of convt3d, not the 2"):
        counters.read(path, [case("tf32", "NCDHW"), case("tf32", "NDHWC")], multiprocessors=1)


def test_record_is_shown_without_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "record.json"
    one = {"kernel": "k", "tensor": 51.6, "useful": None, "dram": 1, "l2": 2, "issue": 3, "packing": 4.2}
    of = [{"layer": "kb73", "precision": precision, "layout": "NCDHW"} for precision in ("tf32", "fp16")]
    path.write_text(json.dumps({"meta": {}, "records": [entry | one for entry in of]}))
    assert counters.main(["--from-record", str(path), "--precision", "tf32"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:] == ["| kb73 | tf32 | NCDHW | 52 |  | 1 | 2 | 3 | 4 |"]
    assert counters.main(["--from-record", str(tmp_path / "absent.json")]) == 1
    assert "absent.json: no such file" in capsys.readouterr().err
    assert counters.main(["--from-record", str(path), "--precision", "bf16"]) == 1
    assert "none of its 2 records is asked for" in capsys.readouterr().err


def test_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(counters.torch.cuda, "is_available", lambda: False)
    assert counters.main([]) == 1
    assert "needs a CUDA device" in capsys.readouterr().err
    monkeypatch.setattr(counters.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(counters.shutil, "which", lambda _: None)
    assert counters.main([]) == 1
    assert "ncu, of Nsight Compute, is not on PATH" in capsys.readouterr().err

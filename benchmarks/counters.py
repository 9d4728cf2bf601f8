"""What the forward's kernels are busy with: counters of the hardware, read by Nsight Compute, for each layer.

    python benchmarks/counters.py --precision tf32 --precision fp16 --json counters.json
    python benchmarks/counters.py --from-record counters.json       # the table again, without a GPU

With a GPU of compute capability 9.0, `ncu` and the permission to read counters. In the table, of the kernel that
computes the layer, in percent:

tensor      of its time, in which the tensor cores were busy
useful      of their products: the multiply-adds whose output position is in range (of float32 proper three for each);
            the rest are taps past the input's border, zeros of weights, positions past the tile or the output, and
            channels that fill a slab
dram, L2    what each moved of what it could
issue       of the clocks, in which an instruction was issued (of one of the four schedulers, on average)
packing     of the time of all of the call's kernels, what packing the weight takes on its own; they overlap in a call
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import torch

from convt3d._library import build_info
from convt3d.benchmark import environment, records
from convt3d.benchmark.calls import convt3d_call, precision_switches, random_operands
from convt3d.benchmark.engine import Kernels
from convt3d.benchmark.layers import LAYOUTS, PRECISIONS, chosen, select_layers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from convt3d._layer import Layer

TIME, CLOCKS = "gpu__time_duration.sum", "sm__cycles_elapsed.max"
SHARES = {
    "tensor": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "issue": "sm__issue_active.avg.pct_of_peak_sustained_elapsed",
}
SHARE_OF_ALL = 100.0
# Dense multiply-adds of a multiprocessor of compute capability 9.0 in a clock, over the products that make one of ours.
CLOCK_PRODUCTS = {"fp32": 1024 / 3, "tf32": 1024, "fp16": 2048, "bf16": 2048}
PACKING = "convt3d_pack"
ON_TENSOR_CORES = "convt3d_halo_forward"
KERNELS = f"regex:^({PACKING}|{ON_TENSOR_CORES}|convt3d_depthwise|convt3d_correlation)"


class Counters(TypedDict):
    """One forward; see the module's text."""

    layer: str
    precision: str
    layout: str
    kernel: str
    tensor: float
    useful: float | None  # None of kernels that do not use the tensor cores
    dram: float
    l2: float
    issue: float
    packing: float


@dataclass(frozen=True)
class Case:
    """A layer in a precision and a layout."""

    layer: Layer
    precision: str
    layout: str


def cases_of(options: argparse.Namespace) -> list[Case]:
    every = product(
        select_layers(options.layer), chosen(options.precision, PRECISIONS), chosen(options.layout, LAYOUTS)
    )
    return [Case(*case) for case in every]


def call(cases: Iterable[Case]) -> None:
    """One forward of each, for `ncu` to watch."""
    for case in cases:
        operands = random_operands(case.layer, case.precision, torch.device("cuda")).in_layout(case.layout)
        with precision_switches(case.precision), torch.no_grad():
            convt3d_call(case.layer, "forward", operands)()
        torch.cuda.synchronize()


def calls_of(rows: Iterable[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """Kernels of one call after another: those that pack its weight, and the one that computes."""
    kernels: list[dict[str, str]] = []
    for row in rows:
        kernels.append(row)
        if not row["Kernel Name"].startswith(PACKING):
            yield kernels
            kernels = []


def read(path: Path, cases: Sequence[Case], multiprocessors: int) -> list[Counters]:
    """The counters of `cases` in what `ncu --csv --page raw` wrote; ValueError where it is not of so many calls."""
    with path.open(newline="") as file:
        # What else ncu has to say begins with "==", and the line after the names has units.
        rows = list(csv.DictReader(line for line in file if not line.startswith("==")))[1:]
    calls = list(calls_of(rows))
    if len(calls) != len(cases):
        raise ValueError(f"ncu saw {len(calls)} forwards of convt3d, not the {len(cases)} that were called")
    return [_counters(case, kernels, multiprocessors) for case, kernels in zip(cases, calls, strict=True)]


def _counters(case: Case, kernels: Sequence[dict[str, str]], multiprocessors: int) -> Counters:
    def value(kernel: dict[str, str], metric: str) -> float:
        return float(kernel[metric].replace(",", ""))

    last = kernels[-1]
    shares = {name: value(last, metric) for name, metric in SHARES.items()}
    possible = shares["tensor"] / SHARE_OF_ALL * value(last, CLOCKS) * multiprocessors * CLOCK_PRODUCTS[case.precision]
    times = [value(kernel, TIME) for kernel in kernels]
    name = last["Kernel Name"]
    return {
        "layer": case.layer.name,
        "precision": case.precision,
        "layout": case.layout,
        "kernel": name,
        "tensor": round(shares["tensor"], 1),
        "useful": round(SHARE_OF_ALL * case.layer.multiply_adds / possible, 1) if ON_TENSOR_CORES in name else None,
        "dram": round(shares["dram"], 1),
        "l2": round(shares["l2"], 1),
        "issue": round(shares["issue"], 1),
        "packing": round(SHARE_OF_ALL * sum(times[:-1]) / sum(times), 1),
    }


def table(measured: Iterable[Counters]) -> str:
    rows = [
        "| layer | precision | layout | tensor | useful | dram | L2 | issue | packing |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in measured:
        useful = "" if one["useful"] is None else f"{one['useful']:.0f}"
        shares = " | ".join(f"{one[name]:.0f}" for name in ("dram", "l2", "issue", "packing"))
        rows.append(
            f"| {one['layer']} | {one['precision']} | {one['layout']} | {one['tensor']:.0f} | {useful} | {shares} |"
        )
    return "\n".join(rows)


def watch(arguments: Sequence[str], cases: Sequence[Case]) -> list[Counters]:
    """Runs this script under `ncu`; RuntimeError with its output where it fails."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise RuntimeError("ncu, of Nsight Compute, is not on PATH")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        metrics = ",".join([TIME, CLOCKS, *SHARES.values()])
        # The clocks stay as the machine has them: what is read are shares of them.
        watched = [ncu, "--csv", "--page", "raw", "--log-file", str(log), "--clock-control", "none"]
        watched += [
            "--kernel-name-base",
            "function",
            "--print-kernel-base",
            "function",
            "--kernel-name",
            KERNELS,
            "--metrics",
            metrics,
        ]
        script = [sys.executable, str(Path(__file__).resolve()), *arguments, "--only-call"]
        result = subprocess.run(watched + script, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            said = log.read_text() if log.exists() else ""
            raise RuntimeError(f"ncu failed:\n{said}{result.stdout}{result.stderr}".rstrip())
        return read(log, cases, torch.cuda.get_device_properties(0).multi_processor_count)


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--layer", action="append", default=[], help="glob over the suite's names, or a spec; repeatable"
    )
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="repeatable; default: all")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="repeatable; default: both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the records to FILE")
    parser.add_argument("--from-record", type=Path, metavar="FILE", help="show FILE, without a GPU")
    parser.add_argument("--only-call", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    try:
        cases = cases_of(options)
        if options.from_record:
            content = records.read(options.from_record)
            if content is None:
                raise ValueError(f"{options.from_record}: no such file")
            wanted = {(case.layer.name, case.precision, case.layout) for case in cases}
            shown = [one for one in content["records"] if (one["layer"], one["precision"], one["layout"]) in wanted]
            if not shown:
                raise ValueError(f"{options.from_record}: none of its {len(content['records'])} records is asked for")
            print(table(shown))
            return 0
        if not torch.cuda.is_available():
            raise RuntimeError("reading counters needs a CUDA device; --from-record shows a record without one")
        if options.only_call:
            call(cases)
            return 0
        measured = watch(arguments, cases)
    except (RuntimeError, ValueError) as error:
        print(f"counters: {error}", file=sys.stderr)
        return 1
    print(table(measured))
    if options.json:
        kernels = Kernels.of_current_device(build_info()).fingerprints()
        records.save(options.json, {"meta": {**environment.current_meta(), "kernels": kernels}, "records": measured})
    return 0


if __name__ == "__main__":
    sys.exit(main())

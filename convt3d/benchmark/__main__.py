"""Command line of the benchmark."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from . import records
from .environment import current_meta
from .layers import LAYOUTS, PASSES, PRECISIONS, select_layers
from .measure import measure
from .progress import progress, write
from .timing import QUICK, Repetitions, Timer, warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convt3d._layer import Layer

_EPILOG = """\
times: ms, medians of device events around CUDA-graph replays with a cold L2
speed-up: time of the strongest peer in any layout over convt3d's in this one
of limit: time that the hardware allows at best over convt3d's
errors: relative norm error against float64, of convt3d and of cuDNN

exit code: 0 when convt3d computed every case, 1 when one failed, 2 for bad arguments or no CUDA device
"""


@dataclass(frozen=True)
class _Case:
    layer: Layer
    pass_: str
    precision: str

    def __str__(self) -> str:
        return f"{self.layer.name} {self.pass_} {self.precision}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the process's exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        layers = select_layers(options.layer)
    except ValueError as error:
        parser.error(str(error))
    if options.list:
        for layer in layers:
            print(f"{layer.name:26} {layer.gflop:9.2f} GFLOP  input {layer.input_shape} output {layer.output_shape}")
        return 0
    if not torch.cuda.is_available():
        parser.error("a CUDA device is needed, and torch sees none")
    if options.json and options.no_peers:
        parser.error("--json keeps comparisons; it cannot be combined with --no-peers")
    return _measure_overhead(options) if options.overhead else _run(layers, options)


def _measure_overhead(options: argparse.Namespace) -> int:
    from .overhead import format_overhead, measure_overhead

    meta = current_meta()
    print(", ".join(f"{key} {value}" for key, value in meta.items()), flush=True)
    device = torch.device("cuda", torch.cuda.current_device())
    chosen = [precision for precision in PRECISIONS if precision in (options.precision or PRECISIONS)]
    measured = {precision: measure_overhead(precision, device) for precision in chosen}
    print(format_overhead(measured), flush=True)
    if options.json:
        kept = records.merge(records.load(options.json), meta, [])
        kept["overhead_us"] = {**kept.get("overhead_us", {}), **measured}
        records.save(options.json, kept)
    return 0


def _run(layers: Sequence[Layer], options: argparse.Namespace) -> int:
    import convt3d  # noqa: F401  registers the operators

    meta = current_meta()
    print(", ".join(f"{key} {value}" for key, value in meta.items()), flush=True)
    kept = records.load(options.json) if options.json else None
    if kept is not None and (changed := records.differences(kept["meta"], meta)):
        print(f"{options.json}: its {len(kept['records'])} records are replaced ({'; '.join(changed)})", flush=True)
    timer = Timer(QUICK if options.quick else Repetitions())
    warm_up()
    cases = [
        _Case(layer, pass_, precision)
        for layer in layers
        for pass_ in PASSES
        if pass_ in (options.pass_ or PASSES)
        for precision in PRECISIONS
        if precision in (options.precision or PRECISIONS)
    ]
    layouts = [layout for layout in LAYOUTS if layout in (options.layout or LAYOUTS)]
    failures: list[str] = []
    of_layer: list[records.Record] = []
    for number, case in enumerate(progress(cases)):
        try:
            measured = measure(case.layer, case.pass_, case.precision, layouts, timer, with_peers=not options.no_peers)
        except RuntimeError as error:
            failures.append(f"{case}: {error}")
            measured = []
        of_layer += measured
        if options.json and measured:
            kept = records.merge(kept, meta, measured)
            records.save(options.json, kept)
        is_last_of_layer = number + 1 == len(cases) or cases[number + 1].layer != case.layer
        if is_last_of_layer:
            write(f"\n{case.layer.name}: {case.layer.gflop:.2f} GFLOP\n{records.format_table(of_layer)}")
            of_layer = []
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m convt3d.benchmark",
        description="Measures convt3d against cuDNN and its other peers in PyTorch, side by side on one GPU.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--layer",
        action="append",
        default=[],
        metavar="NAME|SPEC",
        help="a layer of the suite (globs allowed) or a spec such as "
        "N=2,C_in=64,C_out=32,input=16x32x32,kernel=2,stride=2; repeatable; default: the whole suite",
    )
    parser.add_argument("--pass", dest="pass_", action="append", choices=PASSES, help="repeatable; default: all")
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="repeatable; default: all")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="of convt3d; repeatable; default: both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="merge the records into FILE, case by case")
    parser.add_argument("--quick", action="store_true", help="fewer replays: a first look, with more noise")
    parser.add_argument("--no-peers", action="store_true", help="measure convt3d alone")
    parser.add_argument(
        "--overhead",
        action="store_true",
        help="measure instead what an eager call without gradient takes on the host, in microseconds",
    )
    parser.add_argument("--list", action="store_true", help="show the chosen layers and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())

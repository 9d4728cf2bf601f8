"""Command line of the benchmark."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from convt3d._explain.plan import ENGINES, NoPlanError
from convt3d._library import build_info

from . import plot, records
from .engine import Kernels
from .environment import current_meta, host_meta
from .layers import LAYOUTS, PRECISIONS, chosen, group_of, is_meant, select_layers
from .measure import Gradients, Options, measure
from .networks import select_networks
from .overhead import format_overhead, measure_overhead
from .passes import PASSES, SINGLE_PASSES
from .progress import progress
from .timing import QUICK, Repetitions, Timer, warm_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convt3d._layer import Layer

_EPILOG = """\
times: ms, medians of device events around CUDA-graph replays with a cold L2
speed-up: time of the strongest peer in any layout over convt3d's in this one
of limit: time that the hardware allows at best over convt3d's
errors: relative norm error against float64, of convt3d and of cuDNN; the greatest where a pass has several results

exit code: 0 when convt3d computed every case, 1 when one failed, 2 for bad arguments or no CUDA device
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns the process's exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        if options.plot:
            plot.check(options.plot)
        if options.from_record:
            return _show(options)
        layers, of_networks = _layers(options)
    except (OSError, ValueError, plot.PlotError) as error:
        parser.error(str(error))
    if options.list:
        for layer in layers:
            name = f"{group_of(layer.name)}/{layer.name}"
            print(f"{name:32} {layer.gflop:9.2f} GFLOP  input {layer.input_shape} output {layer.output_shape}")
        print(of_networks, end="")
        return 0
    if not torch.cuda.is_available():
        parser.error("a CUDA device is needed, and torch sees none")
    if options.plans < 0:
        parser.error(f"--plans must not be negative, got {options.plans}")
    joint = [pass_ for pass_ in options.pass_ or () if pass_ not in SINGLE_PASSES]
    if joint and (options.engine or options.plans):
        parser.error(f"--engine and --plans are for single passes ({', '.join(SINGLE_PASSES)}), got --pass {joint[0]}")
    if options.no_peers and (options.plot or (options.json and not options.plans)):
        parser.error("--json and --plot compare; they cannot be combined with --no-peers")
    kept = records.load(options.json) if options.json else None
    if kept is not None and kept["meta"].get("asked", "") != _asked(options):
        parser.error(
            f"{options.json} has records of {_in_options(kept['meta'].get('asked', ''))}, and these would be of "
            f"{_in_options(_asked(options))}: give another file"
        )
    print(of_networks, end="", flush=True)
    return _measure_overhead(options) if options.overhead else _run(layers, options)


def _layers(options: argparse.Namespace) -> tuple[Sequence[Layer], str]:
    """Those that `--layer` and `--network` ask for, and a line for each module of a network: which of them it is."""
    if not options.network:
        return select_layers(options.layer), ""
    found = select_networks(options.network)
    layers = {layer.name: layer for layer in (select_layers(options.layer) if options.layer else ())}
    layers.update((one.layer.name, one.layer) for one in found)
    return tuple(layers.values()), "".join(f"{one.network}: {one.module}: {one.layer.name}\n" for one in found)


def _show(options: argparse.Namespace) -> int:
    """Tables and picture of an existing record."""
    content = records.load(options.from_record)
    if content is None:
        raise ValueError(f"{options.from_record}: no such file")
    print(records.in_words(content["meta"]))
    of_networks = {one.layer.name for one in select_networks(options.network)}

    def is_asked(name: str) -> bool:
        every = not (options.layer or options.network)
        return every or name in of_networks or (bool(options.layer) and is_meant(name, options.layer))

    shown = [
        record
        for record in content["records"]
        if record["pass"] in chosen(options.pass_, PASSES)
        and record["precision"] in chosen(options.precision, PRECISIONS)
        and record["layout"] in chosen(options.layout, LAYOUTS)
        and is_asked(record["layer"])
    ]
    if not shown:
        raise ValueError(f"{options.from_record}: none of its {len(content['records'])} records is asked for")
    for name in dict.fromkeys(record["layer"] for record in shown):
        print(f"\n{name}\n{_tables([record for record in shown if record['layer'] == name])}")
    print(f"\n{_summaries(shown)}")
    for precision, measured in content.get("overhead", {}).items():
        print(f"\nhost: {records.in_words(measured['meta'])}\n{format_overhead({precision: measured['us']})}")
    _plot(options.plot, content["meta"], shown)
    return 0


def _asked(options: argparse.Namespace) -> str:
    """What `Meta.asked` is of records that these options make."""
    words = [f"--engine {options.engine}"] if options.engine else []
    words += [f"--plans {options.plans}"] if options.plans else []
    return " ".join([*words, "--no-peers"] if options.no_peers else words)


def _in_options(asked: str) -> str:
    return asked or "no --engine, --plans or --no-peers"


def _measure_overhead(options: argparse.Namespace) -> int:
    meta = host_meta()
    print(records.in_words(meta), flush=True)
    kept = records.load(options.json) if options.json else None
    _say_what_is_replaced(options.json, kept, meta)
    device = torch.device("cuda", torch.cuda.current_device())
    measured = {precision: measure_overhead(precision, device) for precision in chosen(options.precision, PRECISIONS)}
    print(format_overhead(measured), flush=True)
    if options.json:
        records.save(options.json, records.merge_overhead(kept, meta, measured))
    return 0


def _say_what_is_replaced(path: Path, kept: records.RecordFile | None, meta: records.Meta) -> None:
    if kept is not None and (changed := records.differences(kept["meta"], meta)):
        print(f"{path}: its {len(kept['records'])} records are replaced ({'; '.join(changed)})", flush=True)


def _run(layers: Sequence[Layer], options: argparse.Namespace) -> int:
    meta = current_meta()
    if asked := _asked(options):
        meta["asked"] = asked
    print(records.in_words(meta), flush=True)
    kept = records.load(options.json) if options.json else None
    _say_what_is_replaced(options.json, kept, meta)
    kernels = Kernels.of_current_device(build_info()) if options.json else Kernels(None)
    timer = Timer(QUICK if options.quick else Repetitions())
    how = Options(
        peers=not options.no_peers,
        slow_peers=not options.no_slow_peers,
        engine=options.engine,
        plans=options.plans,
    )
    warm_up()
    precisions = chosen(options.precision, PRECISIONS)
    cases = [(pass_, of_case) for of_case in precisions for pass_ in chosen(options.pass_ or SINGLE_PASSES, PASSES)]
    layouts = chosen(options.layout, LAYOUTS)
    failures: list[str] = []
    all_measured: list[records.Record] = []
    for number, layer in enumerate(layers, 1):
        of_layer: list[records.Record] = []
        gradients: dict[str, Gradients] = {}  # of one precision at a time
        for pass_, precision in progress(cases, f"[{number}/{len(layers)}] {layer.name}", " ".join):
            if precision not in gradients:
                gradients = {precision: Gradients()}
            try:
                measured = measure(layer, pass_, precision, layouts, timer, how, kernels, gradients[precision])
            except NoPlanError as error:
                print(f"left out: {layer.name} {pass_} {precision}: {error}", flush=True)
                continue
            except RuntimeError as error:
                failures.append(f"{layer.name} {pass_} {precision}: {error}")
                continue
            of_layer += measured
            if options.json:
                kept = records.merge(kept, meta, measured, kernels.measured_by)
                records.save(options.json, kept)
        if of_layer:
            print(f"\n{layer.name}: {layer.gflop:.2f} GFLOP\n{_tables(of_layer)}", flush=True)
        all_measured += of_layer
    print(f"\n{_summaries(all_measured)}")
    _plot(options.plot, meta, all_measured)
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def _tables(shown: Sequence[records.Record]) -> str:
    texts = (records.format_table(shown), records.format_workspaces(shown), records.format_plans(shown))
    return "\n".join(text for text in texts if text)


def _summaries(shown: Sequence[records.Record]) -> str:
    return "\n".join(text for text in (records.format_summary(shown), records.format_plan_summary(shown)) if text)


def _plot(path: Path | None, meta: records.Meta, shown: Sequence[records.Record]) -> None:
    if path is None or not shown:
        return
    for name in plot.draw(path, meta, shown):
        print(f"{path}: the sizes of layer {name!r} are not known; it is missing in the roofline")


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
        help="a layer's name or GROUP/NAME (globs allowed, as in 'suite/*' and 'use/*') or a spec such as "
        "N=2,C_in=64,C_out=32,input=16x32x32,kernel=2,stride=2; repeatable; default: every layer of both groups",
    )
    parser.add_argument(
        "--network",
        action="append",
        default=[],
        metavar="NAME",
        help="every transposed layer of a network of docs/clients.md with its sizes in use, such as 'MONAI DynUNet' "
        "(globs allowed); repeatable; beside what --layer names",
    )
    parser.add_argument(
        "--pass",
        dest="pass_",
        action="append",
        choices=PASSES,
        metavar="PASS",
        help=f"{', '.join(PASSES)}; repeatable; default: {', '.join(SINGLE_PASSES)} (of --from-record: all)",
    )
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="repeatable; default: all")
    parser.add_argument("--layout", action="append", choices=LAYOUTS, help="of convt3d; repeatable; default: both")
    parser.add_argument("--json", type=Path, metavar="FILE", help="merge the records into FILE, case by case")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw speed-up bars and a roofline into an image, such as benchmark.png (needs convt3d[bench])",
    )
    parser.add_argument(
        "--from-record",
        type=Path,
        metavar="FILE",
        help="measure nothing, show (and plot) the records in FILE, a result of --json; needs no GPU",
    )
    parser.add_argument("--quick", action="store_true", help="fewer replays: a first look, with more noise")
    parser.add_argument("--no-peers", action="store_true", help="measure convt3d alone")
    parser.add_argument(
        "--no-slow-peers",
        action="store_true",
        help="leave out the peers that take seconds to prepare (torch.compile, cuDNN's frontend); the records say so",
    )
    parser.add_argument(
        "--engine", choices=ENGINES, help="ask this engine of convt3d alone; cases that it has no plan for are left out"
    )
    parser.add_argument(
        "--plans",
        type=int,
        default=0,
        metavar="N",
        help="measure also the first N plans of the engine: the one that it chooses and the next by their costs",
    )
    parser.add_argument(
        "--overhead",
        action="store_true",
        help="measure instead what an eager call takes on the host, in microseconds",
    )
    parser.add_argument("--list", action="store_true", help="show the chosen layers and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())

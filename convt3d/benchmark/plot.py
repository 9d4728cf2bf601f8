"""A picture of a record: speed-up over the strongest peer, and a roofline with the device's measured ceilings."""

from __future__ import annotations

import importlib
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from convt3d._layer import COPY_BYTES_PER_SECOND, PEAK_FLOPS_PER_SECOND

from .layers import GIVEN, GROUPS, LAYOUTS, PRECISIONS, find_layer, group_of
from .passes import PASSES, flops, least_bytes
from .records import speedup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .records import Meta, Record

_COLORS: Mapping[str, str] = {"fp32": "#4c566a", "tf32": "#2a9d8f", "fp16": "#e9a23b", "bf16": "#c8553d"}
_MARKERS: Mapping[str, str] = {"NCDHW": "o", "NDHWC": "^"}
_INCHES_PER_LAYER = 0.5


class PlotError(RuntimeError):
    """The picture cannot be drawn; the text says why."""


def check(path: Path) -> None:
    """Find out before anything is measured whether `draw` can write this file; raises :class:`PlotError` if not."""
    supported = _matplotlib_figure()().canvas.get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in supported:
        raise PlotError(f"--plot must end in one of {', '.join(sorted(supported))}, got {str(path)!r}")


def draw(path: Path, meta: Meta, records: Sequence[Record]) -> list[str]:
    """Draw the records into an image file, a row for each pass; its ending is the format.

    Returns:
        Names of the layers that are missing in the roofline, as their sizes are not known.

    Raises:
        PlotError: matplotlib is not installed.
    """
    figure_type = _matplotlib_figure()
    by_pass = {
        pass_: of_pass for pass_ in PASSES if (of_pass := [record for record in records if record["pass"] == pass_])
    }
    heights = [max(4.5, 1.5 + _INCHES_PER_LAYER * len(_bars(of_pass))) for of_pass in by_pass.values()]
    figure = figure_type(figsize=(18, 0.6 + sum(heights)), layout="constrained")
    figure.suptitle(f"convt3d on {meta['gpu']}, torch {meta['torch']}, cuDNN {meta['cudnn']}, {meta['date']}")
    grid = figure.subplots(len(by_pass), 3, squeeze=False, width_ratios=(1, 1, 1.5), height_ratios=heights)
    unknown: dict[str, None] = {}
    for row, (pass_, of_pass) in zip(grid, by_pass.items(), strict=True):
        for axes, layout in zip(row[:2], LAYOUTS, strict=True):
            of_layout = [record for record in of_pass if record["layout"] == layout]
            _draw_speedups(axes, _bars(of_pass), _precisions(of_pass), of_layout)
            axes.set_title(f"{pass_}, {layout}")
        unknown.update(dict.fromkeys(_draw_roofline(row[2], of_pass)))
        row[2].set_title(f"{pass_}: roofline")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    return list(unknown)


def _bars(records: Sequence[Record]) -> dict[str, list[str]]:
    """What the rows of bars are called, and the layers whose mean each shows: layers, and groups of several."""
    bars: dict[str, list[str]] = {}
    for group in (*GROUPS, GIVEN):
        of_group = list(dict.fromkeys(record["layer"] for record in records if group_of(record["layer"]) == group))
        bars.update((name, [name]) for name in of_group)
        if group != GIVEN and len(of_group) > 1:
            bars[f"MEAN OF {len(of_group)} ({group})"] = of_group
    return bars


def _precisions(records: Sequence[Record]) -> list[str]:
    return [precision for precision in PRECISIONS if any(record["precision"] == precision for record in records)]


def _draw_speedups(
    axes: Any, bars: Mapping[str, Sequence[str]], precisions: Sequence[str], records: Sequence[Record]
) -> None:
    height = 0.8 / len(precisions)
    for number, precision in enumerate(precisions):
        shift = (number - (len(precisions) - 1) / 2) * height
        by_layer = {
            record["layer"]: ratio
            for record in records
            if record["precision"] == precision and (ratio := speedup(record)) is not None
        }
        ratios = {
            row + shift: geometric_mean(of_row)
            for row, layers in enumerate(bars.values())
            if (of_row := [by_layer[layer] for layer in layers if layer in by_layer])
        }
        if not ratios:
            continue
        widths = [ratio - 1 for ratio in ratios.values()]  # from the peer's speed, to either side
        drawn = axes.barh(list(ratios), widths, height, left=1, color=_COLORS[precision], label=precision)
        axes.bar_label(drawn, [f"{ratio:.2g}" for ratio in ratios.values()], fontsize=6, padding=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(bars)), list(bars), fontsize=8)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.set_xlabel("times faster than the strongest peer")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)


def _draw_roofline(axes: Any, records: Sequence[Record]) -> list[str]:
    """Draws what it can and returns the layers of unknown size."""
    unknown: dict[str, None] = {}
    intensities: list[float] = []
    for precision in _precisions(records):
        for layout in LAYOUTS:
            points = []
            for record in records:
                if (record["precision"], record["layout"]) != (precision, layout):
                    continue
                layer = find_layer(record["layer"])
                if layer is None:
                    unknown[record["layer"]] = None
                    continue
                work = flops(layer, record["pass"])
                moved = least_bytes(layer, record["pass"], precision)
                points.append((work / moved, work / record["convt3d_ms"] * 1e-9))
            if points:
                intensities += [x for x, _ in points]
                axes.scatter(
                    *zip(*points, strict=True),
                    s=28,
                    color=_COLORS[precision],
                    marker=_MARKERS[layout],
                    edgecolor="white",
                    linewidth=0.5,
                    label=f"{precision} {layout}",
                    zorder=3,
                )
    low, high = min(intensities, default=1.0) / 2, max(intensities, default=1e3) * 2
    for precision in _precisions(records):
        peak = PEAK_FLOPS_PER_SECOND[precision]
        ridge = peak / COPY_BYTES_PER_SECOND
        end = max(high, 2 * ridge)
        roof = [COPY_BYTES_PER_SECOND * low * 1e-12, peak * 1e-12, peak * 1e-12]
        axes.plot([low, ridge, end], roof, color=_COLORS[precision], linewidth=1)
        axes.annotate(
            f"{precision} {peak * 1e-12:.0f} TFLOP/s",
            (end, peak * 1e-12),
            ha="right",
            va="top" if precision == "fp16" else "bottom",  # bf16's line is close above
            fontsize=7,
            color=_COLORS[precision],
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"FLOP per byte moved (slope: a copy's {COPY_BYTES_PER_SECOND * 1e-12:.2f} TB/s on an H200)")
    axes.set_ylabel("TFLOP/s")
    axes.grid(visible=True, which="major", linewidth=0.3)
    if intensities:
        axes.legend(fontsize=7, loc="lower right")
    return list(unknown)


def _matplotlib_figure() -> Any:
    try:
        return importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise PlotError("--plot needs matplotlib: pip install 'convt3d[bench]'") from error

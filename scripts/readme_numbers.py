"""Writes the numbers and the figure at the top of README.md from the committed records of the benchmarks.

python scripts/readme_numbers.py           # after a new record
python scripts/readme_numbers.py --check   # exit code 1 where README.md or the figure says something else
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING

import marked

from convt3d.benchmark import records
from convt3d.benchmark.layers import GIVEN, PRECISIONS, group_of
from convt3d.benchmark.passes import JOINT_PASSES, NORM_PASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[1]
README = Path("README.md")
FIGURE = Path("docs/speedups.svg")
RESULTS = Path("benchmarks/results")
# A case of a later file counts only where no earlier one has it.
LAYER_RECORDS = (
    "h200_joint.json",
    "h200.json",
    "h200_gradients.json",
    "h200_forward_earlier.json",
    "h200_gradients_earlier.json",
)
NETWORK_RECORDS = ("end_to_end_h200.json", "end_to_end_compiled_h200.json", "end_to_end_earlier_h200.json")
BEGIN, END = "<!-- numbers: written by scripts/readme_numbers.py -->\n", "<!-- numbers: end -->\n"
SNIPPET = "<!-- --8<-- [{}:numbers] -->"  # docs/index.md shows the numbers too
TITLES = {
    "forward": "forward",
    "backward_input": "gradient of the input",
    "backward_weight": "gradient of the weight",
    "backward": "all gradients",
    "backward_of_slice": "all gradients, slice",
    "training_step": "training step",
    "training_step_compiled": "training step, compiled",
    "relu_group_norm": "with ReLU and group norm",
    "relu_group_norm_training_step": "training step, ReLU and group norm",
    "inference": "networks, inference",
    "training": "networks, training step",
}
GRADIENT_PASSES = ("backward_input", "backward_weight")
NETWORK_PASSES = ("inference", "training")
# Rows of their own, behind those of the suite, where any was measured.
OTHER_GROUPS = {"use": "layers in use", GIVEN: "other layers"}
# Transposed layers without the rest of their network.
PARTS_OF_NETWORKS = ("surroundocc-upsampling",)


@dataclass(frozen=True)
class Measured:
    """One measured speed-up, above 1 where convt3d is faster."""

    pass_: str
    precision: str
    subject: str  # a layer, or a network
    speedup: float
    meta: records.Meta

    @property
    def title(self) -> str:
        """Of its row."""
        other = None if self.pass_ in NETWORK_PASSES else OTHER_GROUPS.get(group_of(self.subject))
        return TITLES[self.pass_] if other is None else f"{TITLES[self.pass_]}, {other}"


def measured(root: Path) -> list[Measured]:
    """All speed-ups of the committed records: of layers over their strongest peers, of networks over themselves."""
    found: dict[tuple[str, ...], Measured] = {}
    for name in LAYER_RECORDS:
        content = records.read(root / RESULTS / name) or {"records": []}
        for record in content["records"]:
            key = tuple(record[field] for field in ("layer", "pass", "precision", "layout"))
            if (ratio := records.speedup(record)) is not None and key not in found:
                origin = records.origin_of(record, content["meta"])
                found[key] = Measured(key[1], key[2], key[0], ratio, {**content["meta"], **origin})
    for name in NETWORK_RECORDS:
        content = records.read(root / RESULTS / name) or {"records": []}
        for record in content["records"]:
            key = tuple(record[field] for field in ("network", "pass", "precision", "run", "layout"))
            if key[0] not in PARTS_OF_NETWORKS and key not in found:
                ratio = record["ms"]["original"] / record["ms"]["converted"]
                found[key] = Measured(key[1], key[2], key[0], ratio, content["meta"])
    return list(found.values())


def titles(results: Sequence[Measured]) -> list[str]:
    """Of the rows, in their order: those of the suite's single passes and of networks always."""
    found = {result.title for result in results}
    rows = []
    for pass_, title in TITLES.items():
        others = [f"{title}, {group}" for group in OTHER_GROUPS.values()]
        always = [title] if title in found or pass_ not in (*JOINT_PASSES, *NORM_PASSES) else []
        rows += [*always, *(other for other in others if other in found)]
    return rows


def section(results: Sequence[Measured]) -> str:
    """What stands in README.md between the markers."""
    newest = max((result.meta for result in results if result.pass_ == "forward"), key=lambda meta: meta["date"])
    lines = [
        f"![Geometric means of the speed-ups, by pass and precision]({FIGURE})",
        "",
        SNIPPET.format("start"),
        "",
        f"| times as fast: geometric mean (least to greatest) | {' | '.join(PRECISIONS)} |",
        f"| --- |{' ---: |' * len(PRECISIONS)}",
    ]
    for title in titles(results):
        of_row = [result for result in results if result.title == title]
        cells = [_cell([one.speedup for one in of_row if one.precision == precision]) for precision in PRECISIONS]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    joint = [pass_ for pass_ in JOINT_PASSES if any(result.pass_ == pass_ for result in results)]
    norms = [pass_ for pass_ in NORM_PASSES if any(result.pass_ == pass_ for result in results)]
    of_layers = [["forward"], GRADIENT_PASSES, *(passes for passes in (joint, norms) if passes)]
    joint_peers = "; of several gradients also the strongest for each of them, added up" if joint else ""
    where = "; ".join(_where(results, passes, newest, "layers") for passes in of_layers)
    origin = (
        f"Measured on one {newest['gpu']} with torch {newest['torch']} and cuDNN {newest['cudnn']}; **below 1, convt3d "
        "is slower**. The passes are those of single layers in both layouts, against the strongest of what PyTorch has "
        "for them (cuDNN in any layout, `F.conv3d` where the stride is 1, a matrix product where kernel and stride are "
        f"equal{joint_peers}): {where}. "
        "The networks are whole ones before and after `convt3d.convert`, eager and compiled: "
        f"{_where(results, NETWORK_PASSES, newest, 'networks')}."
    )
    more = "Layer by layer, and why: [docs/performance.md](docs/performance.md)."
    lines += ["", origin, "", SNIPPET.format("end"), "", more]
    return "\n".join(lines) + "\n"


def figure(results: Sequence[Measured]) -> str:
    """The geometric means as bars from 1, on a logarithmic axis, with lines from the least to the greatest; SVG."""
    left, right, row, top = 250, 730, 22, 52
    rows = [
        (title, precision, of_row)
        for title in titles(results)
        for precision in PRECISIONS
        if (of_row := [one.speedup for one in results if (one.title, one.precision) == (title, precision)])
    ]
    low, high = min(min(ratios) for *_, ratios in rows) / 1.1, max(max(ratios) for *_, ratios in rows) * 1.1
    height = top + row * len(rows) + 34

    def place(ratio: float) -> float:
        return left + (right - left) * math.log(ratio / low) / math.log(high / low)

    title_of_figure = "Times as fast as the strongest alternative in PyTorch (networks: as before convert)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="800" height="{height}" fill="#ffffff"/>',
        f'<text x="16" y="24" font-size="15" font-weight="bold">{title_of_figure}</text>',
    ]
    for tick in (0.5, 1, 2, 5, 10, 20, 50):
        if low <= tick <= high:
            x, color = place(tick), "#333333" if tick == 1 else "#dddddd"
            parts.append(f'<path d="M{x:.1f} {top - 8}V{height - 28}" stroke="{color}"/>')
            parts.append(f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle" fill="#555555">{tick:g}</text>')
    previous = ""
    for number, (title, precision, ratios) in enumerate(rows):
        mean, middle = geometric_mean(ratios), top + row * number + row / 2
        begin, end = sorted((place(1), place(mean)))
        color = "#2a9d8f" if mean >= 1 else "#c8553d"
        if title != previous:
            parts.append(f'<text x="16" y="{middle + 4:.1f}">{title}</text>')
        parts += [
            f'<text x="{left - 14}" y="{middle + 4:.1f}" text-anchor="end" fill="#555555">{precision}</text>',
            f'<path d="M{place(min(ratios)):.1f} {middle:.1f}H{place(max(ratios)):.1f}" stroke="#999999"/>',
            f'<rect x="{begin:.1f}" y="{middle - 7:.1f}" width="{end - begin:.1f}" height="14" fill="{color}"/>',
            f'<text x="{right + 14}" y="{middle + 4:.1f}">{_number(mean)}</text>',
        ]
        previous = title
    return "\n".join([*parts, "</svg>"]) + "\n"


def _number(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 9.995 else f"{ratio:.2f}"


def _cell(ratios: Sequence[float]) -> str:
    if not ratios:
        return "not measured"
    spread = f"{_number(min(ratios))} to {_number(max(ratios))}" if len(ratios) > 1 else "one case"
    return f"**{_number(geometric_mean(ratios))}** ({spread})"


def _where(results: Sequence[Measured], passes: Sequence[str], newest: records.Meta, subjects: str) -> str:
    """How many subjects were measured in these passes, when, and whether with the kernels of the newest record."""
    of_passes = [result for result in results if result.pass_ in passes]
    if not of_passes:
        return f"{_listed([TITLES[pass_] for pass_ in passes])} not measured"
    titles = _listed([TITLES[pass_].removeprefix("networks, ") for pass_ in passes])
    dates = sorted({result.meta["date"] for result in of_passes})
    earlier = any(result.meta["csrc_tree"] != newest["csrc_tree"] for result in of_passes)
    count = len({result.subject for result in of_passes})
    kernels = ", with earlier kernels" if earlier else ""
    return f"{titles} of {count} {subjects} on {_listed(dates)}{kernels}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write both files, or compare them; the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    results = measured(ROOT)
    readme = (ROOT / README).read_text(encoding="utf-8")
    wanted = {
        README: marked.between(readme, BEGIN, END, section(results), page=README),
        FIGURE: figure(results),
    }
    return marked.write(ROOT, wanted, check=options.check, script="readme_numbers.py")


if __name__ == "__main__":
    sys.exit(main())

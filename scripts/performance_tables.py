"""Writes the tables of docs/performance.md, -layers.md and -networks.md from the committed records of the benchmarks.

python scripts/performance_tables.py           # after a new record
python scripts/performance_tables.py --check   # exit code 1 where the page says something else
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

import marked
from readme_numbers import LAYER_RECORDS, NETWORK_RECORDS, RESULTS

from convt3d.benchmark import records
from convt3d.benchmark.layers import GIVEN, LAYOUTS, group_of
from convt3d.benchmark.overhead import REPLACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from convt3d.benchmark.records import HostMeta, Overhead, Record

ROOT = Path(__file__).resolve().parents[1]
PORTABLE_RECORDS = ("h200_sm80.json", "h200_sm80_gradients.json")  # of a build with CONVT3D_CUDA_ARCHS=80+PTX
PORTABLE_H100_RECORDS = ("h100_sm80.json",)
NORM_RECORDS = ("h200_norms.json",)
H100_RECORDS = ("h100.json", "h100_joint.json", "h100_gradients.json")
H100_NETWORK_RECORDS = ("end_to_end_h100.json",)
PAGE, LAYERS_PAGE = Path("docs/performance.md"), Path("docs/performance-layers.md")
NETWORKS_PAGE, WORKSPACES_PAGE = Path("docs/performance-networks.md"), Path("docs/workspaces.md")
PASSES = {
    "forward": "forward",
    "backward_input": "input gradient",
    "backward_weight": "weight gradient",
    "backward": "all gradients",
    "backward_of_slice": "all gradients, grad_output a slice",
    "training_step": "training step",
    "training_step_compiled": "training step, compiled",
    "relu_group_norm": "forward with ReLU and group norm",
    "relu_group_norm_training_step": "training step with ReLU and group norm",
}
PRECISIONS = ("tf32", "fp16", "bf16", "fp32")
WORKSPACE_PASSES = ("forward", "backward_input", "backward_weight", "backward")
WORKSPACE_PRECISIONS = ("tf32", "fp16")
GROUPS = {"suite": "", "use": ", layers in use", GIVEN: ", other layers"}  # what a row says of its group
BEGIN = "<!-- table {}: written by scripts/performance_tables.py -->\n"
END = "<!-- table {}: end -->\n"


def layer_records(root: Path, files: Sequence[str] = LAYER_RECORDS) -> list[Record]:
    """Those of single layers; of a case, the first file's that has it."""
    found: dict[tuple[str, ...], Record] = {}
    for name in files:
        for record in (records.load(root / RESULTS / name) or {"records": []})["records"]:
            found.setdefault((record["layer"], record["pass"], record["precision"], record["layout"]), record)
    return list(found.values())


def means(root: Path, files: Sequence[str] = LAYER_RECORDS) -> str:
    """A row for each group of layers, pass and precision."""
    rows = []
    by_row: dict[tuple[str, str, str], list[Record]] = {}
    for one in layer_records(root, files):
        by_row.setdefault((group_of(one["layer"]), one["pass"], one["precision"]), []).append(one)
    for group, pass_ in product(GROUPS, PASSES):
        for precision in PRECISIONS:
            of_row = by_row.get((group, pass_, precision), [])
            ratios = [ratio for one in of_row if (ratio := records.speedup(one)) is not None]
            if not ratios:
                continue
            reached = geometric_mean([records.limit_fraction(one) for one in of_row])
            slower = sum(ratio < 1 for ratio in ratios)
            engines = ", ".join(sorted({engine for one in of_row for engine in records.engines(one)}))
            layers = len({one["layer"] for one in of_row})
            rows.append(
                [
                    f"{PASSES[pass_]}, {precision}{GROUPS[group]}",
                    str(layers),
                    engines,
                    f"{geometric_mean(ratios):.2f}",
                    f"{min(ratios):.2f}",
                    f"{slower} of {len(ratios)}",
                    f"{reached:.2f}",
                ]
            )
    header = ["pass, precision", "layers", "engines", "speed-up", "least", "below 1", "of the limit"]
    return table(header, rows, left=3) if rows else "Not measured.\n"


def means_of_portable_build(root: Path) -> str:
    """The same of a library without Hopper's instructions."""
    return means(root, PORTABLE_RECORDS)


def means_of_portable_build_on_h100(root: Path) -> str:
    """The same on an H100."""
    return means(root, PORTABLE_H100_RECORDS)


def means_of_h100(root: Path) -> str:
    """Of the library as it is, on an H100."""
    return means(root, H100_RECORDS)


def layers(root: Path) -> str:
    """The forward of every layer, group by group: speed-up and, in brackets, fraction of the limit."""
    forward = {
        (one["layer"], one["precision"], one["layout"]): one for one in layer_records(root) if one["pass"] == "forward"
    }
    cases = [(precision, layout) for precision in PRECISIONS for layout in LAYOUTS]
    rows = [
        [name, *(_ratio(forward.get((name, *case))) for case in cases)]
        for group in GROUPS
        for name in dict.fromkeys(layer for layer, *_ in forward)
        if group_of(name) == group
    ]
    return table(["layer", *(f"{precision} {layout}" for precision, layout in cases)], rows, left=1)


def workspaces(root: Path) -> str:
    """MiB beside the results, of every layer: convt3d's, and those of the faster of cuDNN's layouts."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for one in layer_records(root):
        if "workspace_bytes" in one:
            found.setdefault((one["layer"], one["pass"], one["precision"]), []).append(one)
    cases = [(pass_, precision) for pass_ in WORKSPACE_PASSES for precision in WORKSPACE_PRECISIONS]
    rows = [
        [name, *(_workspaces(found.get((name, *case), [])) for case in cases)]
        for name in dict.fromkeys(layer for layer, *_ in found)
    ]
    header = ["layer", *(f"{PASSES[pass_]}, {precision}" for pass_, precision in cases)]
    return table(header, rows, left=1) if rows else "Not measured.\n"


def norms(root: Path) -> str:
    """Forwards and training steps with ReLU and group norm beside PyTorch's fastest way, milliseconds."""
    of_case: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in layer_records(root, NORM_RECORDS):
        theirs = min(ms for name, ms in one["peers_ms"].items() if not name.startswith("convt3d"))
        times = f"{one['convt3d_ms']:.3f} ({theirs / one['convt3d_ms']:.2f})"
        cell = of_case.setdefault((one["layer"], PASSES[one["pass"]], one["precision"]), {"PyTorch": f"{theirs:.3f}"})
        cell[one["layout"]] = times
    rows = [
        [f"`{case[0]}`", *case[1:], *(of.get(name, "-") for name in ("PyTorch", *LAYOUTS))]
        for case, of in of_case.items()
    ]
    return table(["layer", "pass", "precision", "PyTorch", *LAYOUTS], rows, left=3) if rows else "Not measured.\n"


def networks(root: Path) -> str:
    """Whole networks before and after convert: times on an H200."""
    return _networks(root, NETWORK_RECORDS)


def networks_of_h100(root: Path) -> str:
    """The same on an H100."""
    return _networks(root, H100_NETWORK_RECORDS)


def networks_at_a_glance(root: Path) -> str:
    """Speed-ups of the H200's networks, eager: a row each."""
    cases = [(pass_, precision) for pass_ in ("inference", "training") for precision in ("tf32", "fp16")]
    found: dict[str, dict[tuple[str, str], str]] = {}
    for one in _network_records(root, NETWORK_RECORDS):
        if one["run"] == "eager":
            speed_up = f"{one['ms']['original'] / one['ms']['converted']:.2f}"
            found.setdefault(one["network"], {})[one["pass"], one["precision"]] = speed_up
    rows = [[name, *(found[name].get(case, "-") for case in cases)] for name in sorted(found)]
    return table(["network", *(f"{pass_}, {precision}" for pass_, precision in cases)], rows, left=1)


def _network_records(root: Path, files: Iterable[str]) -> list[dict[str, Any]]:
    """Those of whole networks, of which no two files have the same case."""
    contents = [records.read(root / RESULTS / name) or {"records": []} for name in files]
    return [one for content in contents for one in content["records"]]


def _networks(root: Path, files: Iterable[str]) -> str:
    found: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for one in _network_records(root, files):
        before, after = one["ms"]["original"], one["ms"]["converted"]
        cells = [f"{before:.2f}", f"{after:.2f}", f"{before / after:.2f}"]
        found.setdefault((one["network"], one["pass"], one["precision"]), {})[one["run"]] = cells
    runs = [run for run in ("eager", "compiled") if any(run in of_case for of_case in found.values())]
    missing = ["-"] * 3
    rows = [[*case, *(cell for run in runs for cell in found[case].get(run, missing))] for case in sorted(found)]
    header = ["network", "pass", "precision"]
    for run in runs:
        header += [f"{run}: original ms", "converted ms", "speed-up"]
    return table(header, rows, left=3)


def host(root: Path) -> str:
    """Host time of each eager call beside the one that it replaces, the latest of each precision, and their origin."""
    latest: dict[str, Overhead] = {}
    for name in (*LAYER_RECORDS, *H100_RECORDS):
        for precision, one in (records.load(root / RESULTS / name) or {}).get("overhead", {}).items():
            if precision not in latest or latest[precision]["meta"]["date"] < one["meta"]["date"]:
                latest[precision] = one
    precisions = [precision for precision in PRECISIONS if precision in latest]
    if not precisions:
        return "Not measured.\n"
    rows = [
        [f"`{call}`", *(_host_times(latest[precision]["us"], call, theirs) for precision in precisions)]
        for call, theirs in REPLACES.items()
    ]
    origins: dict[str, list[str]] = {}
    for precision in precisions:
        origins.setdefault(_host_origin(latest[precision]["meta"]), []).append(precision)
    line = "; ".join(f"{', '.join(of)}: {origin}" for origin, of in origins.items())
    return f"{table(['call', *precisions], rows, left=1)}\n{line}.\n"


TABLES: dict[Path, dict[str, Callable[[Path], str]]] = {
    PAGE: {"means": means, "host": host, "networks_at_a_glance": networks_at_a_glance},
    NETWORKS_PAGE: {"norms": norms, "networks_h100": networks_of_h100, "networks": networks},
    LAYERS_PAGE: {
        "h100": means_of_h100,
        "layers": layers,
        "portable": means_of_portable_build,
        "portable_h100": means_of_portable_build_on_h100,
    },
    WORKSPACES_PAGE: {"workspaces": workspaces},
}


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: int) -> str:
    """In Markdown; all columns but the first `left` are numbers."""
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "".join(f"| {' | '.join(row)} |\n" for row in [header, rule, *rows])


def with_tables(page: Path, text: str, root: Path) -> str:
    """A page's text with its tables of the records."""
    for name, write in TABLES[page].items():
        text = marked.between(text, BEGIN.format(name), END.format(name), write(root), page=page)
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    new = {page: with_tables(page, (ROOT / page).read_text(encoding="utf-8"), ROOT) for page in TABLES}
    return marked.write(ROOT, new, check=options.check, script="performance_tables.py")


def _host_times(us: Mapping[str, float], call: str, theirs: str) -> str:
    return f"{us[call]:.1f} / {us[theirs]:.1f}" if call in us else "-"  # autocast is to 16 bits


def _host_origin(meta: HostMeta) -> str:
    versions = f"Python {meta['python']}, torch {meta['torch']}, driver {meta['driver']}"
    trees = (meta["csrc_tree"], meta["python_tree"])
    csrc, package = (tree[:12] + ("+changes" if tree.endswith("+changes") else "") for tree in trees)
    where = f"{meta['date']}, {meta['gpu']}, {meta['processor']}"
    return f"{where}, {versions}, `csrc` {csrc}, `convt3d` {package}"


def _ratio(record: Record | None) -> str:
    if record is None or (ratio := records.speedup(record)) is None:
        return "-"
    return f"{ratio:.2f} ({records.limit_fraction(record):.2f})"


def _workspaces(of_case: Sequence[Record]) -> str:
    """The more of both layouts, and the peer's."""
    if not of_case:
        return "-"
    ours = max(one["workspace_bytes"] for one in of_case)
    peers, times = of_case[0]["peers_workspace_bytes"], of_case[0]["peers_ms"]
    cudnn = [name for name in ("cudnn_NCDHW", "cudnn_NDHWC") if name in peers]
    return f"{_mebibytes(ours)} / {_mebibytes(peers[min(cudnn, key=times.__getitem__)]) if cudnn else '-'}"


def _mebibytes(bytes: int) -> str:
    return f"{bytes / 2**20:.1f}"


if __name__ == "__main__":
    sys.exit(main())

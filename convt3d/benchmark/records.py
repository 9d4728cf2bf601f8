"""Benchmark records: their format, the file that keeps them, and the tables that show them."""

from __future__ import annotations

import json
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, TypedDict

from .layers import group_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path


class Compared(TypedDict):
    """The peers of one part of a joint pass."""

    peers_ms: dict[str, float]
    peers_absent: dict[str, str]


class MeasuredPlan(TypedDict):
    """One of an engine's plans for a case."""

    ms: float
    expected_ms: float  # by the engine's costs
    plan: str  # in words


_RequiredOfRecord = TypedDict(
    "_RequiredOfRecord",
    {
        "layer": str,
        "pass": str,
        "precision": str,
        "layout": str,  # of ours; the peers are measured in every layout
        "convt3d_ms": float,
        "peers_ms": dict[str, float],
        "peers_absent": dict[str, str],  # peer -> why it has no time
        "limit_ms": float,
        "error": float,  # |y - reference| / |reference|, reference in float64; the greatest of several results
        "cudnn_error": float | None,  # cuDNN's, in the layout of the record; None where cuDNN is absent
        "engine": str,  # of a joint pass: its parts', joined by +
        "kernels": str | None,  # fingerprint of the machine code, see fingerprint.py; None where it was not read
        "plan": str | None,  # hash of the plan in words; None where it was not read
    },
)


class Origin(TypedDict):
    """Where one record comes from."""

    date: str
    csrc_tree: str


class Record(_RequiredOfRecord, total=False):
    """One case: a layer, a pass, a precision and a layout."""

    plans: list[MeasuredPlan]  # of --plans: the chosen one first, then by their expected times
    # What a call allocates beside its results, at its peak: convt3d's, and each peer's of which that could be told.
    workspace_bytes: int
    peers_workspace_bytes: dict[str, int]
    origin: Origin  # where that is not the file's meta
    single_peers: dict[str, Compared]  # of a backward, by single pass: the strongest of a layout make single_gradients


class _RequiredOfMeta(TypedDict):
    gpu: str
    torch: str
    cudnn: str
    driver: str
    date: str
    csrc_tree: str
    python_tree: str
    image: str  # of the library's architectures, the one whose code ran


class Meta(_RequiredOfMeta, total=False):
    """Where the records of a file come from, but for those with an origin of their own.

    One file never mixes machines, or what was asked of convt3d.
    """

    asked: str  # options that make records another kind than those of the chosen plans beside their peers


class HostMeta(Meta):
    """Where host times come from: they depend on Python and the processor, too."""

    python: str
    processor: str


class Overhead(TypedDict):
    """Host times of one precision, which say themselves where they come from: they outlive the file's records."""

    meta: HostMeta
    us: dict[str, float]  # call -> host time of one eager call


class _RecordFile(TypedDict):
    meta: Meta
    records: list[Record]


class RecordFile(_RecordFile, total=False):
    """Content of a record file."""

    overhead: dict[str, Overhead]  # by precision


# Records are comparable with newer ones while these agree, and the machine code that they measured.
_IDENTITY = ("gpu", "torch", "cudnn")


def engines(record: Record) -> list[str]:
    """Those that compute the parts of a record's pass."""
    return record["engine"].split("+")


def speedup(record: Record) -> float | None:
    """How many times faster than the strongest peer in any layout; None without a peer."""
    peers = record["peers_ms"].values()
    return min(peers) / record["convt3d_ms"] if peers else None


def limit_fraction(record: Record) -> float:
    """Fraction of the speed that the hardware allows at best, 1 at the limit."""
    return record["limit_ms"] / record["convt3d_ms"]


def merge(
    old: RecordFile | None,
    meta: Meta,
    new: Iterable[Record],
    same_kernels: Callable[[Record], bool] = lambda record: False,
) -> RecordFile:
    """The old file with the new records, each in the place of an older one of its layer, pass, precision and layout.

    Old records of another GPU, torch or cuDNN are dropped, and those of another source for which ``same_kernels`` does
    not say that the machine code is the same. Those that stay keep their origin. Host times have an origin of their
    own, and stay on the same GPU, torch and cuDNN.
    """
    by_key: dict[tuple[str, str, str, str], Record] = {}
    merged: RecordFile = {"meta": meta, "records": []}
    if old is not None and not differences(old["meta"], meta):
        same_source = old["meta"]["csrc_tree"] == meta["csrc_tree"]
        kept = [record for record in old["records"] if same_source or same_kernels(record)]
        by_key.update((_key(record), _of_origin(record, origin_of(record, old["meta"]), meta)) for record in kept)
        if "overhead" in old:
            merged["overhead"] = old["overhead"]
    by_key.update((_key(record), record) for record in new)
    merged["records"] = list(by_key.values())
    return merged


def origin_of(record: Record, meta: Meta) -> Origin:
    """When a record of a file with this meta was measured, and of which source."""
    return record["origin"] if "origin" in record else _origin(meta)


def _origin(meta: Meta) -> Origin:
    return {"date": meta["date"], "csrc_tree": meta["csrc_tree"]}


def _of_origin(record: Record, origin: Origin, meta: Meta) -> Record:
    """The record, with its origin where this meta does not say it."""
    result = record.copy()
    result.pop("origin", None)
    if origin != _origin(meta):
        result["origin"] = origin
    return result


def merge_overhead(old: RecordFile | None, meta: HostMeta, us: Mapping[str, dict[str, float]]) -> RecordFile:
    """The old file with the new host times, by precision, each in the place of an older one.

    Records stay as they are, with their meta: nothing of them was measured. Where GPU, torch or cuDNN are others, all
    that the file has is dropped, as by `merge`.
    """
    if old is None or differences(old["meta"], meta):
        merged: RecordFile = {"meta": meta, "records": []}
    else:
        merged = {**old}
    new: dict[str, Overhead] = {precision: {"meta": meta, "us": of_call} for precision, of_call in us.items()}
    merged["overhead"] = {**merged.get("overhead", {}), **new}
    return merged


def differences(old: Meta, new: Meta) -> list[str]:
    """What makes the records of two files incomparable, as ``field: old -> new``; empty when nothing does."""
    return [f"{field}: {old.get(field)} -> {new.get(field)}" for field in _IDENTITY if old.get(field) != new.get(field)]


def load(path: Path) -> RecordFile | None:
    """The file's content, or None where there is no file."""
    content: RecordFile | None = read(path)
    return content


def read(path: Path) -> Any:
    """Content of a file that `save` wrote, of any kind of records, or None where there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of records of any kind, one a line so that a diff shows what changed; never seen half written.

    ``content`` has the records as ``"records"``; all else goes before them.
    """
    lines = ",\n".join("  " + json.dumps(record) for record in content["records"])
    head = ",\n ".join(f'"{key}": {json.dumps(value)}' for key, value in content.items() if key != "records")
    text = "{" + head + ',\n "records": [\n' + lines + "\n]}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def in_words(meta: Mapping[str, Any]) -> str:
    """Where records come from, in a line."""
    return ", ".join(f"{key} {value}" for key, value in meta.items())


def format_table(records: Sequence[Record]) -> str:
    """Table of one layer's records: times in ms, speed-up over the strongest peer, fraction of the limit, errors."""
    peers = list(dict.fromkeys(name for record in records for name in (*record["peers_ms"], *record["peers_absent"])))
    header = ["pass", "precision", "layout", "convt3d", *peers, "speed-up", "of limit", "error", "cuDNN's"]
    rows = [header]
    for record in records:
        ratio, cudnn_error = speedup(record), record["cudnn_error"]
        rows.append(
            [
                record["pass"],
                record["precision"],
                record["layout"],
                _milliseconds(record["convt3d_ms"]),
                *(_milliseconds(record["peers_ms"].get(name)) for name in peers),
                "-" if ratio is None else f"{ratio:.2f}x",
                f"{limit_fraction(record):.1%}",
                f"{record['error']:.1e}",
                "-" if cudnn_error is None else f"{cudnn_error:.1e}",
            ]
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    text_columns = 3
    lines = [
        "  ".join(
            cell.ljust(width) if column < text_columns else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    absent = {f"{name}: {reason}" for record in records for name, reason in record["peers_absent"].items()}
    return "\n".join([*lines, *(f"absent {line}" for line in sorted(absent))])


def format_workspaces(records: Iterable[Record]) -> str:
    """A line for each record that has them: MiB beside the results, convt3d's and each peer's."""
    lines = []
    for record in records:
        if "workspace_bytes" not in record:
            continue
        of_all = {"convt3d": record["workspace_bytes"], **record.get("peers_workspace_bytes", {})}
        words = ", ".join(f"{name} {bytes / 2**20:.1f}" for name, bytes in of_all.items())
        lines.append(f"{record['pass']} {record['precision']} {record['layout']}: workspaces in MiB: {words}")
    return "\n".join(lines)


def format_plans(records: Iterable[Record]) -> str:
    """A line for each plan that was measured: its time, over that of the chosen plan, what was expected, its words."""
    lines = []
    for record in records:
        plans = record.get("plans", [])
        if not plans:
            continue
        best = min(plan["ms"] for plan in plans)
        case = f"{record['pass']} {record['precision']} {record['layout']}"
        lines.append(f"{case}: the chosen plan takes {plans[0]['ms'] / best:.2f} times the best of {len(plans)}")
        lines += [
            f"  {number}: {plan['ms']:.4f} ({plan['ms'] / plans[0]['ms']:.2f}), expected {plan['expected_ms']:.4f}, "
            f"{record['engine']}: {plan['plan']}"
            for number, plan in enumerate(plans)
        ]
    return "\n".join(lines)


def format_plan_summary(records: Iterable[Record]) -> str:
    """By engine and pass: how much longer the chosen plans take than the best that were measured."""
    by_case: dict[str, list[float]] = {}
    for record in records:
        if plans := record.get("plans"):
            slower = plans[0]["ms"] / min(plan["ms"] for plan in plans)
            by_case.setdefault(f"{record['engine']} {record['pass']} {record['precision']}", []).append(slower)
    return "\n".join(
        f"{case}: chosen plans take {geometric_mean(slower):.3f} times the best measured, at most {max(slower):.2f}, "
        f"within 10 % in {sum(one <= 1.1 for one in slower)} of {len(slower)}"
        for case, slower in by_case.items()
    )


def format_summary(records: Sequence[Record]) -> str:
    """By group of layers, pass and precision: means of speed-up and fraction of the limit, and the worst speed-up."""

    def case(record: Record) -> tuple[str, str, str]:
        return group_of(record["layer"]), record["pass"], record["precision"]

    lines = []
    for group, pass_, precision in dict.fromkeys(map(case, records)):
        of_case = [record for record in records if case(record) == (group, pass_, precision)]
        ratios = [ratio for record in of_case if (ratio := speedup(record)) is not None]
        compared = f"{geometric_mean(ratios):.2f}x, at least {min(ratios):.2f}x" if ratios else "no peer"
        reached = geometric_mean([limit_fraction(record) for record in of_case])
        lines.append(f"{group}: {pass_} {precision}: {compared}; {reached:.1%} of the limit ({len(of_case)} records)")
    return "\n".join(lines)


def _key(record: Record) -> tuple[str, str, str, str]:
    return record["layer"], record["pass"], record["precision"], record["layout"]


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"

"""Records of whole networks: their format, the file that keeps them, and the table that shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

Meta = dict[str, object]
VARIANTS = ("original", "converted")

# A record stays comparable with a newer one while these agree.
IDENTITY = ("gpu", "torch", "cudnn", "csrc_tree", "python_tree")

Record = TypedDict(
    "Record",
    {
        "network": str,
        "pass": str,
        "run": str,
        "precision": str,
        "layout": str,
        "converted_layers": int,
        "ms": dict[str, float],  # by variant, like all that follow
        "calls": dict[str, int],
        "peak_mib": dict[str, float],
        "error": dict[str, float],
    },
)


class RecordFile(TypedDict):
    """Content of a file of records."""

    meta: Meta
    records: list[Record]


def _key(record: Record) -> tuple[str, ...]:
    return record["network"], record["pass"], record["run"], record["precision"], record["layout"]


def merge(old: RecordFile | None, meta: Meta, new: Sequence[Record]) -> RecordFile:
    """The old file with the new records, each in the place of an older one of its case.

    Old records of another GPU, torch, cuDNN or source are dropped: the new meta would give them a false origin.
    """
    kept = []
    if old is not None and all(old["meta"].get(field) == meta.get(field) for field in IDENTITY):
        keys = {_key(record) for record in new}
        kept = [record for record in old["records"] if _key(record) not in keys]
    return {"meta": meta, "records": [*kept, *new]}


HEADER = (
    "| network | pass | run | precision | layout | original ms | converted ms | speed-up "
    "| original MiB | converted MiB | original error | converted error |\n"
    "| --- | --- | --- | --- | --- |" + " ---: |" * 7
)


def format_row(record: Record) -> str:
    """A record as a line below HEADER, in Markdown."""
    ms, peak, error = record["ms"], record["peak_mib"], record["error"]
    cells = [*_key(record), *(f"{ms[variant]:.3f}" for variant in VARIANTS)]
    cells.append(f"{ms['original'] / ms['converted']:.2f}x")
    cells += [f"{peak[variant]:.0f}" for variant in VARIANTS]
    cells += [f"{error[variant]:.1e}" for variant in VARIANTS]
    return "| " + " | ".join(cells) + " |"

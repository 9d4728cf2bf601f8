"""Prints which committed records measured other kernels than a library has; needs no GPU.

    python benchmarks/fingerprint.py                                   # every record, and the library of this checkout
    python benchmarks/fingerprint.py benchmarks/results/h200.json --library some/_C.abi3.so
    python benchmarks/fingerprint.py --add benchmarks/results/h200.json --library some/_C.abi3.so

A record of one case names the machine code and the plan that it measured; a file of whole networks or of counters
names those of all engines. `--add` writes the fingerprints of a library, and the plans of the convt3d that is imported,
into the records of a file that has none: right only where these are what was measured.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from convt3d._explain.plan import named_device
from convt3d._library import LIBRARY_PATH
from convt3d.benchmark import records
from convt3d.benchmark.engine import Engine, Kernels, engine
from convt3d.benchmark.fingerprint import FingerprintError, Hashes, fingerprints, kernel_hashes
from convt3d.benchmark.layers import known_layers

RESULTS = Path(__file__).resolve().parent / "results"
IMAGE = "sm_90a"  # of files that do not say which of the library's architectures ran


def main() -> int:
    """Returns the exit code: 0 where every record was compared, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="record files; default: benchmarks/results")
    parser.add_argument("--library", type=Path, default=LIBRARY_PATH, help="default: the one that convt3d loads")
    parser.add_argument("--add", action="store_true", help="write the fingerprints instead of comparing them")
    options = parser.parse_args()
    known: dict[str, Hashes] = {}
    exit_code = 0
    for path in options.files or sorted(RESULTS.glob("*.json")):
        content = records.read(path)
        if content is None:
            parser.error(f"{path}: no such file")
        image = content["meta"].get("image", IMAGE)
        try:
            if image not in known:
                known[image] = kernel_hashes(image, options.library)
        except FingerprintError as error:
            print(f"{path.name}: not compared: {error}")
            exit_code = 1
            continue
        if options.add:
            add(content, image, known[image])
            records.save(path, content)
        print(f"{path.name} ({image}): {compare(content, image, known[image])}")
    return exit_code


def compare(content: dict[str, Any], image: str, hashes: Hashes) -> str:
    """Which of a file's records are of these kernels, and of the plans of today, in words."""
    if "kernels" in content["meta"]:
        now, then = fingerprints(hashes), content["meta"]["kernels"]
        changed = [name for name in sorted({*now, *then}) if now.get(name) != then.get(name)]
        return "of these kernels" if not changed else f"of older kernels: {', '.join(changed)}"
    gpu = content["meta"]["gpu"]
    counts = Counter(state(record, image, gpu, Kernels(hashes)) for record in content["records"])
    return "; ".join(f"{count} records {what}" for what, count in sorted(counts.items()))


def state(record: dict[str, Any], image: str, gpu: str, kernels: Kernels) -> str:
    """Of one record, in words."""
    if record.get("kernels") is None:
        return "without a fingerprint"
    case = f"{record['pass']} {record['precision']} {record['engine']}"
    if kernels.fingerprint(record["engine"], record["pass"], record["precision"]) != record["kernels"]:
        return f"of older kernels ({case})"
    today = engine_of(record, image, gpu)
    plan = record.get("plan")
    if today is not None and (today.name != record["engine"] or plan not in (None, today.plan)):
        return f"of another plan ({case})"
    return "of these kernels and plans"


def engine_of(record: dict[str, Any], image: str, gpu: str) -> Engine | None:
    """What computes a record's case today on its GPU; None where its layer or its GPU is not known."""
    layer = {layer.name: layer for layer in known_layers()}.get(record["layer"])
    if layer is None:
        return None
    try:
        device = named_device(gpu)
    except ValueError:
        return None
    if image != "sm_90a":
        device = device.without("halo_wgmma")
    return engine(layer, record["pass"], record["precision"], record["layout"], device=device)


def add(content: dict[str, Any], image: str, hashes: Hashes) -> None:
    """Write the fingerprints of these kernels into a file that has none."""
    content["meta"]["image"] = image
    if not all("engine" in record for record in content["records"]):
        content["meta"].setdefault("kernels", fingerprints(hashes))
        return
    kernels = Kernels(hashes)
    for record in content["records"]:
        if record.get("kernels") is not None:
            continue
        record["kernels"] = kernels.fingerprint(record["engine"], record["pass"], record["precision"])
        today = engine_of(record, image, content["meta"]["gpu"])
        record["plan"] = None if today is None else today.plan


if __name__ == "__main__":
    sys.exit(main())

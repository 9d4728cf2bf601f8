#!/usr/bin/env python3
"""Hashes the results of a fixed set of calls, to see that a change of the code left every bit as it was.

    python scripts/hash_outputs.py --out before.json      # with the installed convt3d, on the GPU where there is one
    python scripts/hash_outputs.py --out after.json       # with another one
    python scripts/hash_outputs.py --compare before.json after.json

The set: the calls of tests/data/covering_set.txt (all operators, five types, awkward strides), and the layers of the
benchmark, or of `--layers FILE`, by every operator, with and without ReLU, in four precisions and both layouts. Two
runs on one device with one PyTorch have the same operands. Needs an installed convt3d, and this checkout's tests/.
Exit code of --compare: 0 where both files have the same calls and hashes, 1 where not.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

import torch
from cases import DTYPES, OPERATORS, Case
from checking import run
from torch import Tensor
from trait_coverage import read

from convt3d._library import build_info
from convt3d.benchmark.layers import LAYOUTS, PRECISIONS, known_layers, layer_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from convt3d._layer import Layer

# Any odd numbers: what an element at a place adds to a hash.
_PLACE = 0x5851F42D4C957F2D
_VALUE = 0x14057B7EF767814F
_AT_ONCE = 1 << 26  # elements, so that 64-bit copies of a large result fit beside it


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the hashes here")
    parser.add_argument("--compare", type=Path, nargs=2, metavar="FILE", help="compare two files of hashes")
    parser.add_argument("--layers", type=Path, action="append", help="a file of layers like layers.json; repeatable")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="default: cuda where there is one")
    parser.add_argument("--only", choices=("covering_set", "layers"), help="one part of the set")
    parser.add_argument("--limit", type=int, help="of the covering set, only so many calls")
    options = parser.parse_args()
    if (options.out is None) == (options.compare is None):
        parser.error("one of --out and --compare is needed")
    if options.device is None:
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options


def layers_of(path: Path) -> list[Layer]:
    """The layers of a file: a list as in ``layers.json``, or one under the key ``layers``."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(entries, dict):
        entries = entries["layers"]
    for_the_reader = ("group", "output", "source")
    return [
        layer_from_json({key: value for key, value in entry.items() if key not in for_the_reader}) for entry in entries
    ]


def calls_of(layer: Layer) -> Iterator[Case]:
    """Every operator on a layer, with and without ReLU."""
    for precision in PRECISIONS:
        for layout in LAYOUTS:
            for op in OPERATORS:
                for relu in (0, 1):
                    yield Case(
                        op=op,
                        type=precision,
                        layout=layout,
                        n=layer.batch,
                        cin=layer.in_channels,
                        cout=layer.out_channels,
                        size=layer.input_size,
                        kernel=layer.kernel_size,
                        stride=layer.stride,
                        padding=layer.padding,
                        output_padding=layer.output_padding,
                        dilation=layer.dilation,
                        groups=layer.groups,
                        bias=int(layer.bias),
                        relu=relu,
                    )


def operands(case: Case, device: str) -> dict[str, Tensor]:
    """Random ones, made on the device: those of a case are the same in every run."""
    generator = torch.Generator(device).manual_seed(zlib.crc32(str(case).encode()))
    dtype = DTYPES[case.type]

    def values(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)

    tensors = {name: memory.tensor(values(memory.shape)) for name, memory in case.operands.items()}
    if case.op == "forward" and case.bias:
        tensors["bias"] = values((case.cout,))
    return tensors


def hash_of(tensor: Tensor) -> str:
    """Of shape, strides and every bit, whatever the device."""
    words = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    flat = tensor.contiguous().view(words).flatten()
    total = 0
    for begin in range(0, flat.numel(), _AT_ONCE):
        part = flat[begin : begin + _AT_ONCE].to(torch.int64)
        places = torch.arange(begin, begin + part.numel(), device=flat.device) * _PLACE + 1
        mixed = (part * _VALUE) ^ places
        mixed ^= mixed >> 29
        total += int((mixed * places).sum().item())
    shape = zlib.crc32(str((tuple(tensor.shape), tensor.stride())).encode())
    return f"{total & (1 << 64) - 1:016x}{shape:08x}"


def compare(before: Path, after: Path) -> int:
    """Prints what differs."""
    first, second = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    for key in sorted({*first["environment"], *second["environment"]}):
        values = first["environment"].get(key), second["environment"].get(key)
        if values[0] != values[1]:
            print(f"{key}: {values[0]}, then {values[1]}")
    hashes = first["hashes"], second["hashes"]
    lacking = [
        f"{'second' if key in hashes[0] else 'first'} lacks {key}" for key in hashes[0].keys() ^ hashes[1].keys()
    ]
    differing = [key for key in hashes[0].keys() & hashes[1].keys() if hashes[0][key] != hashes[1][key]]
    for line in [*sorted(lacking), *sorted(differing)][:50]:
        print(line)
    same = len(hashes[0].keys() & hashes[1].keys()) - len(differing)
    print(f"{same} the same, {len(differing)} different, {len(lacking)} in one file only")
    return int(bool(differing or lacking))


def main() -> int:
    """Hashes, or compares."""
    options = _arguments()
    if options.compare is not None:
        return compare(*options.compare)
    cases: list[Case] = []
    if options.only != "layers":
        cases += read()[: options.limit]
    if options.only != "covering_set":
        layers = [*known_layers(), *(layer for path in options.layers or () for layer in layers_of(path))]
        cases += [case for layer in layers for case in calls_of(layer)]
    hashes: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for case in cases:
        if str(case) in hashes:
            continue
        hashes[str(case)] = hash_of(run(case, operands(case, options.device)))
        counts[case.op] += 1
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    where = {"device": device, "torch": torch.__version__, "library": str(build_info())}
    result = {"environment": where, "hashes": hashes}
    options.out.write_text(json.dumps(result, indent=0) + "\n", encoding="utf-8")
    elements = sum(math.prod(case.shapes["output"]) for case in cases)
    print(f"{len(hashes)} hashes ({', '.join(f'{count} {op}' for op, count in counts.items())}), {elements} outputs")
    return 0


if __name__ == "__main__":
    sys.exit(main())

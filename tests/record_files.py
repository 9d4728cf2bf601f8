"""Records of the benchmark for tests, and files of them."""

import itertools
from pathlib import Path

from convt3d.benchmark import records
from convt3d.benchmark.layers import LAYOUTS

META: records.Meta = {
    "gpu": "A GPU",
    "torch": "2.11.0",
    "cudnn": "9.19.0",
    "driver": "1",
    "date": "2026-01-31",
    "csrc_tree": "c0",
    "python_tree": "p0",
    "image": "sm_90a",
}
HOST_META: records.HostMeta = {**META, "python": "3.12.3", "processor": "A processor"}


def record(pass_: str = "forward", layout: str = "NCDHW", ms: float = 2.0) -> records.Record:
    return {
        "layer": "some_layer",
        "pass": pass_,
        "precision": "fp32",
        "layout": layout,
        "convt3d_ms": ms,
        "peers_ms": {"cudnn_NCDHW": 8.0, "cudnn_NDHWC": 5.0},
        "peers_absent": {"matmul_shuffle": "RuntimeError: no compiler"},
        "limit_ms": 0.5,
        "error": 1.25e-7,
        "cudnn_error": None,
        "engine": "simt",
        "kernels": "k0",
        "plan": None,
    }


def save_record(path: Path, *layers: str) -> None:
    passes = ("forward", "backward_weight")
    found = [
        {**record(pass_, layout, 1.0 + number), "layer": layer}
        for number, layer in enumerate(layers)
        for pass_, layout in itertools.product(passes, LAYOUTS)
    ]
    records.save(path, records.merge(None, META, found))  # type: ignore[arg-type]

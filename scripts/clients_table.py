"""Prints the table of docs/clients.md: what convt3d.convert does with networks of other packages.

pip install 'convt3d[clients]' && python scripts/clients_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from torch import nn

import convt3d

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from client_networks import CLIENTS

_NORMS = {nn.GroupNorm, nn.InstanceNorm3d}
_COLUMNS = (
    "network",
    "layers",
    "converted",
    "with ReLU fused",
    "with norm fused",
    "with BatchNorm folded (`fold_batchnorm=True`)",
    "left",
)


def table() -> str:
    """One row a network, in full size."""
    rows = [
        f"| {' | '.join(_COLUMNS)} |",
        f"|{' --- |' * len(_COLUMNS)}",
    ]
    for client in CLIENTS:
        model = client.make().eval()
        reports = []
        for fold_batchnorm in (False, True):
            reports.append(convt3d.convert(model, fold_batchnorm=fold_batchnorm))
            convt3d.revert(model)
        modules = dict(model.named_modules())
        plain, folded = reports
        total, left = len(plain.layers), len(plain.names("left"))
        fused = [{type(modules[partner]) for partner in layer.partners} for layer in plain.layers if layer.partners]
        with_relu, with_norm = (
            sum(bool(types.intersection(kinds)) for types in fused) for kinds in ({nn.ReLU}, _NORMS)
        )
        counts = (total, total - left, with_relu, with_norm, len(folded.names("folded")), left)
        rows.append(f"| {client.name} | {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())

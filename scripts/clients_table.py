"""Prints the table of docs/clients.md: what convt3d.convert does with networks of other packages.

pip install 'convt3d[clients]' && python scripts/clients_table.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import convt3d

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from client_networks import CLIENTS


def table() -> str:
    """One row a network, in full size."""
    rows = [
        "| network | layers | converted | with ReLU fused | with BatchNorm folded (`fold_batchnorm=True`) | left |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for client in CLIENTS:
        model = client.make().eval()
        reports = []
        for fold_batchnorm in (False, True):
            reports.append(convt3d.convert(model, fold_batchnorm=fold_batchnorm))
            convt3d.revert(model)
        plain, folded = reports
        total, left = len(plain.layers), len(plain.names("left"))
        counts = (total, total - left, len(plain.names("fused")), len(folded.names("folded")), left)
        rows.append(f"| {client.name} | {' | '.join(map(str, counts))} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())

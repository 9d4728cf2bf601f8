"""Writes convt3d/benchmark/networks.json: the transposed layers of the networks of docs/clients.md, with their sizes.

pip install 'convt3d[clients]' && python scripts/network_layers.py   # after a change of tests/client_networks.py
python scripts/network_layers.py --check                             # exit code 1 where the file says otherwise
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from convt3d._arguments import triple
from convt3d._explain.recording import RecordedCall, record
from convt3d._layer import Layer
from convt3d.benchmark.layers import spec_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from client_networks import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client_networks import Client

ROOT = Path(__file__).resolve().parents[1]
FILE = Path("convt3d/benchmark/networks.json")


def layers_of(client: Client) -> list[dict[str, str]]:
    """An entry of each transposed convolution, in the order in which they are called; nothing is computed."""
    network, input = client.make().to("meta"), client.input(full=True).to("meta")
    calls = record(network, input)
    return [{"network": client.name, "module": call.name, "layer": spec_of(layer_of(call))} for call in calls]


def layer_of(call: RecordedCall) -> Layer:
    """The sizes of a call."""
    batch, in_channels, *input_size = call.input.shape
    _, out_channels_per_group, *kernel_size = call.weight.shape
    stride, padding, output_padding, groups, dilation = call.parameters
    return Layer(
        "",
        batch,
        in_channels,
        out_channels_per_group * groups,
        triple("input", input_size),
        triple("kernel", kernel_size),
        triple("stride", stride),
        triple("padding", padding),
        triple("output_padding", output_padding),
        triple("dilation", dilation),
        groups,
        call.bias is not None,
    )


def text() -> str:
    """Of the file: an entry a line."""
    lines = [json.dumps(one) for client in CLIENTS for one in layers_of(client)]
    return "[\n  " + ",\n  ".join(lines) + "\n]\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the file, or compare it; the exit code of the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    path, wanted = ROOT / FILE, text()
    if options.check:
        same = path.exists() and path.read_text(encoding="utf-8") == wanted
        print(f"{FILE}: {'as the networks have it' if same else 'the networks have other layers'}")
        return 0 if same else 1
    path.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

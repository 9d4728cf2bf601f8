"""Writes convt3d/benchmark/networks.json: the transposed layers of the networks of docs/clients.md, with their sizes.

pip install 'convt3d[clients]' && python scripts/network_layers.py   # after a change of tests/client_networks.py
python scripts/network_layers.py --check                             # exit code 1 where the file says otherwise
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from client_networks import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client_networks import Client

ROOT = Path(__file__).resolve().parents[1]
FILE = Path("convt3d/benchmark/networks.json")


def layers_of(client: Client) -> list[dict[str, Any]]:
    """An entry of each transposed convolution, in the order in which they are called; nothing is computed."""
    found: list[dict[str, Any]] = []
    network, input = client.make().eval().to("meta"), client.input(full=True).to("meta")

    def hook(name: str) -> Any:
        def of_call(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
            found.append(entry(client.name, name, module, arguments[0]))

        return of_call

    for name, module in network.named_modules():
        if isinstance(module, nn.ConvTranspose3d):
            module.register_forward_pre_hook(hook(name))
    with torch.no_grad():
        network(input)
    return found


def entry(network: str, name: str, module: nn.Module, input: Tensor) -> dict[str, Any]:
    """Of one layer and call: as those of layers.json, with the module's name for the layer's."""
    assert isinstance(module, nn.ConvTranspose3d)
    batch, channels, *size = input.shape
    return {
        "network": network,
        "layer": name,
        "N": batch,
        "C_in": channels,
        "input": size,
        "C_out": module.out_channels,
        "kernel": list(module.kernel_size),
        "stride": list(module.stride),
        "padding": list(module.padding),
        "output_padding": list(module.output_padding),
        "dilation": list(module.dilation),
        "groups": module.groups,
        "bias": module.bias is not None,
    }


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

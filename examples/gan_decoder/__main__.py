"""Convert a 3D GAN's decoder, folding its BatchNorms, script it, run it in a new process and keep the voxels."""

from __future__ import annotations

import argparse
import copy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

import convt3d
from convt3d._library import default_device

from .model import Decoder

if TYPE_CHECKING:
    from collections.abc import Sequence

# Occupancies lie in [0, 1]; where TF32 is on, each layer rounds to 11 bits, and folded weights round elsewhere.
TOLERANCE = 1e-2
TIMED_CALLS = {"cuda": 50, "cpu": 3}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the example; returns 1 if the outputs differ, else 0."""
    options = _parser().parse_args(arguments)
    device = torch.device(options.device or default_device())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"convt3d {convt3d.__version__}, torch {torch.__version__}, {name}")
    options.output.mkdir(parents=True, exist_ok=True)
    torch.backends.cudnn.benchmark = True

    torch.manual_seed(0)
    original = Decoder(channels=options.channels).to(device)
    if options.weights:
        original.load_state_dict(torch.load(options.weights, map_location=device, weights_only=True))
    else:
        print("random weights: what is generated are blobs; --weights loads trained ones")
        _initialize(original, device)
    original.eval()
    converted = copy.deepcopy(original)
    print(f"\n{convt3d.convert(converted, fold_batchnorm=True)}\n")

    latent = torch.randn(options.count, 200, device=device)
    script_file = options.output / "decoder.pt"
    with torch.no_grad():
        scripted = torch.jit.script(converted)
        scripted.save(str(script_file))
        expected = original(latent)
        ways = {
            "converted, BatchNorm and ReLU folded": converted(latent),
            "torch.jit.script": scripted(latent),
            "  saved, loaded in a new process": run_in_new_process(script_file, latent),
        }
        differences = {way: (output - expected).abs().max().item() for way, output in ways.items()}
        times = {way: _milliseconds(model, latent) for way, model in [("original", original), ("scripted", scripted)]}
    print(f"{'compared with the original':<40}{'max |difference|':>16}")
    for way, difference in differences.items():
        print(f"{way:<40}{difference:>16.1e}")
    print(f"\n{options.count} volumes: original {times['original']:.2f} ms, scripted {times['scripted']:.2f} ms")

    voxels = ways["  saved, loaded in a new process"][:, 0] > 0.5
    voxel_file = options.output / "voxels.npz"
    np.savez_compressed(voxel_file, voxels=voxels.cpu().numpy())
    filled = ", ".join(f"{share:.0%}" for share in voxels.float().mean((1, 2, 3)).tolist())
    print(f"{voxel_file}: {options.count} volumes of {voxels.shape[-1]}^3 voxels, of which {filled} are filled")
    failures = [way.strip() for way, difference in differences.items() if not difference <= TOLERANCE]
    for way in failures:
        print(f"FAILED: {way} differs by more than {TOLERANCE:g}", file=sys.stderr)
    return 1 if failures else 0


def run_in_new_process(script_file: Path, latent: Tensor) -> Tensor:
    """The output of the saved decoder in a new Python."""
    with tempfile.TemporaryDirectory() as folder:
        latent_file, voxel_file = Path(folder, "latent.pt"), Path(folder, "voxels.pt")
        torch.save(latent, latent_file)
        command = [sys.executable, "-m", f"{__package__}.run_saved"]
        command += [str(file.resolve()) for file in (script_file, latent_file, voxel_file)]
        subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
        output: Tensor = torch.load(voxel_file, weights_only=True)
    return output


@torch.no_grad()
def _initialize(decoder: nn.Module, device: torch.device) -> None:
    """BatchNorms with statistics and scales of their own: else folding them would change nothing."""
    for module in decoder.modules():
        if isinstance(module, nn.BatchNorm3d):
            module.momentum = None  # the mean over all batches, whatever their number
            module.weight.uniform_(0.5, 1.5)
            module.bias.normal_(0, 0.2)
    decoder.train()
    for _ in range(2):
        decoder(torch.randn(8, 200, device=device))


def _milliseconds(model: nn.Module, latent: Tensor) -> float:
    """Mean time of a call, in a loop that waits for the device at its end only."""
    calls = TIMED_CALLS[latent.device.type]
    for _ in range(3):
        model(latent)
    if latent.is_cuda:
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        model(latent)
    if latent.is_cuda:
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / calls


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gan_decoder", description=__doc__)
    parser.add_argument("--device", help="default: cuda where possible, else cpu")
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the script and the voxels")
    parser.add_argument("--count", type=int, default=4, help="volumes to generate (default: 4)")
    parser.add_argument("--channels", type=int, default=512, help="of the first volume (default: 512)")
    parser.add_argument("--weights", type=Path, help="state_dict of a trained decoder, saved with torch.save")
    return parser


if __name__ == "__main__":
    sys.exit(main())

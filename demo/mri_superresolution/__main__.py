"""Command line of the demo: train, compare with trilinear interpolation, draw, run the trained model in every way."""

import argparse
import sys
import time
from pathlib import Path

import torch

import convt3d
from convt3d._library import default_device

from .data import TRAINING_SLICES, load_volume, low_resolution, psnr, split, trilinear
from .deploy import TOLERANCE, compare_ways
from .figure import save_figure
from .model import SuperResolution
from .train import train

SHOWN_SLICE = 4  # of the held-out slices


def main() -> int:
    """Runs the demo; returns 1 if the network does not beat interpolation or a comparison fails, else 0."""
    parser = argparse.ArgumentParser(prog="mri_superresolution", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder for the picture and the models")
    parser.add_argument("--device", help="default: cuda where possible, else cpu")
    parser.add_argument("--steps", type=int, default=600, help="training steps")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    device = torch.device(arguments.device or default_device())
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"convt3d {convt3d.__version__}, torch {torch.__version__}, {name}")

    torch.manual_seed(0)
    volume = load_volume().to(device)
    training, held_out = split(volume)
    print(
        f"MRI volume of {volume.shape[2]} axial slices: 0-{TRAINING_SLICES - 1} train, "
        f"{TRAINING_SLICES}-{volume.shape[2] - 1} are held out. Low resolution: the mean of every 2 x 2 x 2 voxels."
    )

    model = SuperResolution().to(device)
    start = time.perf_counter()
    train(model, training, arguments.steps)
    print(f"trained for {time.perf_counter() - start:.0f} s")

    low = low_resolution(held_out)
    model.eval()
    with torch.no_grad():
        interpolated, learned = trilinear(low), model(low)
        training_low = low_resolution(training)
        rows = [
            ("held-out slices", psnr(interpolated, held_out), psnr(learned, held_out)),
            ("training slices", psnr(trilinear(training_low), training), psnr(model(training_low), training)),
        ]
    print(f"\n{'PSNR in dB':<18}{'trilinear':>10}{'learned':>10}{'gain':>8}")
    for label, before, after in rows:
        print(f"{label:<18}{before:>10.2f}{after:>10.2f}{after - before:>+8.2f}")
    _, trilinear_psnr, learned_psnr = rows[0]

    picture = arguments.output / "mri_superresolution.png"
    shown = SHOWN_SLICE
    nearest = low[0, 0, shown // 2].repeat_interleave(2, 0).repeat_interleave(2, 1)
    save_figure(
        picture,
        {
            "low resolution": nearest.cpu(),
            f"trilinear, {trilinear_psnr:.2f} dB": interpolated[0, 0, shown].cpu(),
            f"learned, {learned_psnr:.2f} dB": learned[0, 0, shown].cpu(),
            "true": held_out[0, 0, shown].cpu(),
        },
        f"axial slice {TRAINING_SLICES + shown}, one of the {held_out.shape[2]} that the network did not train on "
        "(PSNR over all of them); below: the framed part",
    )
    print(f"\npicture: {picture}")

    print(f"\n{'the trained model, compared with eager':<42}{'max |difference|':>16}")
    comparisons = compare_ways(model, low, arguments.output)
    for comparison in comparisons:
        verdict = "" if comparison.agrees else f"  more than {TOLERANCE:g}"
        print(f"{comparison.way:<42}{comparison.difference:>16.1e}{verdict}")

    failures = [f"{comparison.way.strip()} differs" for comparison in comparisons if not comparison.agrees]
    if not learned_psnr > trilinear_psnr:
        failures.append("the network does not beat trilinear interpolation on the held-out slices")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Train a MONAI DynUNet on phantoms, convert it, train it again from the same initial state, and compare."""

from __future__ import annotations

import argparse
import copy
import sys
from typing import TYPE_CHECKING

import torch

import convt3d
from convt3d._library import default_device

from .phantoms import phantoms
from .train import AUTOCAST, Settings, make_network, train, validate

if TYPE_CHECKING:
    from collections.abc import Sequence

# Rounding makes two trainings drift apart; how much Dice may differ by that.
DICE_TOLERANCE = 0.03


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the example; returns 1 if the converted network learns worse or cannot be reverted, else 0."""
    options = _parser().parse_args(arguments)
    device = torch.device(options.device or default_device())
    on_gpu = device.type == "cuda"
    side = options.side or (64 if on_gpu else 32)
    filters = options.filters or ([32, 64, 128, 256] if on_gpu else [8, 16, 32, 64])
    settings = Settings(
        device, options.precision or ("fp16" if on_gpu else "fp32"), options.steps or (400 if on_gpu else 150)
    )
    name = torch.cuda.get_device_name(device) if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    print(f"convt3d {convt3d.__version__}, torch {torch.__version__}, {name}")
    print(
        f"DynUNet with {'-'.join(map(str, filters))} channels, volumes of {side}^3, batches of {settings.batch}, "
        f"{settings.steps} steps, {settings.precision}{'' if settings.precision == 'fp32' else ' autocast'}"
    )
    torch.backends.cudnn.benchmark = True
    training, validation = phantoms(32, side, seed=1), phantoms(8, side, seed=2)

    torch.manual_seed(0)
    initial = make_network(filters)
    original, converted = (copy.deepcopy(initial).to(device) for _ in range(2))
    before = train(original, *training, settings, "unconverted")
    dice_before = validate(original, *validation, settings)
    report = convt3d.convert(converted)
    after = train(converted, *training, settings, "converted")
    dice_after = validate(converted, *validation, settings)
    convt3d.revert(converted)
    dice_reverted = validate(converted, *validation, settings)

    print(f"\n{report}\n")
    print(f"| {'':<32} | unconverted | converted |\n| {'-' * 32} | ----------: | --------: |")
    for label, first, second in [
        ("time per training step, median", f"{before.step_ms:.1f} ms", f"{after.step_ms:.1f} ms"),
        ("loss of the last step", f"{before.losses[-1]:.4f}", f"{after.losses[-1]:.4f}"),
        ("Dice on validation volumes", f"{dice_before:.4f}", f"{dice_after:.4f}"),
        ("Dice after convt3d.revert", "", f"{dice_reverted:.4f}"),
    ]:
        print(f"| {label:<32} | {first:>11} | {second:>9} |")
    differences = [abs(a - b) for a, b in zip(before.losses, after.losses, strict=True)]
    print(f"\ndifference of the losses: {differences[0]:.1e} in the first step, at most {max(differences):.1e}")
    if not on_gpu:
        print("On the CPU convt3d calls PyTorch's own implementation: the times differ by chance.")

    failures = []
    if not after.losses[-1] < after.losses[0]:
        failures.append("the converted network does not learn")
    if not dice_after >= dice_before - DICE_TOLERANCE:
        failures.append(f"the converted network's Dice is more than {DICE_TOLERANCE} lower")
    if not abs(dice_reverted - dice_after) <= DICE_TOLERANCE:
        failures.append("the reverted network predicts something else")
    for failure in failures:
        print(f"FAILED: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dynunet_segmentation", description=__doc__)
    parser.add_argument("--device", help="default: cuda where possible, else cpu")
    parser.add_argument("--precision", choices=["fp32", *AUTOCAST], help="default: fp16 on a GPU, fp32 on the CPU")
    parser.add_argument("--steps", type=int, help="training steps (default: 400 on a GPU, 150 on the CPU)")
    parser.add_argument("--side", type=int, help="voxels along each side of a volume (default: 64 on a GPU, else 32)")
    parser.add_argument("--filters", type=int, nargs="+", help="channels of each stage; each halves the volume")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The MRI volume, its low-resolution version and the error measure.

The volume is the one that nibabel carries for its own tests: an EPI scan of a head, 24 axial slices of 96 x 128 voxels,
about 2 mm on a side. There is no low-resolution scan of that head: the low-resolution volume is made from the true one.
"""

from importlib.resources import as_file, files

import nibabel
import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

TRAINING_SLICES = 16  # axial slices 0-15 train, 16-23 are held out; even, so that no low-resolution voxel mixes both


def load_volume() -> Tensor:
    """The first time frame as float32 [1, 1, depth, height, width] = [1, 1, 24, 96, 128], scaled to a maximum of 1."""
    with as_file(files("nibabel") / "tests" / "data" / "example4d.nii.gz") as path:
        frame = np.asarray(nibabel.load(path).dataobj, dtype=np.float32)[..., 0]  # (x, y, z)
    volume = torch.from_numpy(np.ascontiguousarray(frame.transpose(2, 1, 0)))
    return (volume / volume.max())[None, None]


def split(volume: Tensor) -> tuple[Tensor, Tensor]:
    """(training slices, held-out slices): two blocks that share no voxel, neither at full nor at low resolution."""
    return volume[:, :, :TRAINING_SLICES], volume[:, :, TRAINING_SLICES:]


def low_resolution(volume: Tensor) -> Tensor:
    """[N, C, D, H, W] -> [N, C, D/2, H/2, W/2]: the mean of every 2 x 2 x 2 voxels, which is its anti-aliasing."""
    return F.avg_pool3d(volume, kernel_size=2)


def trilinear(low: Tensor) -> Tensor:
    """[N, C, D, H, W] -> [N, C, 2D, 2H, 2W]: the interpolation to beat."""
    return F.interpolate(low, scale_factor=2.0, mode="trilinear", align_corners=False)


def psnr(estimate: Tensor, truth: Tensor) -> float:
    """Peak signal-to-noise ratio in dB for a peak of 1: -10 log10(mean squared error)."""
    return -10.0 * torch.log10(torch.mean((estimate.double() - truth.double()) ** 2)).item()


def random_crops(volume: Tensor, count: int, size: tuple[int, int, int], generator: torch.Generator) -> Tensor:
    """[count, 1, *size]: crops of [1, 1, D, H, W] at random places, each mirrored along a random set of axes."""
    crops = []
    for _ in range(count):
        crop = volume[0]  # [1, D, H, W]
        for axis, length in enumerate(size, start=1):
            start = int(torch.randint(crop.shape[axis] - length + 1, (), generator=generator))
            crop = crop.narrow(axis, start, length)
        mirrored = (torch.rand(3, generator=generator) < 0.5).tolist()
        crops.append(crop.flip([axis for axis in (1, 2, 3) if mirrored[axis - 1]]))
    return torch.stack(crops)

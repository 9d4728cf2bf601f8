"""The pieces of the demo: its data, its error measure, its network and a few steps of its training."""

import math
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("nibabel")
pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")

sys.path.insert(0, str(Path(__file__).parents[1] / "demo"))
from mri_superresolution import data, figure
from mri_superresolution.model import SuperResolution
from mri_superresolution.train import train


@pytest.fixture(scope="module")
def volume() -> torch.Tensor:
    return data.load_volume()


def test_volume(volume: torch.Tensor) -> None:
    assert volume.shape == (1, 1, 24, 96, 128)
    assert volume.dtype == torch.float32
    assert volume.min() == 0
    assert volume.max() == 1
    training, held_out = data.split(volume)
    assert training.shape[2] % 2 == 0  # else a low-resolution voxel would mix training and held-out slices
    assert torch.equal(torch.cat((training, held_out), dim=2), volume)


def test_low_resolution_is_the_mean_of_eight_voxels() -> None:
    high = torch.arange(2.0 * 4 * 6).reshape(1, 1, 2, 4, 6)
    low = data.low_resolution(high)
    assert low.shape == (1, 1, 1, 2, 3)
    # rows 2-3, columns 4-5 of both slices: (16 + 17 + 22 + 23 + 40 + 41 + 46 + 47) / 8
    assert low[0, 0, 0, 1, 2] == 31.5


def test_psnr() -> None:
    truth = torch.zeros(2, 3)
    estimate = torch.tensor([[0.1, 0.0, 0.0], [0.0, 0.0, 0.2]])
    # mean squared error (0.01 + 0.04) / 6 = 1/120
    assert data.psnr(estimate, truth) == pytest.approx(10 * math.log10(120), abs=1e-4)


def test_random_crops_are_mirrored_parts_of_the_volume() -> None:
    values = torch.arange(4.0 * 5 * 6).reshape(1, 1, 4, 5, 6)  # every voxel its own value
    crops = data.random_crops(values, 32, (2, 3, 4), torch.Generator().manual_seed(1))
    assert crops.shape == (32, 1, 2, 3, 4)
    steps = {(int(c[0, 1, 0, 0] - c[0, 0, 0, 0]), int(c[0, 0, 1, 0] - c[0, 0, 0, 0])) for c in crops}
    assert steps == {(30, 6), (30, -6), (-30, 6), (-30, -6)}
    assert {abs(int(c[0, 0, 0, 1] - c[0, 0, 0, 0])) for c in crops} == {1}
    again = data.random_crops(values, 32, (2, 3, 4), torch.Generator().manual_seed(1))
    assert torch.equal(crops, again)


def test_untrained_network_is_trilinear_interpolation() -> None:
    low = torch.rand(2, 1, 3, 4, 5, generator=torch.Generator().manual_seed(2))
    model = SuperResolution(channels=4)
    with torch.no_grad():
        torch.testing.assert_close(model(low), data.trilinear(low), rtol=1e-5, atol=1e-6)


def test_a_few_training_steps_beat_trilinear_on_the_training_slices(volume: torch.Tensor) -> None:
    torch.manual_seed(3)
    training, _ = data.split(volume)
    model = SuperResolution(channels=8)
    low = data.low_resolution(training)
    losses = train(model, training, steps=60)
    assert len(losses) == 60
    with torch.no_grad():
        learned = data.psnr(model(low), training)
    interpolated = data.psnr(data.trilinear(low), training)
    assert learned > interpolated + 0.1


def test_figure(volume: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    figure.save_figure(path, {"one": volume[0, 0, 0], "two": volume[0, 0, 1]}, "caption")
    assert path.read_bytes().startswith(b"\x89PNG")

"""The examples, in sizes for tests."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from reference import environment
from torch import nn

import convt3d

pytest.importorskip("numpy")
pytest.importorskip("tqdm", reason="the extra `examples` is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import aoti_cpp.__main__ as aoti_example
import gan_decoder.__main__ as gan_example
from aoti_cpp.model import Upsampler
from dynunet_segmentation.phantoms import CLASSES, INTENSITIES, NOISE, dice, phantoms
from gan_decoder.model import Decoder

pytestmark = pytest.mark.one_torch

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def convert_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A convt3d.convert after which the first transposed convolution computes something else."""
    convert = convt3d.convert

    def wrong(model: nn.Module, *, fold_batchnorm: bool = False) -> convt3d.Report:
        layer = next(module for module in model.modules() if isinstance(module, nn.ConvTranspose3d))
        with torch.no_grad():
            layer.weight.mul_(-1)
        return convert(model, fold_batchnorm=fold_batchnorm)

    monkeypatch.setattr(convt3d, "convert", wrong)


def test_phantoms_have_every_class_and_its_intensity() -> None:
    images, labels = phantoms(4, 16, seed=1)
    assert images.shape == (4, 1, 16, 16, 16)
    for tissue in range(CLASSES):
        voxels = images[:, 0][labels == tissue]
        assert voxels.mean().item() == pytest.approx(INTENSITIES[tissue], abs=5 * NOISE / len(voxels) ** 0.5)
    assert torch.equal(phantoms(4, 16, seed=1)[0], images)
    assert not torch.equal(phantoms(4, 16, seed=2)[1], labels)


def test_phantoms_are_ellipsoids() -> None:
    _, labels = phantoms(1, 32, seed=3)
    last = (labels[0] == CLASSES - 1).nonzero().double()  # nothing covers the last one, of the last tissue
    assert len(last) > 100
    # Halfway between two voxels of a convex body lies a voxel of it; a few pairs may be of two bodies.
    random = torch.Generator().manual_seed(1)
    pairs = last[torch.randint(len(last), (500, 2), generator=random)]
    near = (pairs[:, 0] - pairs[:, 1]).norm(dim=1) < 6
    middle = pairs[near].mean(1).round().long()
    inside = labels[0][tuple(middle.T)] == CLASSES - 1
    assert inside.double().mean().item() > 0.9


def test_dice() -> None:
    labels = torch.tensor([0, 1, 1, 2, 2, 3, 3, 3])
    assert dice(labels, labels) == 1
    # tissue 1: 2*1/(1+2); tissue 2: 2*2/(3+2); tissue 3: 0
    assert dice(torch.tensor([0, 1, 2, 2, 2, 0, 0, 0]), labels) == pytest.approx((2 / 3 + 4 / 5) / 3)


# In float32, as so short a training in 16 bits may end anywhere.
DYNUNET = ["--precision", "fp32", "--steps", "12", "--side", "16", "--filters", "4", "8", "12"]


def test_dynunet(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("monai", reason="the extra `examples` is not installed")
    import dynunet_segmentation.__main__ as example

    assert example.main([*DYNUNET, "--device", device]) == 0
    output = capsys.readouterr().out
    assert "2 converted" in output
    dices = re.findall(r"Dice [a-z0-9. ]+\|\s+([\d.]*) \|\s+([\d.]+) \|", output)
    assert [len(pair) for pair in dices] == [2, 2]
    if device == "cpu":  # the same implementation before and after
        assert dices[0][0] == dices[0][1] == dices[1][1]
        assert "0.0e+00 in the first step, at most 0.0e+00" in output


def test_dynunet_tells_a_network_that_cannot_be_reverted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("monai", reason="the extra `examples` is not installed")
    import dynunet_segmentation.__main__ as example

    def revert_wrongly(model: nn.Module) -> None:
        for parameter in model.parameters():
            parameter.data.zero_()

    monkeypatch.setattr(convt3d, "revert", revert_wrongly)
    assert example.main([*DYNUNET, "--device", "cpu"]) == 1
    assert "FAILED: the reverted network predicts something else" in capsys.readouterr().err


def test_gan_decoder_has_the_sizes_of_the_paper() -> None:
    with torch.device("meta"):
        decoder = Decoder()
        shapes = []
        for module in decoder.layers:
            if isinstance(module, nn.ConvTranspose3d):
                module.register_forward_hook(lambda _module, _inputs, output: shapes.append(tuple(output.shape[1:3])))
        assert decoder(torch.empty(2, 200)).shape == (2, 1, 64, 64, 64)
    assert shapes == [(512, 4), (256, 8), (128, 16), (64, 32), (1, 64)]


def _gan(folder: Path, device: str = "cpu") -> int:
    return gan_example.main(["--device", device, "--channels", "16", "--count", "2", "--output", str(folder)])


def test_gan_decoder(device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    assert _gan(tmp_path, device) == 0
    assert "4 folded, 1 converted" in capsys.readouterr().out
    voxels = np.load(tmp_path / "voxels.npz")["voxels"]
    assert voxels.shape == (2, 64, 64, 64)
    assert 0.05 < voxels.mean() < 0.95


def test_gan_decoder_tells_a_wrong_result(
    convert_wrongly: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _gan(tmp_path) == 1
    assert "FAILED: torch.jit.script differs" in capsys.readouterr().err


def _needs_compilers() -> None:
    for tool in ("cmake", "g++"):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")


@pytest.mark.slow
def test_aoti_package_run_from_cpp(device: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _needs_compilers()
    assert aoti_example.main(["--device", device, "--output", str(tmp_path)]) == 0
    output = capfd.readouterr().out
    assert "2 fused" in output
    assert f"output [3, 1, 32, 40, 48] on {device}" in output

    program = [tmp_path / "build" / "run_package", "libm.so.6", tmp_path / "upsampler.pt2", device]
    files = [tmp_path / "input.pt", tmp_path / "other.pt"]
    without_operators = subprocess.run([*program, *files], capture_output=True, text=True, check=False)
    assert without_operators.returncode != 0  # so it was convt3d's library that computed
    assert "convt3d" in without_operators.stderr
    program[1] = tmp_path / "absent.so"
    without_library = subprocess.run([*program, *files], capture_output=True, text=True, check=False)
    assert without_library.returncode == 1
    assert "cannot load convt3d's library" in without_library.stderr


def test_aoti_tells_a_wrong_result_and_a_missing_tool(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = functools.partial(aoti_example.main, ["--device", "cpu", "--output", str(tmp_path)])
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/g++" if name == "g++" else None)
    assert run() == 1
    assert "FAILED: cmake is needed" in capsys.readouterr().err

    def execute_wrongly(*command: object) -> None:
        torch.save(torch.zeros(3, 1, 32, 40, 48), str(command[-1]))

    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(aoti_example, "_execute", execute_wrongly)
    monkeypatch.setattr(aoti_example, "build_program", lambda folder: folder / "program")
    monkeypatch.setattr(aoti_example, "make_package", lambda model, example, folder, compiler: folder / "package")
    assert run() == 1
    assert "FAILED: the difference is more than" in capsys.readouterr().err


def test_aoti_model_is_plain_pytorch_before_conversion() -> None:
    assert {type(module).__module__.split(".")[0] for module in Upsampler().layers} == {"torch"}


@pytest.mark.parametrize("name", ["dynunet_segmentation", "gan_decoder", "aoti_cpp"])
def test_help_in_the_folder_of_the_examples(name: str) -> None:
    if name == "dynunet_segmentation":
        pytest.importorskip("monai", reason="the extra `examples` is not installed")
    command = [sys.executable, "-m", name, "--help"]
    result = subprocess.run(command, cwd=EXAMPLES, env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"usage: {name} " in result.stdout
    assert name in (EXAMPLES / "README.md").read_text()

"""The trained model scripted, compiled, exported, and loaded in a new process: is the output always the same?"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

# Voxels lie in [0, 1] and the network's own error is around 2e-2; compiled convolutions may round differently (TF32).
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """How far one way of running the model is from the eager one."""

    way: str
    difference: float  # largest absolute difference of a voxel

    @property
    def agrees(self) -> bool:
        """Whether the difference is within TOLERANCE."""
        return self.difference <= TOLERANCE  # False for NaN


def compare_ways(model: nn.Module, low: Tensor, folder: Path) -> list[Comparison]:
    """Runs `model` in every way on `low`; leaves model_scripted.pt and model_exported.pt2 in `folder`."""
    folder = folder.resolve()  # the new process starts elsewhere
    model.eval()
    script_file, export_file = folder / "model_scripted.pt", folder / "model_exported.pt2"
    comparisons = []
    with torch.no_grad():
        expected = model(low)

        def compare(way: str, output: Tensor) -> None:
            comparisons.append(Comparison(way, (output - expected).abs().max().item()))

        scripted = torch.jit.script(model)
        compare("torch.jit.script", scripted(low))
        scripted.save(str(script_file))
        compare("  saved, loaded in a new process", _run_in_new_process("script", script_file, low, folder))

        compare("torch.compile(fullgraph=True)", torch.compile(model, fullgraph=True)(low))

        exported = torch.export.export(model, (low,))
        compare("torch.export", exported.module()(low))
        torch.export.save(exported, export_file)
        compare("  saved, loaded in a new process", _run_in_new_process("export", export_file, low, folder))
    return comparisons


def _run_in_new_process(kind: str, model_file: Path, low: Tensor, folder: Path) -> Tensor:
    input_file, output_file = folder / "input.pt", folder / "output.pt"
    torch.save(low, input_file)
    module = f"{__package__}.run_saved"
    command = [sys.executable, "-m", module, kind, str(model_file), str(input_file), str(output_file)]
    subprocess.run(command, cwd=Path(__file__).parents[1], check=True)
    output: Tensor = torch.load(output_file, weights_only=True)
    input_file.unlink()
    output_file.unlink()
    return output

"""docs/troubleshooting.md quotes errors as they are, and its remedies help."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from reference import environment

import convt3d

pytestmark = pytest.mark.one_torch

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
EXAMPLE = torch.ones(1, 2, 3, 4, 5)


def _model() -> torch.nn.Sequential:
    model = torch.nn.Sequential(torch.nn.ConvTranspose3d(2, 3, (2, 3, 1)), torch.nn.BatchNorm3d(3)).eval()
    convt3d.convert(model)
    return model


def _script(path: Path) -> None:
    torch.jit.script(_model()).save(str(path))


def _export(path: Path) -> None:
    with torch.no_grad():
        torch.export.save(torch.export.export(_model(), (EXAMPLE,)), path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save", "load", "quoted"),
    [
        (_script, "torch.jit.load({path!r})", "Unknown builtin op: convt3d::conv_transpose3d"),
        (_export, "torch.export.load({path!r})", "We ran into an error when deserializing the saved file"),
        (None, "torch.ops.convt3d.conv_transpose3d", "'_OpNamespace' 'convt3d' object has no attribute"),
    ],
    ids=["script", "export", "operator"],
)
def test_import_is_missing(save: object, load: str, quoted: str, tmp_path: Path) -> None:
    assert quoted in TEXT
    path = tmp_path / "model.pt2"
    if callable(save):
        save(path)
    load = load.format(path=str(path))
    found = f"import sys; sys.path.insert(0, {str(Path(convt3d.__file__).parents[1])!r}); "
    for before, works in ((f"{found}import torch", False), (f"{found}import torch, convt3d", True)):
        result = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"{before}\n{load}"],
            capture_output=True,
            text=True,
            env=environment(),
            cwd=tmp_path,
            check=False,
        )
        assert (result.returncode == 0) == works, result.stderr
        assert (quoted in result.stderr) == (not works)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("onnxscript") is None, reason="torch.onnx.export needs onnxscript")
def test_onnx_needs_revert(tmp_path: Path) -> None:
    quoted = "No ONNX function found for <OpOverload(op='convt3d.conv_transpose3d', overload='default')>"
    assert quoted in TEXT
    model = _model()
    with pytest.raises(Exception, match=re.escape(quoted)):
        torch.onnx.export(model, (EXAMPLE,), tmp_path / "model.onnx", dynamo=True)
    convt3d.revert(model)
    torch.onnx.export(model, (EXAMPLE,), tmp_path / "model.onnx", dynamo=True)
    assert (tmp_path / "model.onnx").exists()

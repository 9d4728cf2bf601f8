"""python -m convt3d.collect_env: what an issue report needs, above all where something is broken."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import convt3d
from convt3d import _library, collect_env

PACKAGE = Path(convt3d.__file__).resolve().parent


def _run(folder: Path, module: str = "convt3d.collect_env") -> subprocess.CompletedProcess[str]:
    """Run it with the package in `folder`, which is the working directory."""
    command = [sys.executable, "-m", module]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def _facts(output: str) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in output.splitlines())}


def _copy_of_package(folder: Path) -> Path:
    shutil.copytree(PACKAGE, folder / "convt3d", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return folder / "convt3d" / _library.LIBRARY_PATH.name


def test_all_is_well() -> None:
    result = _run(PACKAGE.parent)
    assert result.returncode == 0, result.stdout + result.stderr
    facts = _facts(result.stdout)
    info = _library.build_info()
    assert facts["convt3d"] == convt3d.__version__
    assert facts["library"] == str(_library.LIBRARY_PATH)
    assert facts["torch"].startswith(torch.__version__)
    assert facts["Python"].startswith(platform.python_version())
    assert facts["architectures"] == (" ".join(info.architectures) or "none (CPU only)")
    assert facts["self-test, cpu"].startswith("passed")
    assert "FAILED" not in facts
    assert ("GPU" in facts) != torch.cuda.is_available()


@pytest.mark.cuda
def test_on_a_gpu() -> None:
    facts = _facts(_run(PACKAGE.parent).stdout)
    assert torch.cuda.get_device_name(0) in facts["GPU 0"]
    assert facts["self-test, cuda, float32"].startswith("passed")
    assert facts["self-test, cuda, float16"].startswith("passed")


@pytest.mark.parametrize(
    ("content", "error"),
    [(None, "the compiled library .* is missing"), (b"not a library", "cannot load .* with torch")],
)
def test_broken_library(tmp_path: Path, content: bytes | None, error: str) -> None:
    """The facts before the failure are there; other imports fail as ever."""
    library = _copy_of_package(tmp_path)
    if content is not None:
        library.write_bytes(content)
    result = _run(tmp_path)
    assert result.returncode == 1
    facts = _facts(result.stdout)
    assert facts["torch"].startswith(torch.__version__)
    assert facts["library"] == str(library.resolve())
    assert re.search(error, facts["FAILED"])
    assert "self-test, cpu" not in facts
    assert "ImportError" in _run(tmp_path, "convt3d.benchmark").stderr


def _without_bias(input: Tensor, weight: Tensor, bias: Tensor, **parameters: object) -> Tensor:
    return F.conv_transpose3d(input, weight, None, **parameters) + 0 * bias.sum()  # type: ignore[arg-type]


def _detached_weight(input: Tensor, weight: Tensor, bias: Tensor, **parameters: object) -> Tensor:
    return F.conv_transpose3d(input, weight.detach(), bias, **parameters) + 0 * weight.sum()  # type: ignore[arg-type]


def _nan(input: Tensor, weight: Tensor, bias: Tensor, **parameters: object) -> Tensor:
    return F.conv_transpose3d(input, weight, bias, **parameters) * float("nan")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "what"), [(_without_bias, "output"), (_detached_weight, "gradient of weight"), (_nan, "output")]
)
def test_wrong_results(
    wrong: object, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convt3d, "conv_transpose3d", wrong)
    assert collect_env.main() == 1
    assert _facts(capsys.readouterr().out)["FAILED"].startswith(
        f"RuntimeError: {what} on cpu in torch.float32 is wrong"
    )


def test_gpus_without_code_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 5))
    for cuda, words in (
        (None, "for the CPU only"),
        ("13.0", "compute capability 7.5; this build of convt3d has kernels for sm_80, which do not run there"),
    ):
        info = _library.BuildInfo("0", "2.11", cuda, ("sm_80",))
        monkeypatch.setattr(_library, "build_info", lambda info=info: info)
        ((name, warning),) = collect_env._warnings()
        assert name == "warning"
        assert words in warning


def test_gpu_without_code_is_named_where_its_self_test_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(collect_env, "_warnings", lambda: iter([("warning", "GPU 0 has no code")]))
    monkeypatch.setattr(collect_env, "_error_on", fails)
    assert collect_env.main() == 1
    facts = _facts(capsys.readouterr().out)
    assert facts["warning"] == "GPU 0 has no code"
    assert facts["FAILED"] == "RuntimeError: no kernel image"

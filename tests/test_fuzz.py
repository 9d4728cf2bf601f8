"""scripts/fuzz.py as a command, and that it finds and repeats what is wrong."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from cases import Case
from checking import WrongResultError, check
from drawing import changed, fresh

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable

FUZZ = Path(__file__).resolve().parents[1] / "scripts" / "fuzz.py"
CASE = "op=forward type=fp32 layout=NDHWC n=2 cin=3 cout=4 size=2,3,4 kernel=2,3,1 stride=1,2,1 first=slice_w"

pytestmark = pytest.mark.skipif(not FUZZ.exists(), reason="scripts/ is not part of the source distribution")


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, in this process: its exit code."""
    spec = importlib.util.spec_from_file_location("fuzz", FUZZ)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(module)

    def call(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["fuzz.py", "--device", "cpu", *arguments])
        code: int = module.main()
        return code

    return call


def test_problems_are_drawn_again_by_their_seed(
    fuzz: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = []
    for name in ("first", "second"):
        log = tmp_path / name
        assert fuzz("--problems", "6", "--seed", "7", "--only", "op=forward,type=bf16", "--log", str(log)) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("6 problems (")
        logs.append(log.read_text())
    assert logs[0] == logs[1]
    assert logs[0].count("'op=forward type=bf16 ") == 6


def test_one_problem_is_repeated(fuzz: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz("--problem", CASE, "--values", "3") == 0
    assert capsys.readouterr().out.startswith("right: ")


def test_plans_are_those_of_the_gpu_that_is_imposed(
    fuzz: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convt3d, "conv_transpose3d", lambda *tensors, **parameters: torch.zeros(2, 4, 2, 7, 4))
    for arguments, engine in (((), "halo_wgmma"), (("--plans-of", "Tesla T4"), "simt")):
        assert fuzz("--problem", CASE, *arguments) == 1
        *_, again, verdict = capsys.readouterr().out.splitlines()
        assert f"'engine': '{engine}'" in verdict
        assert (" --plans-of 'Tesla T4' " in again) == (engine == "simt")
    assert fuzz("--problems", "2", "--engine", "simt", "--only", "op=bias_grad", "--plans-of", "Tesla T4") == 0
    assert "plans for NVIDIA T4 (imposed)" in capsys.readouterr().out


def test_a_failure_says_how_to_repeat_it(
    fuzz: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(convt3d, "conv_transpose3d", lambda *tensors, **parameters: torch.zeros(2, 4, 2, 7, 4))
    assert fuzz("--problem", CASE, "--values", "3") == 1
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith("WRONG ")
    assert second.strip() == f"scripts/fuzz.py --device cpu --values 3 --problem '{Case.parse(CASE)}'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--problem", "op=forward type=fp16"], "layout, n, cin, cout, size, kernel must be given"),
        (["--problem", CASE.replace("cin=3", "cin=3 groups=2")], "cin and cout must be divisible by groups"),
        (["--plans-of", "GPU"], "--plans-of: convt3d: name must be that of one of these GPUs"),
        (["--only", "speed=1"], "--only knows the fields op, type"),
    ],
)
def test_bad_arguments(
    fuzz: Callable[..., int], arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        fuzz(*arguments)
    assert message in capsys.readouterr().err


def test_cases_are_drawn_within_their_limits() -> None:
    rng = random.Random(3)
    drawn = [fresh(rng) for _ in range(200)]
    drawn += [changed(rng, case) for case in drawn]
    assert not [str(case) for case in drawn if case.invalid()]
    for name in Case.__dataclass_fields__:
        assert len({getattr(case, name) for case in drawn}) > 1, name


def test_a_result_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = convt3d.conv_transpose3d
    calls = []

    def drifting(*tensors: object, **parameters: object) -> object:
        calls.append(1)
        return right(*tensors, **parameters) * (1 + 1e-7 * len(calls))  # type: ignore[arg-type]

    monkeypatch.setattr(convt3d, "conv_transpose3d", drifting)
    with pytest.raises(WrongResultError, match="differ in a second run"):
        check(Case.parse(CASE), "cpu")

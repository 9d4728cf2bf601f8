"""Plans of another GPU, imposed on the one at hand: `convt3d._explain.plan.plans_of` and pytest's `--plans-of`."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from reference import Problem, forward

import convt3d
from convt3d._explain import plan
from convt3d._explain.asking import only_engine
from convt3d._explain.plan import ENGINES, imposed_on, known_device, named_device, plans_of

RTX_4090 = "NVIDIA GeForce RTX 4090"
SHARED_BYTES = 99 * 1024  # that a block of it can have
TESTS = Path(__file__).resolve().parent


def _explained(operator: str = "forward") -> convt3d.Explanation:
    input = torch.empty(2, 64, 16, 20, 24, dtype=torch.float16, device="meta")
    return convt3d.explain(input, input.new_empty(64, 32, 3, 3, 3), stride=2, operator=operator)


def test_explain_shows_the_imposed_plans() -> None:
    own = _explained()
    assert (own.device, own.engine) == ("NVIDIA H200 (assumed)", "halo_wgmma")
    with plans_of(RTX_4090):
        for operator in ("forward", "input_grad", "weight_grad"):
            explained = _explained(operator)
            assert (explained.device, explained.engine, explained.measured) == (f"{RTX_4090} (imposed)", "mma", False)
            given = convt3d.explain(
                torch.empty(2, 64, 16, 20, 24, dtype=torch.float16, device="meta"),
                torch.empty(64, 32, 3, 3, 3, dtype=torch.float16, device="meta"),
                stride=2,
                operator=operator,
                device_capability=(8, 9),
            )
            assert given.plan == explained.plan
        shared = re.search(r" shared=(\d+)", _explained().plan)
        assert shared is not None
        assert int(shared[1]) <= SHARED_BYTES
    assert _explained() == own


def test_what_was_imposed_before_comes_back() -> None:
    def fails() -> None:
        with plans_of("NVIDIA A40"):
            assert _explained().device == "NVIDIA A40 (imposed)"
            raise KeyError

    with plans_of(RTX_4090):
        with pytest.raises(KeyError):
            fails()
        assert _explained().device == f"{RTX_4090} (imposed)"
    assert _explained().device == "NVIDIA H200 (assumed)"


def test_a_name_that_the_table_lacks() -> None:
    message = r"name must be that of one of these GPUs: GeForce RTX 2080 Ti, .*RTX 5090; got 'NVIDIA GeForce RTX 9999'"
    with pytest.raises(ValueError, match=message), plans_of("NVIDIA GeForce RTX 9999"):
        pass
    assert _explained().device == "NVIDIA H200 (assumed)"


def test_engines_are_those_that_both_have() -> None:
    at_hand = known_device((9, 0))
    engines = {
        name: [engine for engine in ENGINES if imposed_on(at_hand, named_device(name)).has(engine)]
        for name in (RTX_4090, "Tesla T4", "NVIDIA H100 PCIe")
    }
    assert engines == {
        RTX_4090: ["simt", "depthwise", "mma", "matmul"],
        "Tesla T4": ["simt", "depthwise"],
        "NVIDIA H100 PCIe": list(ENGINES),
    }
    without_hopper = replace(at_hand, traits=(*at_hand.traits[:-1], known_device((8, 0)).traits[-1]))
    assert not imposed_on(without_hopper, named_device("NVIDIA H100 PCIe")).has("halo_wgmma")
    imposed = imposed_on(at_hand, named_device(RTX_4090))
    assert imposed.traits == named_device(RTX_4090).traits
    assert imposed.name == "H200 (plans of GeForce RTX 4090)"


def test_plans_that_need_more_memory_are_refused() -> None:
    message = "plans of H200 do not run on GeForce RTX 4090: a block has 232448 bytes .*101376"
    with pytest.raises(ValueError, match=message):
        imposed_on(named_device(RTX_4090), known_device((9, 0)))


def test_the_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a build with kernels, whose calls plan by themselves."""
    told: list[tuple[float, ...] | None] = []
    library = ctypes.CDLL(str(plan.LIBRARY_PATH))

    class Library:
        def __getattr__(self, name: str) -> Any:
            return getattr(library, name)

        def convt3d_impose_device(self, numbers: Any) -> None:
            told.append(None if numbers is None else tuple(numbers))

    monkeypatch.setattr(plan, "_library", Library)
    monkeypatch.setattr(plan, "build_info", lambda: SimpleNamespace(cuda="13.0"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with plans_of(RTX_4090):
        assert told == [named_device(RTX_4090).traits]
    assert told[1:] == [None]


def test_nothing_is_imposed_that_the_gpu_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(plan, "_device_at_hand", lambda device: named_device("Tesla T4"))
    message = r"plans of GeForce RTX 4090 do not run on T4: .* 65536 of the device at hand"
    with pytest.raises(ValueError, match=message), plans_of(RTX_4090):
        raise AssertionError
    assert plan._imposed is None


def _pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
    return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_pytest_is_told_by_an_option() -> None:
    run = _pytest("--plans-of", "GPU", "test_explain.py")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--plans-of: convt3d: name must be that of one of these GPUs" in run.stderr
    run = _pytest("--plans-of", RTX_4090, "-v", "-k", "traits_are_the_devices", "test_explain.py")
    assert run.returncode == pytest.ExitCode.OK
    assert "GPU tests run the plans of GeForce RTX 4090" in run.stdout
    assert "1 GPU tests SKIPPED: needs the plans of the GPU at hand" in run.stdout


@pytest.mark.cuda
def test_calls_run_the_imposed_plans() -> None:
    """A T4 has no engine on tensor cores and the least memory; results are right, and later calls are as before."""
    problem = Problem("", 2, 16, 24, (5, 6, 17), (3, 2, 4), (2, 1, 2), (1, 0, 1), groups=2)
    operands = problem.tensors(torch.float16, "cuda", integers=True)
    expected = forward(problem, *operands).half()
    before = convt3d.explain(*operands, **problem.parameters)
    with plans_of("Tesla T4"):
        explained = convt3d.explain(*operands, **problem.parameters)
        assert explained.device.endswith(" (plans of T4)")
        assert explained.engine == "simt"
        assert torch.equal(convt3d.conv_transpose3d(*operands, **problem.parameters), expected)
        for engine in ("mma", "halo_wgmma"):
            with only_engine(engine), pytest.raises((RuntimeError, ValueError), match=f"{engine} has no plan"):
                convt3d.conv_transpose3d(*operands, **problem.parameters)
    assert convt3d.explain(*operands, **problem.parameters) == before
    with only_engine(before.engine):
        assert torch.equal(convt3d.conv_transpose3d(*operands, **problem.parameters), expected)

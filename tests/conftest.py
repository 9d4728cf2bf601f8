"""What all tests share: devices, seeds, caches of their own, and how the skipped GPU tests are counted."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import convt3d
from convt3d import _library

settings.register_profile(
    "convt3d",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("convt3d")

_NEEDS_CUDA = "needs a CUDA device"
_NEEDS_KERNELS = ("needs a build of convt3d with CUDA kernels", "needs cuobjdump", "needs g++")
_WORKER = "PYTEST_XDIST_WORKER"  # set by pytest-xdist in its worker processes


def _why_no_cuda() -> str | None:
    if not torch.cuda.is_available():
        return _NEEDS_CUDA
    if _library.build_info().cuda is None:
        return f"{_NEEDS_CUDA} and a build of convt3d with CUDA kernels"
    return None


def pytest_configure(config: pytest.Config) -> None:
    """Compiled code must not outlive a change of the kernels' registrations; the workers of a run share one cache."""
    if _WORKER in os.environ:
        torch.set_num_threads(1)
        return
    cache = Path(tempfile.mkdtemp(prefix="convt3d-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _why_no_cuda()
    if reason is not None:
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = sum(_NEEDS_CUDA in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if skipped:
        terminalreporter.section("GPU tests")
        terminalreporter.write_line(f"{skipped} GPU tests SKIPPED: {_why_no_cuda()}", yellow=True, bold=True)
    for report in terminalreporter.stats.get("skipped", []):
        if any(need in str(report.longrepr) for need in _NEEDS_KERNELS):
            terminalreporter.write_line(f"1 test of the kernels SKIPPED: {report.nodeid}", yellow=True, bold=True)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    """Every device that the operators have kernels for."""
    device: str = request.param
    return device


@pytest.fixture(autouse=True)
def reproducible() -> Iterator[None]:
    """The same random numbers in every test, and PyTorch's own convolutions in full float32."""
    torch.manual_seed(0)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """No code compiled by an earlier test."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(params=["conv_transpose3d", "conv_transpose3d_relu"])
def operator_name(request: pytest.FixtureRequest) -> str:
    """Both forward operators."""
    name: str = request.param
    assert hasattr(convt3d, name)
    return name

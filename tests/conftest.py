"""What all tests share: devices, seeds, caches of their own, and how the skipped GPU tests are counted."""

import contextlib
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
from convt3d._explain.plan import named_device, plans_of

settings.register_profile(
    "convt3d",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("convt3d")

_NEEDS_CUDA = "needs a CUDA device"
_NEEDS_OWN_PLANS = "needs the plans of the GPU at hand"
_NEEDS_KERNELS = ("needs a build of convt3d with CUDA kernels", "needs cuobjdump", "needs g++")
_PLANS_OF = "--plans-of"
_WORKER = "PYTEST_XDIST_WORKER"  # set by pytest-xdist in its worker processes


def _why_no_cuda() -> str | None:
    if not torch.cuda.is_available():
        return _NEEDS_CUDA
    if _library.build_info().cuda is None:
        return f"{_NEEDS_CUDA} and a build of convt3d with CUDA kernels"
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(_PLANS_OF, metavar="NAME", help='GPU tests run the plans of this GPU: "NVIDIA GeForce RTX 4090"')


def pytest_report_header(config: pytest.Config) -> str | None:
    name = config.getoption(_PLANS_OF)
    return None if name is None else f"convt3d: GPU tests run the plans of {named_device(name).name}"


def pytest_configure(config: pytest.Config) -> None:
    """Compiled code must not outlive a change of the kernels' registrations; the workers of a run share one cache."""
    name = config.getoption(_PLANS_OF)
    if name is not None:
        try:
            named_device(name)
        except ValueError as error:
            raise pytest.UsageError(f"{_PLANS_OF}: {error}") from error
    if _WORKER in os.environ:
        torch.set_num_threads(1)
        return
    cache = Path(tempfile.mkdtemp(prefix="convt3d-tests-"))
    config.add_cleanup(lambda: shutil.rmtree(cache, ignore_errors=True))
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache / "inductor")
    os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption(_PLANS_OF) is not None:
        for item in items:
            if item.get_closest_marker("own_plans"):
                item.add_marker(pytest.mark.skip(reason=_NEEDS_OWN_PLANS))
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
    others = sum(_NEEDS_OWN_PLANS in str(report.longrepr) for report in terminalreporter.stats.get("skipped", []))
    if others:
        terminalreporter.write_line(f"{others} GPU tests SKIPPED: {_NEEDS_OWN_PLANS}", yellow=True, bold=True)
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


@pytest.fixture(autouse=True)
def imposed_plans(request: pytest.FixtureRequest) -> Iterator[None]:
    """Those of `--plans-of`, in every test on a GPU."""
    name = request.config.getoption(_PLANS_OF)
    on_gpu = request.node.get_closest_marker("cuda") is not None
    with plans_of(name) if name is not None and on_gpu else contextlib.nullcontext():
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

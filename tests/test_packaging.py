"""The installed package: its metadata, what its library needs from the system, and how it loads or refuses to."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

import convt3d
from convt3d import _library

PACKAGE = Path(convt3d.__file__).resolve().parent


def distribution() -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution("convt3d")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("convt3d is on the path but not installed")


def readelf(*options: str) -> str:
    if shutil.which("readelf") is None:
        pytest.skip("readelf (binutils) is not installed")
    command = ["readelf", "--wide", *options, str(_library.LIBRARY_PATH)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbols(*, defined: bool) -> list[tuple[str, str]]:
    """(binding, name without version) of the library's dynamic symbols."""
    rows = [line.split() for line in readelf("--dyn-syms").splitlines()]
    entries = [(row[4], row[6], row[7].partition("@")[0]) for row in rows if len(row) >= 8 and row[0].endswith(":")]
    return [(binding, name) for binding, section, name in entries if (section != "UND") == defined]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a new process that imports the same convt3d."""
    prelude = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
    command = [sys.executable, "-c", prelude + textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_version_is_the_same_in_package_metadata_and_library() -> None:
    assert distribution().version == convt3d.__version__ == _library.build_info().version


def test_only_torch_is_required() -> None:
    required = [line for line in distribution().requires or [] if "extra ==" not in line]
    assert required == ["torch>=2.10"]


def test_wheel_is_for_every_python_from_3_10() -> None:
    wheel = distribution().read_text("WHEEL") or ""
    if "Tag: " not in wheel:
        pytest.skip("not installed from a wheel")
    assert "Tag: cp310-abi3-" in wheel
    assert "Root-Is-Purelib: false" in wheel


@pytest.mark.parametrize("name", ["py.typed", "benchmark/layers.json", "benchmark/networks.json"])
def test_data_files_are_part_of_the_package(name: str) -> None:
    assert (PACKAGE / name).is_file()


def test_library_is_the_only_compiled_file() -> None:
    assert [path.name for path in PACKAGE.rglob("*.so*")] == ["_C.abi3.so"]


def test_library_needs_only_torch_and_the_system() -> None:
    needed = {line.split("[")[1].rstrip("]") for line in readelf("--dynamic").splitlines() if "(NEEDED)" in line}
    system = {
        "libc",
        "libm",
        "libdl",
        "librt",
        "libpthread",
        "libstdc++",
        "libgcc_s",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }
    assert {name for name in needed if name.split(".so")[0] not in system} == {"libtorch.so", "libtorch_cpu.so"}


def test_library_carries_no_path_to_search() -> None:
    assert "(RPATH)" not in readelf("--dynamic")
    assert "(RUNPATH)" not in readelf("--dynamic")


def test_library_uses_no_python_symbol() -> None:
    python = [name for _, name in symbols(defined=False) if name.lstrip("_").startswith("Py")]
    assert python == []


def test_library_uses_torch_through_its_stable_interface() -> None:
    # Names mangled as C++ belong to the unstable interface: only weak references, absent at will, are allowed to them.
    prefixes = ("_ZN2at", "_ZNK2at", "_ZN3c10", "_ZNK3c10", "_ZN5torch", "_ZNK5torch", "_ZN6caffe2")
    strong = [name for binding, name in symbols(defined=False) if binding != "WEAK" and name.startswith(prefixes)]
    assert strong == []
    assert any(name.startswith("aoti_torch_") for _, name in symbols(defined=False))


def test_library_exports_nothing_that_could_clash() -> None:
    exported = [name for _, name in symbols(defined=True)]
    own = [name for name in exported if any(part in name for part in ("convt3d", "torch", "c10", "cuda"))]
    expected = [
        "convt3d_build_info",
        "convt3d_candidates",
        "convt3d_explain",
        "convt3d_image_for",
        "convt3d_imposed_device",
        "convt3d_known_device",
        "convt3d_named_device",
        "convt3d_plan_traits",
    ]
    if _library.build_info().cuda:
        expected += ["convt3d_ask_engine", "convt3d_ask_norm_way"]
        expected += ["convt3d_current_device", "convt3d_impose_device"]
    assert sorted(own) == sorted(expected)


def test_build_info_names_its_build() -> None:
    info = _library.build_info()
    assert tuple(map(int, info.torch.split(".")[:2])) >= (2, 10)
    assert (info.cuda is None) == (info.architectures == ())
    assert all(name.startswith(("sm_", "compute_")) for name in info.architectures)


def test_import_is_silent_and_leaves_cuda_alone() -> None:
    result = run_python("import convt3d, torch; assert not torch.cuda.is_initialized()")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_loading_again_changes_nothing() -> None:
    before = torch.ops.convt3d.conv_transpose3d
    _library.load()
    assert torch.ops.convt3d.conv_transpose3d is before


def test_second_copy_of_the_library_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "convt3d"
    shutil.copytree(PACKAGE, copy)
    result = run_python(f"""
        import convt3d, torch
        for name in [name for name in sys.modules if name.split(".")[0] == "convt3d"]:
            del sys.modules[name]
        sys.path.insert(0, {str(tmp_path)!r})
        try:
            import convt3d
        except ImportError as error:
            print(error)
        print(tuple(torch.ops.convt3d.conv_transpose3d(torch.ones(1, 2, 3, 3, 3), torch.ones(2, 4, 2, 2, 2)).shape))
    """)
    assert result.returncode == 0, result.stderr
    message, shape = result.stdout.splitlines()
    assert f"cannot load {copy / '_C.abi3.so'}" in message
    assert f"already registered by another copy of the library ({_library.LIBRARY_PATH})" in message
    assert shape == "(1, 4, 4, 4, 4)"


def test_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = tmp_path / "_C.abi3.so"
    monkeypatch.setattr(_library, "LIBRARY_PATH", absent)
    with pytest.raises(ImportError, match=r"the compiled library .* is missing; install a convt3d wheel") as caught:
        _library.load()
    assert str(absent) in str(caught.value)


def test_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    copy = tmp_path / "convt3d"
    shutil.copytree(PACKAGE, copy)
    (copy / "_C.abi3.so").write_bytes(b"no library")
    result = run_python(f"""
        sys.path.insert(0, {str(tmp_path)!r})
        try:
            import convt3d
        except ImportError as error:
            print(error)
    """)
    assert f"convt3d: cannot load {copy / '_C.abi3.so'} with torch {torch.__version__}" in result.stdout


def test_old_torch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.9.1+cu128")
    with pytest.raises(ImportError, match=r"torch must be 2\.10 or later, got 2\.9\.1\+cu128"):
        _library.load()


@pytest.mark.parametrize(
    ("gpu", "cuda", "architecture", "warning"),
    [
        (False, "13.0", "sm_80", ""),
        (True, "13.0", "sm_80", ""),
        (True, "13.0", "sm_90a", r"compute capability 8\.6, but this build of convt3d has kernels for sm_90a, which"),
        (True, None, "", r"compute capability 8\.6, but this build of convt3d is for the CPU only"),
    ],
)
def test_default_device(
    gpu: bool, cuda: str | None, architecture: str, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 6))
    monkeypatch.setattr(_library, "build_info", lambda: _library.BuildInfo("0", "0", cuda, (architecture,)))
    with pytest.warns(UserWarning, match=warning) if warning else nullcontext():
        assert _library.default_device() == ("cuda" if gpu and not warning else "cpu")


RELEASE = "sm_75 sm_80 sm_86 sm_90a sm_100 sm_120 compute_90"


@pytest.mark.parametrize(
    ("capability", "architectures", "image"),
    [
        # Machine code: later minor revisions of its major one.
        ((8, 0), RELEASE, "sm_80"),
        ((8, 6), "sm_80", "sm_80"),
        ((8, 9), "sm_90a sm_86 sm_80", "sm_86"),
        ((8, 9), RELEASE, "sm_86"),
        ((8, 0), "sm_86 sm_90a", None),
        ((7, 0), RELEASE, None),
        ((10, 3), RELEASE, "sm_100"),
        ((12, 1), RELEASE, "sm_120"),
        # PTX: every later GPU, and only where there is no machine code.
        ((9, 0), "compute_80 sm_80", "compute_80"),
        ((8, 0), "compute_80 sm_80", "sm_80"),
        ((13, 0), RELEASE, "compute_90"),
        ((10, 0), "compute_120", None),
        ((7, 5), "sm_80 compute_80", None),
        # An `a` holds for its own capability alone, an `f` for its major one.
        ((9, 0), "sm_80 sm_90 sm_90a", "sm_90a"),
        ((10, 0), "sm_90a", None),
        ((10, 3), "sm_100a compute_100a", None),
        ((10, 3), "sm_100f", "sm_100f"),
        ((12, 0), "compute_100f", None),
        # Tegra's machine code and that of other GPUs are apart.
        ((8, 7), RELEASE, None),
        ((8, 7), "sm_80 sm_86 sm_87", "sm_87"),
        ((8, 7), "sm_86 compute_86", "compute_86"),
        ((8, 9), "sm_87", None),
        ((7, 2), "sm_70", None),
        ((10, 1), RELEASE, "compute_90"),
        ((11, 0), RELEASE, "compute_90"),
        ((11, 0), "sm_110", "sm_110"),
    ],
)
def test_architecture_that_a_gpu_runs(capability: tuple[int, int], architectures: str, image: str | None) -> None:
    assert _library.image_for(capability, architectures.split()) == image

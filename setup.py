"""Builds convt3d/_C.abi3.so; everything else about the package is in pyproject.toml.

For development, in the source tree (PYTHONPATH=<checkout>), rebuilding only what changed:

    CONVT3D_CUDA_ARCHS=90a python setup.py build_ext --inplace

or as an editable installation or a wheel, with the torch of the environment (see pyproject.toml, [build-system]):

    pip install --no-build-isolation --no-deps -e .
    pip wheel --no-build-isolation --no-deps -w dist .

Environment variables:
    CONVT3D_CUDA_ARCHS  architectures instead of the release's, a semicolon list such as "80;90a"; "120+PTX" adds PTX
    CONVT3D_CPU_ONLY    1: no CUDA kernels, even where they could be built
    MAX_JOBS            compilations at a time
    CONVT3D_PROJECT_URL where the repository is on the web, for the links of the package's description
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import setuptools
from setuptools import Extension, setup

if int(setuptools.__version__.split(".")[0]) < 77:  # pip does not look at [build-system] without build isolation
    raise SystemExit(
        f"Building convt3d needs setuptools >= 77 (got {setuptools.__version__}): pip install -U setuptools"
    )

try:
    import torch
    from torch.utils import cpp_extension
except ImportError as error:
    raise SystemExit(
        "Building convt3d needs the torch >= 2.10 that it will be used with, or a newer one: install torch, then build "
        "with `pip install --no-build-isolation`"
    ) from error

ROOT = Path(__file__).resolve().parent
PACKAGE = "convt3d"

sys.path.insert(0, str(ROOT / "scripts"))
from architectures import RELEASE_ARCHS, arch_names, gencode_flags  # noqa: E402

# Only what the LibTorch stable ABI of 2.10 has, so that one library serves every later torch.
TORCH_TARGET_VERSION = "0x020a000000000000"


def read_version() -> str:
    """The version in convt3d/_version.py, read without importing the package."""
    tree = ast.parse((ROOT / PACKAGE / "_version.py").read_text())
    values = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    return str(ast.literal_eval(values[0]))


def description(readme: str, url: str, version: str) -> str:
    """README.md as a package index shows it, where links into the repository lead nowhere.

    With the repository's URL they lead to the files of this version's tag; without, only their words stay.
    """

    def link(match: re.Match[str]) -> str:
        image, words, target = match.groups()
        if "://" in target or target.startswith("#"):
            return match[0]
        if not url:
            return "" if image else words
        return f"{image}[{words}]({url.rstrip('/')}/{'raw' if image else 'blob'}/v{version}/{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, readme)


def project_urls(url: str, version: str) -> dict[str, str]:
    """The links beside the description; none where the repository's URL is not known."""
    if not url:
        return {}
    base = url.rstrip("/")
    files = {"Documentation": "docs/index.md", "Changelog": "CHANGELOG.md"}
    return {
        "Source": base,
        "Issues": f"{base}/issues",
        **{name: f"{base}/blob/v{version}/{path}" for name, path in files.items()},
    }


def why_no_cuda() -> str | None:
    """Why this build cannot or must not have CUDA kernels; None if it has them."""
    if os.environ.get("CONVT3D_CPU_ONLY", "0") not in ("", "0"):
        return "CONVT3D_CPU_ONLY is set"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is not a CUDA build"
    if cpp_extension.CUDA_HOME is None or not Path(cpp_extension.CUDA_HOME, "bin", "nvcc").exists():
        return "nvcc was not found on PATH or under CUDA_HOME"
    return None


def nvcc_release() -> str:
    """The release of nvcc, such as "12.9"; torch may be built with another minor release of the same major one."""
    nvcc = Path(str(cpp_extension.CUDA_HOME), "bin", "nvcc")
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    release = re.search(r"release (\d+\.\d+)", output)
    if release is None:
        raise SystemExit(f"{nvcc} --version names no release, got {output!r}")
    return release[1]


def static_runtime_folders() -> list[str]:
    """Where the toolkit keeps libcudart_static.a. nvcc is asked itself, as the one on PATH may be a wrapper script."""
    nvcc = Path(str(cpp_extension.CUDA_HOME), "bin", "nvcc")
    command = [nvcc, "--dryrun", "-x", "cu", os.devnull, "-o", os.devnull]
    dry_run = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in dry_run.stderr.splitlines() if "LIBRARIES=" in line]
    return [folder for line in lines for folder in re.findall(r'"-L([^"]+)"', line)]


def compression_flags(release: str) -> list[str]:
    """The flags of nvcc that compress machine code, which the driver unpacks as it loads it.

    Of CUDA 13 on: its drivers all can. torch's own libraries of CUDA 13 are compressed so.
    """
    return ["--compress-mode=size"] if int(release.split(".")[0]) >= 13 else []


def asked_archs() -> list[str]:
    """The architectures of this build, such as ["80", "90a", "120+PTX"]."""
    return os.environ.get("CONVT3D_CUDA_ARCHS", RELEASE_ARCHS).split(";")


def is_cuda(source: str) -> bool:
    """Whether nvcc compiles a source file."""
    return source.endswith(".cu")


class BuildExtension(cpp_extension.BuildExtension):
    """torch's, which has one set of flags for all files, called for the kernels once with each set."""

    def build_extension(self, ext: Extension) -> None:
        """Compiles the kernels by their flags, and then what is left, and links all."""
        groups: dict[tuple[str, ...], list[str]] = {}
        for source in filter(is_cuda, ext.sources):
            groups.setdefault(tuple(gencode_flags(asked_archs(), Path(source).stem)), []).append(source)
        for number, (flags, sources) in enumerate(groups.items()):
            arguments = ext.extra_compile_args
            ext.extra_objects += self.compiler.compile(
                sources,
                output_dir=str(Path(self.build_temp, f"kernels{number}")),  # with a file of its own that ninja reads
                macros=ext.define_macros,
                include_dirs=ext.include_dirs,
                extra_postargs={"cxx": arguments["cxx"], "nvcc": [*arguments["nvcc"], *flags]},
                depends=ext.depends,
            )
        ext.sources = [source for source in ext.sources if not is_cuda(source)]
        super().build_extension(ext)


def extension() -> Extension:
    """The compiled library, with the CUDA kernels where they can be built."""
    without_cuda = why_no_cuda()
    csrc = ROOT / "csrc"
    if without_cuda is None:
        sources = sorted([*csrc.rglob("*.cpp"), *csrc.rglob("*.cu")])
        sources.remove(csrc / "ops" / "cuda_absent.cpp")
    else:
        sources = sorted(csrc.rglob("*.cpp"))
        for needs_kernels in ("cuda.cpp", "cuda_forward.cpp", "norm_cuda.cpp"):
            sources.remove(csrc / "ops" / needs_kernels)

    macros = [
        ("TORCH_TARGET_VERSION", TORCH_TARGET_VERSION),
        ("CONVT3D_VERSION", f'"{read_version()}"'),
        ("CONVT3D_RELEASE_ARCHS", f'"{arch_names(RELEASE_ARCHS.split(";"))}"'),
    ]
    hidden = ["-fvisibility=hidden", "-fvisibility-inlines-hidden", "-fPIC"]
    # As system headers, torch's do not warn. No host code includes CUDA's.
    torch_headers = [f"-isystem{path}" for path in cpp_extension.include_paths("cpu")]
    # The library names source files in registrations and errors; where this machine keeps them is nobody's business.
    no_paths = [f"-ffile-prefix-map={ROOT}=.", f"-ffile-prefix-map={Path(torch.__file__).parent}=torch"]
    compile_args = {"cxx": ["-std=c++17", "-O3", "-g0", "-Wall", "-Wextra", *hidden, *no_paths, *torch_headers]}
    library_dirs: list[str] = []
    # CUDA operators resolve through libtorch.so, which nothing here names directly: hence --no-as-needed.
    link_args = ["-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-Wl,--as-needed", "-Wl,--exclude-libs,ALL"]
    if without_cuda is None:
        archs = asked_archs()
        cuda = nvcc_release()
        print(f"convt3d: building CUDA kernels for {arch_names(archs)} with CUDA {cuda}")
        # torch/csrc/inductor/aoti_torch/c/shim.h declares the CUDA stream function under USE_CUDA only.
        macros += [
            ("USE_CUDA", None),
            ("CONVT3D_CUDA_VERSION", f'"{cuda}"'),
            ("CONVT3D_ARCHS", f'"{arch_names(archs)}"'),
        ]
        compile_args["nvcc"] = [
            "-std=c++17",
            "-O3",
            "--expt-relaxed-constexpr",
            "-Xcompiler=" + ",".join(hidden),
            # torch's BuildExtension takes the arithmetic operators of the 16-bit types away; the kernels use them.
            "-U__CUDA_NO_HALF_OPERATORS__",
            "-U__CUDA_NO_HALF_CONVERSIONS__",
            "-U__CUDA_NO_HALF2_OPERATORS__",
            "-U__CUDA_NO_BFLOAT16_CONVERSIONS__",
            *compression_flags(cuda),
        ]
        # The static runtime: the library loads where there is no CUDA at all, and beside any version of it.
        library_dirs += static_runtime_folders()
        link_args += ["-lcudart_static", "-lrt", "-lpthread", "-ldl"]
    else:
        print(f"convt3d: building a CPU-only library, without CUDA kernels: {without_cuda}")

    make = cpp_extension.CUDAExtension if without_cuda is None else cpp_extension.CppExtension
    built: Extension = make(
        f"{PACKAGE}._C",
        [str(source.relative_to(ROOT)) for source in sources],
        library_dirs=library_dirs,
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        py_limited_api=True,
    )
    # Off again: CUDA's and torch's libraries beyond the stable ABI, and torch's headers among our own, where they warn.
    built.libraries = []
    built.include_dirs = [str(csrc)]
    return built


PROJECT_URL = os.environ.get("CONVT3D_PROJECT_URL", "")

setup(
    long_description=description((ROOT / "README.md").read_text(encoding="utf-8"), PROJECT_URL, read_version()),
    long_description_content_type="text/markdown",
    project_urls=project_urls(PROJECT_URL, read_version()),
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)

"""What machine code a record measured: a hash of the kernels that its engine runs.

An edit that leaves the instructions as they are, such as one of a comment or a name, leaves the fingerprint as it is.
Hashed are the encoded instructions of each kernel, as in the library's ELF files, which ``cuobjdump`` extracts; where a
GPU compiles the library's PTX itself, that PTX.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shutil
import struct
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from convt3d._library import LIBRARY_PATH

from .passes import RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NORM_ENGINE = "group_norm"

# The kernels that an engine runs for a part of the benchmark's passes; a name that ends with * stands for all
# that begin so.
KERNELS: dict[tuple[str, str], tuple[str, ...]] = {
    ("halo_wgmma", "forward"): ("convt3d_halo_forward", "convt3d_pack_halo_weight", "convt3d_channels_last_copy"),
    ("halo_wgmma", "backward_input"): (
        "convt3d_halo_forward",
        "convt3d_pack_halo_weight",
        "convt3d_channels_last_copy",
    ),
    ("depthwise", "forward"): (
        "convt3d_depthwise_row*",
        "convt3d_depthwise_channel*",
        "convt3d_depthwise_tile_correlation",
    ),
    ("depthwise", "backward_input"): ("convt3d_depthwise_tile_correlation", "convt3d_depthwise_patch_input_grad"),
    ("depthwise", "backward_weight"): (
        "convt3d_depthwise_tile_weight_grad",
        "convt3d_depthwise_patch_weight_grad",
        "convt3d_ordered_sum",
    ),
    ("simt", "forward"): ("convt3d_correlation", "convt3d_pack_weight", "convt3d_fill"),
    ("simt", "backward_input"): ("convt3d_correlation", "convt3d_pack_weight"),
    ("mma", "forward"): ("convt3d_mma_correlation", "convt3d_mma_pack_weight", "convt3d_channels_last_copy"),
    ("mma", "backward_input"): ("convt3d_mma_correlation", "convt3d_mma_pack_weight", "convt3d_channels_last_copy"),
    ("matmul", "forward"): ("convt3d_matmul",),
    ("matmul", "backward_input"): ("convt3d_matmul", "convt3d_matmul_begin_counters"),
    ("simt", "backward_weight"): ("convt3d_weight_grad", "convt3d_ordered_sum"),
    ("halo_wgmma", "backward_weight"): (
        "convt3d_halo_weight_grad",
        "convt3d_halo_weight_grad_turned",
        "convt3d_channels_last_copy",
        "convt3d_ordered_sum",
    ),
    ("mma", "backward_weight"): ("convt3d_mma_weight_grad", "convt3d_channels_last_copy", "convt3d_ordered_sum"),
    # All gradients at once: of a joint pass whose parts' engines it takes the place of.
    ("mma_together", "backward_input"): (
        "convt3d_mma_backward",
        "convt3d_mma_backward_of_warpgroup",
        "convt3d_mma_pack_weight",
        "convt3d_ordered_sum",
    ),
    ("depthwise_together", "backward_input"): ("convt3d_depthwise_patch_backward", "convt3d_ordered_sum"),
    ("simt", "backward_bias"): ("convt3d_bias_grad", "convt3d_ordered_sum"),
    (NORM_ENGINE, "forward"): (
        "convt3d_norm_reduce",
        "convt3d_norm_statistics",
        "convt3d_norm_map",
    ),
    (NORM_ENGINE, "backward"): ("convt3d_norm_reduce", "convt3d_norm_coefficients", "convt3d_norm_map"),
}
_TYPES = {"fp32": "float", "tf32": "float", "fp16": "__half", "bf16": "__nv_bfloat16", "fp64": "double"}
_MANGLED = re.compile(r"(convt3d_\w+?)I(f|d|6__half|13__nv_bfloat16)")
_MANGLED_TYPES = {"f": "float", "d": "double", "6__half": "__half", "13__nv_bfloat16": "__nv_bfloat16"}
_TEXT = ".text."  # sections of ELF, each with one kernel
_OF_ONE_TYPE = {"convt3d_halo_weight_grad_turned": "float"}  # kernels that are templates of other things
_MANGLED_OF_ONE_TYPE = re.compile(rf"({'|'.join(_OF_ONE_TYPE)})I")

Hashes = dict[tuple[str, str], tuple[str, ...]]
"""(kernel, element type in C++) -> hashes of its instances, sorted."""


class FingerprintError(RuntimeError):
    """The machine code cannot be read here."""


def cuobjdump() -> str:
    """The CUDA toolkit's, or the one that Triton brings along with torch.

    Raises:
        FingerprintError: there is neither.
    """
    folders = ["/usr/local/cuda/bin"]
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin is not None:
        folders.append(str(Path(triton.origin).parent / "backends" / "nvidia" / "bin"))
    for path in (None, *folders):
        if found := shutil.which("cuobjdump", path=path):
            return found
    raise FingerprintError("cuobjdump is neither on PATH nor in the CUDA toolkit nor in Triton")


def kernel_hashes(image: str, library: Path = LIBRARY_PATH) -> Hashes:
    """Hashes of all kernels of one of the library's architectures, such as ``"sm_90a"`` or ``"compute_80"``.

    Raises:
        FingerprintError: ``cuobjdump`` is missing or fails, or finds no kernel.
    """
    hashes = _ptx_hashes(image, library) if image.startswith("compute_") else _elf_hashes(image, library)
    if not hashes:
        raise FingerprintError(f"{library} has no kernels for {image}")
    return hashes


def _ptx_hashes(image: str, library: Path) -> Hashes:
    # Some releases of cuobjdump know PTX by the name of its machine code alone.
    for name in (image, image.replace("compute_", "sm_")):
        command = [cuobjdump(), "--dump-ptx", "--gpu-architecture", name, str(library)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            return parse_ptx(result.stdout)
    raise FingerprintError(f"{' '.join(command)}: {result.stderr.strip()}")


def _elf_hashes(image: str, library: Path) -> Hashes:
    # Kernels without instructions of 9.0 alone are compiled for sm_90, which some releases tell from sm_90a; others
    # extract the same files for both.
    files: set[bytes] = set()
    for name in dict.fromkeys((image, image.rstrip("af"))):
        command = [cuobjdump(), "--gpu-architecture", name, "--extract-elf", "all", str(library.resolve())]
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
            files.update(path.read_bytes() for path in Path(folder).iterdir())
    if not files and result.returncode != 0:
        raise FingerprintError(f"{' '.join(command)}: {result.stderr.strip()}")
    return parse_elf(files)


def parse_elf(files: Iterable[bytes]) -> Hashes:
    """The hashes of 64-bit ELF files: of a kernel's words of 8 bytes, two for each instruction, in hexadecimal."""
    return _grouped(kernel for content in files for kernel in _kernels_of(content))


def _kernels_of(content: bytes) -> Iterator[tuple[str, list[str]]]:
    (sections,) = struct.unpack_from("<Q", content, 0x28)
    size, count, names = struct.unpack_from("<HHH", content, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", content, sections + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        begin = headers[names][4] + name
        text = content[begin : content.index(b"\0", begin)].decode()
        if text.startswith(_TEXT):
            words = struct.iter_unpack("<Q", content[offset : offset + length])
            yield text.removeprefix(_TEXT), [f"0x{word:016x}" for (word,) in words]


def parse_ptx(text: str) -> Hashes:
    """The hashes in the output of ``cuobjdump --dump-ptx``."""
    bodies = re.split(r"^(?:\.visible |\.weak )?\.entry (\w+)\(", text, flags=re.MULTILINE)[1:]
    return _grouped(
        (name, [line.replace(name, "") for line in body.partition("\n{\n")[2].partition("\n}\n")[0].splitlines()])
        for name, body in zip(bodies[::2], bodies[1::2], strict=True)
    )


def fingerprint(hashes: Hashes, engine: str, pass_: str, precision: str) -> str | None:
    """Of the kernels that an engine runs for a pass and a precision; None where the library has none of them.

    Those of a joint pass, with the engines of its parts joined by ``+``, are of all parts.
    """
    of_parts = zip(RUNS.get(pass_, ((pass_, False),)), engine.split("+"), strict=False)
    wanted = {kernel for (part, _), of_part in of_parts for kernel in KERNELS.get((of_part, part), ())}
    type_ = _TYPES[precision]
    found = [
        (name, instances)
        for (name, of_type), instances in sorted(hashes.items())
        if of_type == type_ and any(name == kernel or _begins(name, kernel) for kernel in wanted)
    ]
    return _hash(repr(instances) for _, instances in found) if found else None


def fingerprints(hashes: Hashes) -> dict[str, str]:
    """Those of every engine, pass and precision, as ``"halo_wgmma forward fp16"``."""
    return {
        f"{engine} {pass_} {precision}": found
        for engine, pass_ in KERNELS
        for precision in _TYPES
        if (found := fingerprint(hashes, engine, pass_, precision)) is not None
    }


def _grouped(kernels: Iterable[tuple[str, list[str]]]) -> Hashes:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, lines in kernels:
        if of_one_type := _MANGLED_OF_ONE_TYPE.search(name):
            found[of_one_type[1], _OF_ONE_TYPE[of_one_type[1]]].append(_hash(lines))
        elif known := _MANGLED.search(name):
            found[known[1], _MANGLED_TYPES[known[2]]].append(_hash(lines))
    # Several files of a library may have the same instance.
    return {key: tuple(sorted(set(instances))) for key, instances in found.items()}


def _begins(name: str, pattern: str) -> bool:
    return pattern.endswith("*") and name.startswith(pattern[:-1])


def _hash(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]

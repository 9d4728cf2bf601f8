"""Records name the machine code that they measured."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from record_files import META, record

from convt3d._library import build_info
from convt3d.benchmark import records
from convt3d.benchmark.engine import Kernels
from convt3d.benchmark.fingerprint import (
    KERNELS,
    FingerprintError,
    Hashes,
    fingerprint,
    fingerprints,
    kernel_hashes,
    parse_elf,
    parse_ptx,
)
from convt3d.benchmark.passes import RUNS

IMAGES = ("sm_90a", "compute_80")  # with Hopper's instructions and without
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
import fingerprint as command  # noqa: E402  # benchmarks/fingerprint.py

pytestmark = pytest.mark.torch_free

PTX = """
.version 9.0
.visible .entry _ZN7convt3d19convt3d_pack_weightI6__halfEEvNS_16PackWeightParamsIT_EE(
	.param .align 8 .b8 _ZN7convt3d19convt3d_pack_weightI6__halfEEvNS_16PackWeightParamsIT_EE_param_0[96]
)
{
	ld.param.u64 %rd1, [_ZN7convt3d19convt3d_pack_weightI6__halfEEvNS_16PackWeightParamsIT_EE_param_0];
	ret;

}
"""


def test_every_engine_of_a_record_has_kernels() -> None:
    """Else the fingerprint of a joint pass would leave out a part, and that of a single one would be missing."""
    unknown = set()
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        for found in json.loads(path.read_text()).get("records", ()):
            if "engine" not in found:
                continue
            parts = RUNS.get(found["pass"], ((found["pass"], False),))
            pairs = zip(found["engine"].split("+"), (part for part, _ in parts), strict=False)
            unknown |= set(pairs) - set(KERNELS)
    assert not unknown


def elf(sections: dict[str, bytes]) -> bytes:
    """A 64-bit ELF file with these sections and, as the first, that of their names."""
    names, starts = b"\0", {}
    for name in sections:
        starts[name] = len(names)
        names += name.encode() + b"\0"
    header = 0x40
    contents = [names, *sections.values()]
    offsets = [header + sum(map(len, contents[:i])) for i in range(len(contents) + 1)]
    table = b"".join(
        struct.pack("<IIQQQQ16x", starts.get(name, 0), 1, 0, 0, offset, len(content)) + bytes(8)
        for name, offset, content in zip(("", *sections), offsets, contents, strict=False)
    )
    begin = bytearray(header)
    begin[:4] = b"\x7fELF"
    struct.pack_into("<Q", begin, 0x28, offsets[-1])
    struct.pack_into("<HHH", begin, 0x3A, 64, len(contents), 0)
    return bytes(begin) + b"".join(contents) + table


CORRELATION = ".text._ZN7convt3d19convt3d_correlationIfLNS_9TileShapeE0ELb0EEEvNS_17CorrelationParamsIT_EE"
PACKING = ".text._ZN7convt3d19convt3d_pack_weightI6__halfEEvNS_16PackWeightParamsIT_EE"


def test_hashes_follow_the_instructions_and_nothing_else() -> None:
    words = bytes.fromhex("827b01ff000a00000008000000f00f00")
    sections = {".nv.info": b"1234", CORRELATION: words, PACKING: words[:8]}
    found = parse_elf([elf(sections)])
    assert set(found) == {("convt3d_correlation", "float"), ("convt3d_pack_weight", "__half")}
    # As cuobjdump prints the words of an instruction.
    lines = "0x00000a00ff017b82\n0x000ff00000000800"
    assert found["convt3d_correlation", "float"] == (hashlib.sha256(lines.encode()).hexdigest()[:12],)
    renamed = {name.replace("CorrelationParams", "Parameters"): content for name, content in sections.items()}
    assert parse_elf([elf({**renamed, ".nv.info": b"56"}), elf({PACKING: words[:8]})]) == found
    assert parse_elf([elf({**sections, PACKING: words[8:]})]) != found


def test_hashes_of_ptx() -> None:
    found = parse_ptx(PTX)
    assert set(found) == {("convt3d_pack_weight", "__half")}
    assert parse_ptx(PTX.replace("PackWeightParams", "Other")) == found
    assert parse_ptx(PTX.replace("ret;", "trap;")) != found


def test_every_kernel_belongs_to_an_engine() -> None:
    names = {
        name
        for path in (ROOT / "csrc").rglob("*.cuh")
        for name in re.findall(r"__global__ [^;{]*?\b(convt3d_\w+)\(", path.read_text(), re.DOTALL)
    }
    assert len(names) >= 13
    known = [pattern for kernels in KERNELS.values() for pattern in kernels]
    assert {name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in known)} == set()


HASHES: Hashes = {
    ("convt3d_correlation", "float"): ("a", "b"),
    ("convt3d_pack_weight", "float"): ("c",),
    ("convt3d_weight_grad", "float"): ("d",),
}


def test_fingerprint_is_of_the_kernels_that_the_pass_runs() -> None:
    forward = fingerprint(HASHES, "simt", "forward", "fp32")
    assert forward is not None
    assert fingerprint(HASHES, "simt", "forward", "tf32") == forward
    assert fingerprint(HASHES, "simt", "forward", "fp16") is None
    assert fingerprint(HASHES, "halo_wgmma", "forward", "fp32") is None
    other: Hashes = {**HASHES, ("convt3d_weight_grad", "float"): ("e",)}
    assert fingerprint(other, "simt", "forward", "fp32") == forward
    changed = [name for name, found in fingerprints(other).items() if fingerprints(HASHES)[name] != found]
    assert changed == ["simt backward_weight fp32", "simt backward_weight tf32"]


def test_merge_keeps_records_of_the_same_kernels() -> None:
    """An edit of the source that leaves the machine code alone outdates no record."""
    kernels = Kernels(HASHES)
    of_these = {**record(), "kernels": kernels.fingerprint("simt", "forward", "fp32")}
    old = records.merge(None, META, [of_these, record("backward_input")])  # type: ignore[list-item]
    new: records.Meta = {**META, "csrc_tree": "c1"}
    kept = {**of_these, "origin": {"date": META["date"], "csrc_tree": META["csrc_tree"]}}
    assert records.merge(old, new, [], kernels.measured_by)["records"] == [kept]
    assert records.merge(old, new, [], Kernels(None).measured_by)["records"] == []


def test_command_says_which_records_are_of_older_kernels() -> None:
    kernels = Kernels(HASHES)
    meta = {"gpu": "NVIDIA H200"}
    content: dict[str, Any] = {"meta": meta, "records": [record(), record("backward_input"), record("backward_weight")]}
    content["records"][2]["kernels"] = None
    command.add(content, "sm_90a", HASHES)
    assert content["records"][2]["kernels"] == kernels.fingerprint("simt", "backward_weight", "fp32")
    assert command.compare(content, "sm_90a", HASHES) == (
        "1 records of older kernels (backward_input fp32 simt); 1 records of older kernels (forward fp32 simt); "
        "1 records of these kernels and plans"
    )
    whole: dict[str, Any] = {"meta": {}, "records": [{"network": "some"}]}
    command.add(whole, "sm_90a", HASHES)
    assert command.compare(whole, "sm_90a", HASHES) == "of these kernels"
    other: Hashes = {**HASHES, ("convt3d_correlation", "float"): ("z",)}
    assert command.compare(whole, "sm_90a", other).startswith("of older kernels: simt backward_input fp32, ")


def test_plans_are_those_of_the_gpu_of_the_record() -> None:
    one = {**record("backward_weight"), "layer": "kb58", "precision": "fp16"}
    named = {gpu: command.engine_of(one, "sm_90a", gpu) for gpu in ("NVIDIA H200", "NVIDIA H100 PCIe", "Some GPU")}
    assert named["Some GPU"] is None
    assert len({engine.plan for engine in named.values() if engine is not None}) == 2
    of_few = {image: command.engine_of({**one, "pass": "forward"}, image, "NVIDIA H200") for image in IMAGES}
    assert [None if engine is None else engine.name for engine in of_few.values()] == ["halo_wgmma", "mma"]


def test_library_at_hand() -> None:
    architectures = build_info().architectures
    if not architectures:
        pytest.skip("a library without CUDA kernels")
    try:
        found = fingerprints(kernel_hashes(architectures[0]))
    except FingerprintError as error:
        if "neither on PATH" in str(error):
            pytest.skip(str(error))
        raise
    assert {"simt forward fp32", "simt backward_weight bf16", "depthwise forward fp16"} <= set(found)

"""For which GPU architectures a build compiles which file of kernels.

Names are nvcc's without what all have in common: "80", "90a", "120+PTX", as in the environment variable
CONVT3D_CUDA_ARCHS.
"""

import re

# Machine code for every architecture from Turing on (9.0 with its own instructions, hence 90a), and PTX, which all
# other GPUs from 9.0 on compile at load time. Machine code also runs on later minor revisions of its architecture, so
# that these six cover 7.5, 8.x, 9.0, 10.x and 12.x but for the GPUs of Jetson: image_for() in
# csrc/core/device_traits.h. 8.9 has none of its own: CUDA 13.0 makes the same machine code for it as for 8.6.
RELEASE_ARCHS = "75;80;86;90a;100;120+PTX"

# An architecture's machine code is made from the PTX of the last of these that is not above it. No kernel asks for
# more, and making PTX takes the compiler longer than making machine code of it.
PTX_LEVELS = (75, 80, 90)

# Files in csrc/engines/instantiate, by the beginnings of their names, that have more levels: launch bounds of some
# kernels differ between architectures of one, and from 9.0's PTX some registers spill on 12.0.
FURTHER_LEVELS = {
    "depthwise_backward": (86, 100, 120),
    "depthwise_forward": (86, 100, 120),
    "depthwise_patches": (86, 100, 120),
    "simt_correlation": (86, 100, 120),
    "simt_weight_grad": (86, 100, 120),
    "mma_correlation_float16": (120,),
    "mma_correlation_bfloat16": (120,),
}

# Those that use instructions which only 9.0 has, and are empty elsewhere.
OF_HOPPER = ("wgmma",)


def numbers_of(archs: list[str]) -> list[str]:
    """["80", "90a", "120"] of ["80", "90a", "120+PTX"]."""
    return [arch.removesuffix("+PTX") for arch in archs]


def ptx_level(number: str, unit: str = "") -> str:
    """The PTX that a file's machine code for an architecture such as "86" or "90a" is made from."""
    if not re.fullmatch(r"\d+[af]?", number) or int(number.rstrip("af")) < PTX_LEVELS[0]:
        raise ValueError(
            f'an architecture must be {PTX_LEVELS[0]} or later, such as "80", "90a" or "120+PTX", got {number!r}'
        )
    further = [level for name, levels in FURTHER_LEVELS.items() if unit.startswith(name) for level in levels]
    return str(max(level for level in (*PTX_LEVELS, *further) if level <= int(number.rstrip("af"))))


def ptx_levels(archs: list[str]) -> list[str]:
    """Of which levels the library has PTX."""
    return sorted({ptx_level(arch.removesuffix("+PTX")) for arch in archs if arch.endswith("+PTX")}, key=int)


def gencode_flags(archs: list[str], unit: str) -> list[str]:
    """The -gencode flags of nvcc for architectures such as ["80", "90a", "120+PTX"] and a file of kernels."""
    of_hopper = unit.startswith(OF_HOPPER)
    lowest = min((ptx_level(number) for number in numbers_of(archs)), key=int)
    codes: dict[str, list[str]] = {}
    for number in numbers_of(archs):
        if of_hopper:
            virtual, code = (number, number) if number == "90a" else (lowest, number)
        else:
            # Nothing here is of 9.0 alone: with compute_90 the PTX serves others, too.
            virtual, code = ptx_level(number, unit), number.rstrip("af")
        codes.setdefault(virtual, []).append(f"sm_{code}")
    for level in [lowest] if of_hopper and ptx_levels(archs) else ptx_levels(archs):
        codes.setdefault(level, []).append(f"compute_{level}")
    return [f"-gencode=arch=compute_{virtual},code=[{','.join(code)}]" for virtual, code in codes.items()]


def arch_names(archs: list[str]) -> str:
    """What compiled_architectures() in csrc/core/build.h returns, such as "sm_80 sm_90a sm_120 compute_90"."""
    machine_code = [f"sm_{number}" for number in numbers_of(archs)]
    return " ".join(machine_code + [f"compute_{level}" for level in ptx_levels(archs)])

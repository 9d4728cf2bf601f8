"""One call: which kernel it gets, and how far that is from what the hardware allows."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from convt3d._layer import ELEMENT_BYTES, Layer
from convt3d._library import LIBRARY_PATH, build_info
from convt3d._registrations.memory_format import result_memory_format
from convt3d._registrations.registry import ops
from convt3d.functional import Ints, _ints, _triple

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = {torch.float32: "fp32", torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16"}
_HOPPER = (9, 0)
_MINIMUM_CAPABILITY = (8, 0)
_ASSUMED_DEVICE = "NVIDIA H200 (assumed)"


@dataclass(frozen=True)
class ForwardPlan:
    """What csrc/planning/forward_plan.cpp chooses for one problem.

    Attributes:
        engine: the kind of kernel, such as ``"halo_wgmma"`` or ``"simt"``.
        plan: its tile and launch, as text.
        workspace_bytes: of the scratch memory that a call allocates.
        expected_ms: estimate of the plan's time on an H200.
    """

    engine: str
    plan: str
    workspace_bytes: int
    expected_ms: float


@dataclass(frozen=True)
class Explanation:
    """What :func:`convt3d.explain` says about one call; printing it shows everything.

    Attributes:
        input_shape: (N, C_in, D, H, W).
        weight_shape: (C_in, C_out/groups, kD, kH, kW).
        output_shape: (N, C_out, D', H', W').
        precision: ``"fp64"``, ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``.
        layout: of the output, ``"NCDHW"`` (contiguous) or ``"NDHWC"`` (channels_last_3d).
        device: the GPU that the engine is chosen for.
        engine: the kind of kernel: ``"halo_wgmma"`` (Hopper's matrix units), ``"depthwise"`` (limited by memory) or
            ``"simt"``; ``"none"`` for an empty batch.
        plan: the engine's tile and launch, as text.
        workspace_bytes: scratch memory that the call allocates (the repacked weight).
        bytes: of input, weight and output, once each.
        flops: two for each multiply-add whose output position is in range.
        limit_ms: time at best: `bytes` at the speed of a copy, or `flops` at the precision's peak.
        expected_ms: estimate of the kernel's time, from the plan's cost; it ranks plans better than it tells the time.
    """

    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    precision: str
    layout: str
    device: str
    engine: str
    plan: str
    workspace_bytes: int
    bytes: int
    flops: int
    limit_ms: float
    expected_ms: float

    def __str__(self) -> str:
        per_byte = self.flops / self.bytes if self.bytes else 0.0
        fraction = f" ({self.limit_ms / self.expected_ms:.0%} of the limit)" if self.expected_ms else ""
        shapes = f"input {self.input_shape}, weight {self.weight_shape} -> output {self.output_shape}"
        return "\n".join(
            [
                f"conv_transpose3d: {shapes}, {self.precision}, {self.layout}",
                f"  device     {self.device}",
                f"  engine     {self.engine}",
                f"  plan       {self.plan}",
                f"  work       {self.flops / 1e9:.4g} GFLOP, {self.bytes / 1e6:.4g} MB, {per_byte:.3g} FLOP/byte",
                f"  limit      {self.limit_ms:.4g} ms",
                f"  expected   {self.expected_ms:.4g} ms{fraction}",
                f"  workspace  {self.workspace_bytes / 1e6:.4g} MB",
            ]
        )


def forward_plan(layer: Layer, precision: str, layout: str, *, has_wgmma: bool) -> ForwardPlan:
    """The engine and plan of a forward.

    Args:
        layer: the problem.
        precision: ``"fp64"``, ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``.
        layout: of the output, ``"NCDHW"`` or ``"NDHWC"``.
        has_wgmma: whether the device has compute capability 9.0 and the library its machine code.
    """
    triples = (
        layer.input_size,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.output_padding,
        layer.dilation,
    )
    flat = [
        layer.batch,
        layer.in_channels,
        layer.out_channels,
        layer.groups,
        *(size for triple in triples for size in triple),
    ]
    sizes = (ctypes.c_int64 * len(flat))(*flat)
    text = ctypes.create_string_buffer(4096)
    length = ctypes.CDLL(str(LIBRARY_PATH)).convt3d_explain_forward(
        sizes, ELEMENT_BYTES[precision], precision == "tf32", layout == "NDHWC", has_wgmma, text, len(text)
    )
    if length >= len(text):
        raise AssertionError(f"the plan's text has {length} characters, more than the {len(text)} reserved for it")
    facts = dict(line.split("=", 1) for line in text.value.decode().splitlines())
    return ForwardPlan(facts["engine"], facts["plan"], int(facts["workspace_bytes"]), float(facts["expected_ms"]))


def has_wgmma(device: torch.device) -> bool:
    """Whether the engine for Hopper's matrix units can run on a CUDA device, with this build."""
    return torch.cuda.get_device_capability(device) == _HOPPER and "sm_90a" in build_info().architectures


def explain_call(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    device_capability: tuple[int, int] | None = None,
    device: torch.device | None = None,
    precision: str | None = None,
) -> Explanation:
    """What :func:`convt3d.explain` says about a call; `device` and `precision`: those of a call recorded earlier."""
    stride, padding = _ints("stride", stride), _ints("padding", padding)
    output_padding, dilation = _ints("output_padding", output_padding), _ints("dilation", dilation)
    batched = input.unsqueeze(0) if input.dim() == 4 else input
    tensors = [None if tensor is None else without_data(tensor) for tensor in (batched, weight, bias)]
    output = ops.conv_transpose3d(*tensors, stride, padding, output_padding, groups, dilation)  # also checks them all
    depth, height, width = batched.shape[2:]
    k_depth, k_height, k_width = weight.shape[2:]
    layer = Layer(
        "",
        batch=batched.shape[0],
        in_channels=batched.shape[1],
        out_channels=output.shape[1],
        input_size=(depth, height, width),
        kernel_size=(k_depth, k_height, k_width),
        stride=_triple("stride", stride),
        padding=_triple("padding", padding),
        output_padding=_triple("output_padding", output_padding),
        dilation=_triple("dilation", dilation),
        groups=groups,
        bias=bias is not None,
    )
    precision = precision or precision_of(input.dtype)
    layout = "NDHWC" if result_memory_format(batched, weight) == torch.channels_last_3d else "NCDHW"
    device_name, wgmma = _device(device or input.device, device_capability)
    plan = ForwardPlan("none", "an empty batch: nothing runs", 0, 0.0)
    if layer.batch > 0:
        plan = forward_plan(layer, precision, layout, has_wgmma=wgmma)
    return Explanation(
        input_shape=layer.input_shape,
        weight_shape=layer.weight_shape,
        output_shape=layer.output_shape,
        precision=precision,
        layout=layout,
        device=device_name,
        engine=plan.engine,
        plan=plan.plan,
        workspace_bytes=plan.workspace_bytes,
        bytes=layer.bytes(precision),
        flops=2 * layer.multiply_adds,
        limit_ms=layer.limit_ms(precision),
        expected_ms=max(plan.expected_ms, layer.limit_ms(precision)) if layer.batch else 0.0,
    )


def without_data(tensor: Tensor) -> Tensor:
    """A meta tensor with the same shape, strides and dtype."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def precision_of(dtype: torch.dtype) -> str:
    """The precision of a call on tensors of this dtype, as PyTorch's switches are now."""
    if dtype == torch.float32:
        return "tf32" if torch.backends.cudnn.conv.fp32_precision == "tf32" else "fp32"  # type: ignore[attr-defined]
    return DTYPES[dtype]


def check_capability(capability: tuple[int, int], name: str = "device_capability") -> None:
    """Refuse what is no compute capability, and those that no build has kernels for; `name` is what the error names."""
    is_pair = isinstance(capability, (tuple, list)) and [type(part) for part in capability] == [int, int]
    if not is_pair:
        raise TypeError(f"convt3d.explain: {name} must be two ints such as (9, 0), got {capability!r}")
    if tuple(capability) < _MINIMUM_CAPABILITY:
        minimum = "({}, {})".format(*_MINIMUM_CAPABILITY)
        raise RuntimeError(
            f"convt3d.explain: {name} must be {minimum} or later, as no build has kernels for GPUs before, "
            f"got {tuple(capability)}"
        )


def _device(device: torch.device, capability: tuple[int, int] | None) -> tuple[str, bool]:
    """The GPU in words, and whether it runs the engine for Hopper's matrix units."""
    if capability is not None:
        check_capability(capability)
        return f"compute capability {capability[0]}.{capability[1]} (given)", tuple(capability) == _HOPPER
    if device.type == "cuda":
        check_capability(torch.cuda.get_device_capability(device), f"the compute capability of {device}")
        return torch.cuda.get_device_name(device), has_wgmma(device)
    return _ASSUMED_DEVICE, True

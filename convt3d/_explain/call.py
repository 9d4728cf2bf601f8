"""One call: which kernel it gets, and how far that is from what the hardware allows."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from convt3d._arguments import Ints, integer, ints, triple
from convt3d._explain.operands import Operand, Operands
from convt3d._explain.plan import Device, OperatorPlan, assumed_device, cuda_device, known_device, operator_plan
from convt3d._layer import COPY_BYTES_PER_SECOND, ELEMENT_BYTES, PEAK_FLOPS_PER_SECOND, Layer
from convt3d._library import MINIMUM_CAPABILITY, build_info, image_for
from convt3d._registrations.memory_format import result_memory_format
from convt3d._registrations.registry import ops

DTYPES = {torch.float32: "fp32", torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16"}
EXPLAINED = ("forward", "input_grad", "weight_grad", "bias_grad", "backward")
_ALIGNMENT = 16  # bytes; kAddressModulus in csrc/core/operands.h


@dataclass(frozen=True)
class Explanation:
    """What :func:`convt3d.explain` says about one call; printing it shows everything.

    Attributes:
        input_shape: (N, C_in, D, H, W).
        weight_shape: (C_in, C_out/groups, kD, kH, kW).
        output_shape: (N, C_out, D', H', W').
        precision: ``"fp64"``, ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``.
        layout: of what is written, ``"NCDHW"`` (contiguous) or ``"NDHWC"`` (channels_last_3d).
        device: the GPU that the engine is chosen for, and whether this build has no kernels for it.
        engine: the kind of kernel: ``"halo_wgmma"`` (Hopper's matrix units), ``"mma"`` (tensor cores of any GPU),
            ``"matmul"`` (likewise, of kernels that are their stride), ``"depthwise"`` (limited by memory) or ``"simt"``
            (without tensor cores); ``"none"`` for an empty batch; ``"separate"`` for a backward whose gradients have a
            plan each, of which `plan` says by whom they are
            computed, what is copied for all of them or ``for=weight_grad``, in how many rounds, and whether two run
            beside each other.
        plan: the engine's tile and launch, as text.
        workspace_bytes: scratch memory that the call allocates (the repacked weight, or partial sums).
        bytes: of input, weight and output, once each, whichever of them is computed; of the bias gradient the output's;
            of a backward those of the gradients, too.
        flops: two for each multiply-add whose output position is in range, of a backward four; of the bias gradient one
            for each output.
        limit_ms: time at best on an H200: `bytes` at the speed of a copy, or `flops` at the precision's peak.
        expected_ms: estimate of the kernels' time on the device, from the plan's cost; it ranks plans better than it
            tells the time.
        operator: ``"forward"``, ``"input_grad"``, ``"weight_grad"``, ``"bias_grad"`` or ``"backward"``.
        measured: whether such times were measured on that GPU; else `expected_ms` is a model's alone.
        norm_way: of a call in a model with a group norm behind it, how that is computed: ``"passes"`` of its own,
            ``"epilogue"`` (the convolution gathers the statistics) or ``"twice"`` (a first convolution gathers them
            and stores nothing, a second one applies the norm); else None.
        norm_ms: estimate of what the norm takes beside the convolution; nobody measured it.
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
    operator: str = "forward"
    measured: bool = True
    norm_way: str | None = None
    norm_ms: float = 0.0

    def __str__(self) -> str:
        per_byte = self.flops / self.bytes if self.bytes else 0.0
        fraction = f" ({self.limit_ms / self.expected_ms:.0%} of the limit)" if self.expected_ms else ""
        model = "" if self.measured else ", by a model: not measured on this GPU"
        name = "conv_transpose3d" + ("" if self.operator == "forward" else f"_{self.operator}")
        input, weight, output = self.input_shape, self.weight_shape, self.output_shape
        shapes = {
            "forward": f"input {input}, weight {weight} -> output {output}",
            "input_grad": f"grad_output {output}, weight {weight} -> grad_input {input}",
            "weight_grad": f"grad_output {output}, input {input} -> grad_weight {weight}",
            "bias_grad": f"grad_output {output} -> grad_bias {output[1:2]}",
            "backward": f"grad_output {output}, input {input}, weight {weight} -> gradients",
        }
        return "\n".join(
            [
                f"{name}: {shapes[self.operator]}, {self.precision}, {self.layout}",
                f"  device     {self.device}",
                f"  engine     {self.engine}",
                f"  plan       {self.plan}",
                f"  work       {self.flops / 1e9:.4g} GFLOP, {self.bytes / 1e6:.4g} MB, {per_byte:.3g} FLOP/byte",
                f"  limit      {self.limit_ms:.4g} ms",
                f"  expected   {self.expected_ms:.4g} ms{fraction}{model}",
                f"  workspace  {self.workspace_bytes / 1e6:.4g} MB",
            ]
        )


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
    operator: str = "forward",
    relu: bool = False,
    grad_output: Tensor | None = None,
    device: torch.device | None = None,
    precision: str | None = None,
    norm_dtype: torch.dtype | None = None,
) -> Explanation:
    """What :func:`convt3d.explain` says about a call.

    `device` and `precision`: those of a call recorded earlier; `norm_dtype`: of the result of a norm behind a forward.
    """
    if operator not in EXPLAINED:
        raise RuntimeError(f"convt3d.explain: operator must be one of {', '.join(EXPLAINED)}, got {operator!r}")
    if grad_output is not None and operator == "forward":
        raise RuntimeError("convt3d.explain: grad_output goes with the operator of a gradient, got operator='forward'")
    for name, value in (("weight", weight), ("bias", bias), ("grad_output", grad_output)):
        if not isinstance(value, Tensor) and (value is not None or name == "weight"):
            raise TypeError(f"convt3d.explain: {name} must be a Tensor, got {type(value).__name__}")
    stride, padding, groups = ints("stride", stride), ints("padding", padding), integer("groups", "an int", groups)
    output_padding, dilation = ints("output_padding", output_padding), ints("dilation", dilation)
    parameters = (stride, padding, output_padding, groups, dilation)
    batched = without_data(input.unsqueeze(0) if input.dim() == 4 else input)
    filters = without_data(weight)
    added = None if bias is None else without_data(bias)
    output = ops.conv_transpose3d(batched, filters, added, *parameters)  # also checks them all
    depth, height, width = batched.shape[2:]
    k_depth, k_height, k_width = filters.shape[2:]
    layer = Layer(
        "",
        batch=batched.shape[0],
        in_channels=batched.shape[1],
        out_channels=output.shape[1],
        input_size=(depth, height, width),
        kernel_size=(k_depth, k_height, k_width),
        stride=triple("stride", stride),
        padding=triple("padding", padding),
        output_padding=triple("output_padding", output_padding),
        dilation=triple("dilation", dilation),
        groups=groups,
        bias=bias is not None,
    )
    precision = precision or precision_of(input.dtype)
    if operator == "forward":
        layout = _layout(batched, filters)
        operands = Operands(_operand(batched), _operand(filters), None, _operand(output))
    else:
        gradient = output if grad_output is None else without_data(grad_output)
        gradient = gradient.unsqueeze(0) if gradient.dim() == 4 else gradient
        layout, operands = _gradient(operator, batched, filters, gradient, output if relu else None, parameters)
    gpu = _device(device or input.device, device_capability)
    plan = OperatorPlan("none", "an empty batch: nothing runs", 0, 0.0)
    if layer.batch > 0:
        planned = "backward_and_bias" if operator == "backward" and layer.bias else operator
        norm_bytes = 0 if norm_dtype is None else norm_dtype.itemsize
        plan = operator_plan(layer, planned, precision, operands, gpu, norm_result_bytes=norm_bytes)
    bytes, flops, limit_ms = _work(layer, operator, precision)
    least_ms = limit_ms if gpu.measured else bytes / gpu.bytes_per_ms
    return Explanation(
        input_shape=layer.input_shape,
        weight_shape=layer.weight_shape,
        output_shape=layer.output_shape,
        precision=precision,
        layout=layout,
        device=gpu.name,
        engine=plan.engine,
        plan=plan.plan,
        workspace_bytes=plan.workspace_bytes,
        bytes=bytes,
        flops=flops,
        limit_ms=limit_ms,
        expected_ms=max(plan.expected_ms, least_ms) if layer.batch else 0.0,
        operator=operator,
        measured=gpu.measured and plan.fitted,
        norm_way=plan.norm_way,
        norm_ms=plan.norm_ms,
    )


def _gradient(
    operator: str,
    input: Tensor,
    weight: Tensor,
    grad_output: Tensor,
    mask: Tensor | None,
    parameters: tuple[object, ...],
) -> tuple[str, Operands]:
    """The layout of a gradient, and its tensors; these are checked as by the call."""
    first, relu_output = _operand(grad_output), None if mask is None else _operand(mask)
    if operator == "input_grad":
        result = ops.conv_transpose3d_input_grad(grad_output, weight, mask, *parameters)
        return _layout(grad_output, weight), Operands(first, _operand(weight), relu_output, _operand(result))
    if operator == "weight_grad":
        result = ops.conv_transpose3d_weight_grad(grad_output, input, weight.shape[2:], mask, *parameters)
        return _layout(grad_output, input), Operands(first, _operand(input), relu_output, _operand(result))
    if operator == "backward":
        result = ops.conv_transpose3d_backward(grad_output, input, weight, mask, *parameters)[0]
        layout = _layout(grad_output, input, weight)
        return layout, Operands(first, _operand(input), relu_output, _operand(result), _operand(weight))
    ops.conv_transpose3d_bias_grad(grad_output, mask)
    return _layout(grad_output, grad_output), Operands(first, None, relu_output, Operand((0, 1, 0, 0, 0)))


def _work(layer: Layer, operator: str, precision: str) -> tuple[int, int, float]:
    """Bytes, flops and the time at best in milliseconds."""
    if operator == "backward":
        gradients = math.prod(layer.input_shape) + math.prod(layer.weight_shape) + layer.out_channels * layer.bias
        bytes = layer.bytes(precision) + gradients * ELEMENT_BYTES[precision]
        flops = 4 * layer.multiply_adds
        return bytes, flops, 1e3 * max(bytes / COPY_BYTES_PER_SECOND, flops / PEAK_FLOPS_PER_SECOND[precision])
    if operator != "bias_grad":
        return layer.bytes(precision), 2 * layer.multiply_adds, layer.limit_ms(precision)
    outputs = math.prod(layer.output_shape)
    bytes = outputs * ELEMENT_BYTES[precision]
    return bytes, outputs, 1e3 * bytes / COPY_BYTES_PER_SECOND


def _layout(*operands: Tensor) -> str:
    return "NDHWC" if result_memory_format(*operands) == torch.channels_last_3d else "NCDHW"


def _operand(tensor: Tensor) -> Operand:
    """Of a meta tensor."""
    return Operand(tensor.stride(), int(tensor.storage_offset()) * tensor.element_size() % _ALIGNMENT)


def without_data(tensor: Tensor) -> Tensor:
    """A meta tensor with the same shape, strides, alignment and dtype."""
    offset = _misalignment(tensor)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    memory = torch.empty(offset + max(extent, 0), dtype=tensor.dtype, device="meta")
    return memory.as_strided(tensor.shape, tensor.stride(), offset)


def _misalignment(tensor: Tensor) -> int:
    """Elements from the last aligned address to a tensor's first element."""
    bytes = tensor.storage_offset() * tensor.element_size()
    if tensor.device.type != "meta":
        with contextlib.suppress(RuntimeError):  # tensors of transforms and traces have no memory
            bytes = tensor.data_ptr()
    return bytes % _ALIGNMENT // tensor.element_size()


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
    if tuple(capability) < MINIMUM_CAPABILITY:
        minimum = "({}, {})".format(*MINIMUM_CAPABILITY)
        raise RuntimeError(
            f"convt3d.explain: {name} must be {minimum} or later, as no build has kernels for GPUs before, "
            f"got {tuple(capability)}"
        )


def _device(device: torch.device, capability: tuple[int, int] | None) -> Device:
    """The GPU that a call is explained for."""
    if capability is not None:
        check_capability(capability)
        name = f"compute capability {capability[0]}.{capability[1]} (given{_without_code(capability)})"
        return replace(known_device((capability[0], capability[1])), name=name)
    if device.type == "cuda":
        check_capability(torch.cuda.get_device_capability(device), f"the compute capability of {device}")
        return cuda_device(device)
    return assumed_device()


def _without_code(capability: tuple[int, int]) -> str:
    """What follows where a build, or a release where this one is for the CPU only, does not run on such a GPU."""
    info = build_info()
    if image_for(capability, info.architectures or info.release_architectures) is not None:
        return ""
    which = "this build" if info.architectures else "a release"
    return f"; {which} has no kernels for it, one with CONVT3D_CUDA_ARCHS would"

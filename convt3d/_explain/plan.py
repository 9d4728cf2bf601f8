"""Plans of calls, as csrc/planning makes them: for any device, without a GPU."""

from __future__ import annotations

import contextlib
import ctypes
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from convt3d._explain.operands import Operands, dense_operands
from convt3d._library import LIBRARY_PATH, build_info, why_not_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from convt3d._layer import Layer

OPERATORS = (
    "forward",
    "input_grad",
    "weight_grad",
    "bias_grad",
    "backward",
    "backward_and_bias",
)  # csrc/core/operator.h
GRADIENTS = ("input_grad", "weight_grad", "bias_grad")
ENGINES = ("simt", "depthwise", "halo_wgmma", "mma", "matmul")  # csrc/core/device_traits.h
_DTYPES = {"fp32": 0, "tf32": 0, "fp64": 1, "fp16": 2, "bf16": 3}  # csrc/core/problem.h
_DEVICE_NUMBERS = 24  # csrc/planning/flat_call.h
_HOPPER = (9, 0)
_ABSENT = (0, 0, 0, 0, 0, -1)
_TEXT_BYTES = 8192
_NAME_BYTES = 1024


@dataclass(frozen=True)
class Device:
    """A GPU that plans are for.

    Attributes:
        name: in words.
        traits: of DeviceTraits in csrc/core/device_traits.h.
        measured: whether the engines' costs were fitted on it; on others they are a model's.
    """

    name: str
    traits: tuple[float, ...]
    measured: bool

    @property
    def bytes_per_ms(self) -> float:
        """Of its memory, at its peak."""
        return self.traits[5]

    def has(self, engine: str) -> bool:
        """Whether plans for it may be this one of `ENGINES`."""
        return bool(int(self.traits[-1]) & 1 << ENGINES.index(engine))

    def without(self, engine: str) -> Device:
        """The same GPU to a library that has not this one of `ENGINES`."""
        engines = int(self.traits[-1]) & ~(1 << ENGINES.index(engine))
        return replace(self, traits=(*self.traits[:-1], float(engines)))


@dataclass(frozen=True)
class GradientPlan:
    """One gradient of a backward whose gradients are computed one by one: which of `OPERATORS`, its engine and plan."""

    operator: str
    engine: str
    plan: str


@dataclass(frozen=True)
class OperatorPlan:
    """What csrc/planning/choose.cpp chooses for one call.

    Attributes:
        engine: the kind of kernel, such as ``"halo_wgmma"`` or ``"simt"``; ``"separate"`` of a backward whose gradients
            are computed one by one, of which the plan says by whom, and `gradients` more.
        plan: its tile and launch, as text.
        workspace_bytes: of the scratch memory that a call allocates.
        expected_ms: estimate of the plan's time on the device.
        fitted: whether that estimate was fitted to measured times, on an H200.
        norm_way: how a norm behind a forward is computed (csrc/planning/norm_task.h): by passes of its own
            (``"passes"``), with statistics from the forward's epilogue (``"epilogue"``), or in the epilogue of a second
            forward (``"twice"``); None where there is none.
        norm_ms: estimate of what the norm takes beside the forward.
        gradients: of a backward whose gradients are computed one by one.
    """

    engine: str
    plan: str
    workspace_bytes: int
    expected_ms: float
    fitted: bool = True
    norm_way: str | None = None
    norm_ms: float = 0.0
    gradients: tuple[GradientPlan, ...] = ()


_imposed: Device | None = None  # by `plans_of`


class FlatCall(ctypes.Structure):
    """FlatCall in csrc/planning/flat_call.h."""

    _fields_ = (
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("operands", ctypes.POINTER(ctypes.c_int64)),
        ("device", ctypes.POINTER(ctypes.c_double)),
        ("op", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("allow_tf32", ctypes.c_int32),
        ("engine", ctypes.c_int32),
        ("candidate", ctypes.c_int32),
        ("norm_result_bytes", ctypes.c_int32),
    )


def flat_call(
    sizes: Sequence[int],
    operator: str,
    precision: str,
    operands: Operands,
    device: Device,
    engine: str | None = None,
    candidate: int = 0,
    norm_result_bytes: int = 0,
) -> FlatCall:
    """A call as the library takes it; `sizes`: N, C_in, C_out, groups and the triples from the input's size on."""
    numbers: list[int] = []
    for operand in (operands.first, operands.second, operands.mask, operands.result, operands.weight):
        numbers += _ABSENT if operand is None else (*operand.strides, operand.address)
    return FlatCall(
        (ctypes.c_int64 * len(sizes))(*sizes),
        (ctypes.c_int64 * len(numbers))(*numbers),
        (ctypes.c_double * _DEVICE_NUMBERS)(*device.traits),
        OPERATORS.index(operator),
        _DTYPES[precision],
        precision == "tf32",
        -1 if engine is None else ENGINES.index(engine),
        candidate,
        norm_result_bytes,
    )


class NoPlanError(RuntimeError):
    """The only engine that is asked has no plan for the call, or none with the candidate's number."""


def operator_plan(
    layer: Layer,
    operator: str,
    precision: str,
    operands: Operands,
    device: Device,
    engine: str | None = None,
    candidate: int = 0,
    norm_result_bytes: int = 0,
) -> OperatorPlan:
    """The engine and plan of a call.

    Args:
        layer: the problem.
        operator: one of `OPERATORS`.
        precision: ``"fp64"``, ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``.
        operands: strides and alignment of its tensors.
        device: the GPU.
        engine: the only one of `ENGINES` that is asked; None: the cheapest.
        candidate: which of that engine's plans, as `candidate_costs` numbers them.
        norm_result_bytes: of an element of the result of a norm behind a forward without derivatives; 0: there is none.

    Raises:
        NoPlanError: the only engine that is asked has no such plan for the call.
    """
    call = flat_call(sizes_of(layer), operator, precision, operands, device, engine, candidate, norm_result_bytes)
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    length = _library().convt3d_explain(ctypes.byref(call), text, len(text))
    if length >= len(text):
        raise AssertionError(f"the plan's text has {length} characters, more than the {len(text)} reserved for it")
    facts = dict(line.split("=", 1) for line in text.value.decode().splitlines())
    if "error" in facts:
        raise NoPlanError(facts["error"])
    return OperatorPlan(
        facts["engine"],
        facts["plan"],
        int(facts["workspace_bytes"]),
        float(facts["expected_ms"]),
        facts["fitted"] == "1",
        facts.get("norm_way"),
        float(facts.get("norm_ms", 0)),
        tuple(GradientPlan(part, *facts[part].split(": ", 1)) for part in GRADIENTS if part in facts),
    )


def layer_plan(
    layer: Layer,
    operator: str,
    precision: str,
    layout: str,
    device: Device,
    *,
    masked: bool = False,
    engine: str | None = None,
    candidate: int = 0,
) -> OperatorPlan:
    """The engine and plan of a call on dense tensors of one layout, with a ReLU's output where `masked`."""
    operands = dense_operands(layer, operator, layout, masked=masked)
    return operator_plan(layer, operator, precision, operands, device, engine, candidate)


def candidate_costs(
    layer: Layer, operator: str, precision: str, operands: Operands, device: Device, engine: str | None
) -> list[float]:
    """Milliseconds that an engine's plans of a call are expected to take: the one it chooses, then by that time.

    Without an engine those of a backward: the plan that is chosen, then its gradients one by one, in every way.
    """
    call = flat_call(sizes_of(layer), operator, precision, operands, device, engine)
    library = _library()
    costs = (ctypes.c_double * library.convt3d_candidates(ctypes.byref(call), None, 0))()
    library.convt3d_candidates(ctypes.byref(call), costs, len(costs))
    return list(costs)


def forward_plan(layer: Layer, precision: str, layout: str, *, has_wgmma: bool) -> OperatorPlan:
    """The engine and plan of a forward on dense tensors.

    Args:
        layer: the problem.
        precision: ``"fp64"``, ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``.
        layout: of input and output, ``"NCDHW"`` or ``"NDHWC"``.
        has_wgmma: whether the device has compute capability 9.0 and the library its machine code.
    """
    return layer_plan(layer, "forward", precision, layout, known_device((9, 0) if has_wgmma else (8, 0)))


def sizes_of(layer: Layer) -> tuple[int, ...]:
    """A problem as the library takes it."""
    triples = (
        layer.input_size,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.output_padding,
        layer.dilation,
    )
    return (
        layer.batch,
        layer.in_channels,
        layer.out_channels,
        layer.groups,
        *(size for triple in triples for size in triple),
    )


def known_device(capability: tuple[int, int]) -> Device:
    """The GPU of csrc/core/devices.cpp that stands for a compute capability."""
    numbers = (ctypes.c_double * _DEVICE_NUMBERS)()
    name = ctypes.create_string_buffer(_NAME_BYTES)
    measured = _library().convt3d_known_device(*capability, numbers, name, len(name))
    return Device(name.value.decode(), tuple(numbers), bool(measured))


def named_device(name: str) -> Device:
    """The GPU of csrc/core/devices.cpp that the driver calls so, such as ``"NVIDIA GeForce RTX 4090"``.

    Raises:
        ValueError: the table has none of that name.
    """
    numbers = (ctypes.c_double * _DEVICE_NUMBERS)()
    known = ctypes.create_string_buffer(_NAME_BYTES)
    measured = _library().convt3d_named_device(name.encode(), numbers, known, len(known))
    if measured < 0:
        raise ValueError(f"convt3d: name must be that of one of these GPUs: {known.value.decode()}; got {name!r}")
    return Device(known.value.decode(), tuple(numbers), bool(measured))


def imposed_on(at_hand: Device, other: Device) -> Device:
    """What plans are made for where the device at hand runs those of another.

    Raises:
        ValueError: it cannot.
    """
    numbers = (ctypes.c_double * _DEVICE_NUMBERS)()
    reason = ctypes.create_string_buffer(_NAME_BYTES)
    of_both = [(ctypes.c_double * _DEVICE_NUMBERS)(*device.traits) for device in (at_hand, other)]
    if _library().convt3d_imposed_device(*of_both, numbers, reason, len(reason)) < 0:
        raise ValueError(f"convt3d: plans of {other.name} do not run on {at_hand.name}: {reason.value.decode()}")
    return Device(f"{at_hand.name} (plans of {other.name})", tuple(numbers), False)


def cuda_device(device: torch.device) -> Device:
    """A GPU of this machine, as its driver and csrc/core/devices.cpp describe it, or what `plans_of` makes of it."""
    at_hand = _device_at_hand(device)
    return at_hand if _imposed is None else imposed_on(at_hand, _imposed)


def _device_at_hand(device: torch.device) -> Device:
    numbers = (ctypes.c_double * _DEVICE_NUMBERS)()
    name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    if reason := why_not_on(capability):  # nothing would run: what a build for this GPU would do
        known = known_device(capability)
        return Device(f"{name} ({reason})", known.traits, known.measured and known.name in name)
    with torch.cuda.device(device):
        torch.cuda.current_stream()  # the driver's context of this device
        measured = _library().convt3d_current_device(numbers)
    if measured < 0:
        raise RuntimeError(f"convt3d.explain: the driver says nothing about {device}")
    return Device(name, tuple(numbers), bool(measured))


def assumed_device() -> Device:
    """The GPU that calls elsewhere are explained for."""
    device = known_device(_HOPPER) if _imposed is None else _imposed
    return replace(device, name=f"NVIDIA {device.name} ({'assumed' if _imposed is None else 'imposed'})")


@contextlib.contextmanager
def plans_of(name: str) -> Iterator[None]:
    """Calls on a GPU, of every thread, run the plans of another GPU, and `convt3d.explain` shows these.

    The machine code stays that for the GPU at hand, and so do the engines that it has. For tests.

    Args:
        name: as the driver has it, of a GPU in csrc/core/devices.cpp.

    Raises:
        ValueError: the table has none of that name, or the current GPU cannot run its plans.
    """
    before, other = _imposed, named_device(name)
    if torch.cuda.is_available():
        imposed_on(_device_at_hand(torch.device("cuda", torch.cuda.current_device())), other)
    _impose(other)
    try:
        yield
    finally:
        _impose(before)


def _impose(device: Device | None) -> None:
    global _imposed
    _imposed = device
    if build_info().cuda is not None:
        numbers = None if device is None else (ctypes.c_double * _DEVICE_NUMBERS)(*device.traits)
        _library().convt3d_impose_device(numbers)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY_PATH))

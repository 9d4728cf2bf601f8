"""One call of an operator on one problem, as a line of text: what the covering set and scripts/fuzz.py are made of.

    op=forward type=bf16 layout=NCDHW n=2 cin=8 cout=34 size=2,16,8 kernel=2,2,2 stride=2,2,2 padding=1,0,0
    output_padding=1,1,0 dilation=1,1,1 groups=2 bias=1 relu=0 first=slice_w second=dense mask=dense wgmma=1

From stride on, what is not said has the value that most cases have (`Case`).

Needs torch, convt3d and nothing else but tests/sizes.py.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import torch
from sizes import Int3, Sizes
from torch import Tensor

from convt3d._explain.operands import Operand, Operands
from convt3d._explain.plan import Device, FlatCall, flat_call, known_device
from convt3d._library import LIBRARY_PATH
from convt3d._registrations.memory_format import has_channels_last_strides

if TYPE_CHECKING:
    from collections.abc import Callable

Int5 = tuple[int, int, int, int, int]

OPERATORS = ("forward", "input_grad", "weight_grad", "bias_grad", "backward")
DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp64": torch.float64,
}
LAYOUTS = ("NCDHW", "NDHWC")
_ORDERS = {"NCDHW": (0, 1, 2, 3, 4), "NDHWC": (0, 2, 3, 4, 1)}
_ALIGNMENT = 16  # that plans know of an address; memory from an allocator has more


@dataclass(frozen=True)
class Arrangement:
    """How an operand lies in memory, where it is not dense.

    Attributes:
        before: elements of the memory before the operand, along each dimension of (N, C, D, H, W).
        after: ... and after it.
        offset: elements from an aligned address to the memory's first.
        expanded: dimensions of stride 0.
        order: the dimensions from the outermost to the innermost; None: the layout's.
    """

    before: Int5 = (0, 0, 0, 0, 0)
    after: Int5 = (0, 0, 0, 0, 0)
    offset: int = 0
    expanded: tuple[int, ...] = ()
    order: Int5 | None = None


ARRANGEMENTS = {
    "dense": Arrangement(),
    "offset": Arrangement(offset=1),
    "offset_four": Arrangement(offset=4),  # of 16 bits: quads are aligned, pieces of 16 bytes are not
    "slice_w": Arrangement((0, 0, 0, 0, 1), (0, 0, 0, 0, 2)),
    "slice_w_aligned": Arrangement((0, 0, 0, 0, 8), (0, 0, 0, 0, 16)),  # rows are aligned but apart
    "slice_h": Arrangement((0, 0, 0, 1, 0), (0, 0, 0, 2, 0)),
    "slice_d": Arrangement((0, 0, 1, 0, 0), (0, 0, 1, 0, 0)),
    "slice_c": Arrangement((0, 1, 0, 0, 0), (0, 2, 0, 0, 0)),
    "slice_c_aligned": Arrangement((0, 16, 0, 0, 0), (0, 8, 0, 0, 0)),
    "slice_c_quads": Arrangement((0, 4, 0, 0, 0), (0, 8, 0, 0, 0)),
    "slice_all": Arrangement((1, 2, 0, 1, 3), (0, 1, 2, 0, 1)),
    "permuted_width": Arrangement(order=(0, 1, 4, 3, 2)),
    "permuted_height": Arrangement(order=(3, 0, 2, 1, 4)),  # width contiguous, nothing else where it used to be
    "permuted_channels": Arrangement(order=(4, 3, 0, 2, 1)),  # likewise, channels contiguous
    "batch_inner": Arrangement(order=(1, 2, 3, 4, 0)),
    "expanded_n": Arrangement(expanded=(0,)),
    "expanded_c": Arrangement(expanded=(1,)),
    "expanded_w": Arrangement(expanded=(4,)),
    "expanded": Arrangement(expanded=(0, 1, 2, 3, 4)),
}


@dataclass(frozen=True)
class Memory:
    """Where an operand's elements lie: of `elements` in all, its first at `offset`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    elements: int
    expanded: tuple[int, ...]

    def tensor(self, values: Tensor) -> Tensor:
        """A tensor of this memory with `values`, which expanded dimensions take the first of; NaN around it."""
        memory = torch.full((self.elements,), math.nan, dtype=values.dtype, device=values.device)
        for dim in self.expanded:
            values = values.narrow(dim, 0, 1)
        memory.as_strided(values.shape, self.strides, self.offset).copy_(values)
        return memory.as_strided(self.shape, self.strides, self.offset)


def arrange(shape: tuple[int, ...], layout: str, kind: str) -> Memory:
    """The memory of an operand in an arrangement's name."""
    how = ARRANGEMENTS[kind]
    strides = [0] * 5
    extent = 1
    first = how.offset
    for dim in reversed(how.order or _ORDERS[layout]):
        if dim in how.expanded:
            continue
        strides[dim] = extent
        first += how.before[dim] * extent
        extent *= how.before[dim] + shape[dim] + how.after[dim]
    return Memory(shape, tuple(strides), first, how.offset + extent, how.expanded)


@dataclass(frozen=True)
class Case:
    """One call. `first`, `second` and `mask`: the arrangements of its operands.

    The first is the input or grad_output, the second the weight or, of the weight gradient and of a backward, the
    input; the mask is the ReLU's output, which the gradients take where `relu` is set. `bias` of a backward: that
    gradient is wanted, too. `wgmma` 0: planned for a device without Hopper's matrix units.
    """

    op: str
    type: str
    layout: str
    n: int
    cin: int
    cout: int
    size: Int3
    kernel: Int3
    stride: Int3 = (1, 1, 1)
    padding: Int3 = (0, 0, 0)
    output_padding: Int3 = (0, 0, 0)
    dilation: Int3 = (1, 1, 1)
    groups: int = 1
    bias: int = 0
    relu: int = 0
    first: str = "dense"
    second: str = "dense"
    mask: str = "dense"
    wgmma: int = 1

    def __str__(self) -> str:
        tokens = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value == field.default:
                continue
            tokens.append(f"{field.name}={','.join(map(str, value)) if isinstance(value, tuple) else value}")
        return " ".join(tokens)

    @staticmethod
    def parse(line: str) -> Case:
        """The case that a line says; a name that is unknown, or one that is missing, is an error."""
        names = {field.name: field for field in fields(Case)}
        values: dict[str, Any] = {}
        for token in line.split():
            name, _, text = token.partition("=")
            if name not in names:
                raise ValueError(f"{name!r} is not one of {', '.join(names)}, in the line: {line}")
            kind = names[name].type
            values[name] = (
                text if kind == "str" else int(text) if kind == "int" else tuple(int(part) for part in text.split(","))
            )
        missing = [name for name, field in names.items() if name not in values and field.default is MISSING]
        if missing:
            raise ValueError(f"{', '.join(missing)} must be given, in the line: {line}")
        case = Case(**values)
        problem = case.invalid()
        if problem:
            raise ValueError(f"{problem}, in the line: {line}")
        return case

    def invalid(self) -> str:
        """Why this is no case; empty where it is one."""
        if self.op not in OPERATORS or self.type not in DTYPES or self.layout not in LAYOUTS:
            return f"op must be one of {OPERATORS}, type of {tuple(DTYPES)}, layout of {LAYOUTS}"
        if not {self.first, self.second, self.mask} <= set(ARRANGEMENTS):
            return f"first, second and mask must be of {tuple(ARRANGEMENTS)}"
        if self.cin % self.groups or self.cout % self.groups:
            return "cin and cout must be divisible by groups"
        if min(self.output_size) < 1:
            return "the output size must be positive"
        for extra, stride, dilation in zip(self.output_padding, self.stride, self.dilation, strict=True):
            if extra >= max(stride, dilation):
                return "output_padding must be smaller than stride or dilation"
        return ""

    # ---- sizes ----

    @cached_property
    def sizes(self) -> Sizes:
        """Without the operands' types and places."""
        return Sizes(
            "case",
            self.n,
            self.cin,
            self.cout,
            self.size,
            self.kernel,
            self.stride,
            self.padding,
            self.output_padding,
            self.dilation,
            self.groups,
        )

    @property
    def output_size(self) -> Int3:
        return self.sizes.output_size

    @property
    def products(self) -> int:
        """Multiply-adds, those outside the output included."""
        return self.n * self.cin * self.cout // self.groups * math.prod(self.kernel) * math.prod(self.size)

    @property
    def elements(self) -> int:
        """Of input, weight and output."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the three tensors of a forward."""
        return {
            "input": self.sizes.input_shape,
            "weight": self.sizes.weight_shape,
            "output": self.sizes.output_shape,
        }

    @property
    def parameters(self) -> dict[str, Any]:
        """Of the operators, by their names."""
        return self.sizes.parameters

    # ---- operands ----

    @cached_property
    def operands(self) -> dict[str, Memory]:
        """The memory of each tensor that the operator reads, but the bias, in the order of its arguments."""
        first, second = {
            "forward": ("input", "weight"),
            "input_grad": ("output", "weight"),
            "weight_grad": ("output", "input"),
            "bias_grad": ("output", None),
            "backward": ("output", "input"),
        }[self.op]
        memory = {"first": arrange(self.shapes[first], self.layout, self.first)}
        if second is not None:
            memory["second"] = arrange(self.shapes[second], self.layout, self.second)
        if self.op == "backward":
            memory["weight"] = arrange(self.shapes["weight"], self.layout, "dense")
        if self.relu and self.op != "forward":
            memory["mask"] = arrange(self.shapes["output"], self.layout, self.mask)
        return memory

    @property
    def output_layout(self) -> str:
        """Of the result: that of convt3d's rule for these operands."""
        of_both = [memory for name, memory in self.operands.items() if name != "mask"]
        channels_last = self.type != "fp64" and any(
            has_channels_last_strides(memory.shape, memory.strides) for memory in of_both
        )
        return "NDHWC" if channels_last else "NCDHW"

    # ---- the plan ----

    def traits(self, device: Device | None = None) -> dict[str, str]:
        """What csrc/planning/plan_traits.h says about this call's plan; None: on the device that the case names."""
        return _traits(self._plan_text(_library().convt3d_plan_traits, 8192, device))

    def candidate_traits(self, library: ctypes.CDLL) -> list[dict[str, str]]:
        """The same of every plan that the tensor-core engine has for it, by tests/cpp/candidate_traits.cpp."""
        return [_traits(line) for line in self._plan_text(library.convt3d_candidate_traits, 1 << 25).splitlines()]

    def flat_call(self, device: Device | None = None) -> FlatCall:
        """The call as the library's planning takes it."""
        result = self.shapes[{"forward": "output", "input_grad": "input", "backward": "input"}.get(self.op, "weight")]
        bytes = DTYPES[self.type].itemsize
        operands = {
            name: Operand(memory.strides, memory.offset * bytes % _ALIGNMENT) for name, memory in self.operands.items()
        }
        triples = (self.size, self.kernel, self.stride, self.padding, self.output_padding, self.dilation)
        sizes = (self.n, self.cin, self.cout, self.groups, *(value for triple in triples for value in triple))
        return flat_call(
            sizes,
            "backward_and_bias" if self.op == "backward" and self.bias else self.op,
            self.type,
            Operands(
                operands["first"],
                operands.get("second"),
                operands.get("mask"),
                Operand(arrange(result, self.output_layout, "dense").strides),
                operands.get("weight"),
            ),
            device or known_device((9, 0) if self.wgmma else (8, 0)),
        )

    def _plan_text(self, function: Callable[..., int], capacity: int, device: Device | None = None) -> str:
        text = ctypes.create_string_buffer(capacity)
        length = function(ctypes.byref(self.flat_call(device)), self.bias, self.relu, text, len(text))
        if length >= len(text):
            raise AssertionError(f"the traits' text has {length} characters, more than the {len(text)} reserved for it")
        return text.value.decode()

    def with_(self, **changes: Any) -> Case:
        """This case with other values."""
        return replace(self, **changes)


def _traits(line: str) -> dict[str, str]:
    return dict(token.split("=", 1) for token in line.split())


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(LIBRARY_PATH))

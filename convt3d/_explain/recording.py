"""Runs a model once and sees every transposed 3D convolution in it, whoever computes it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import TorchDispatchMode

from convt3d._explain.call import DTYPES, precision_of, without_data
from convt3d._registrations.registry import ops
from convt3d._wrappers import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CONVOLUTIONS = (ops.conv_transpose3d.default, ops.conv_transpose3d_relu.default)
_RELU_NORM = ops.conv_transpose3d_relu_group_norm.default
_NORMS = (
    _RELU_NORM,
    ops.conv_transpose3d_group_norm.default,
    ops.conv_transpose3d_group_norm_forward.default,
)
_OURS = _CONVOLUTIONS + _NORMS
# What F.conv_transpose3d becomes below autograd and autocast; in inference mode it stays what it is.
_TORCHS = (torch.ops.aten.convolution.default, torch.ops.aten.conv_transpose3d.input)
_PARAMETERS = ("stride", "padding", "output_padding", "groups", "dilation")


_OF_NORM = {  # and what stands for those that an operator does not have
    "num_groups": None,
    "norm_weight": None,
    "norm_bias": None,
    "eps": None,
    "relu": True,
    "negative_slope": 1.0,
    "dtype": None,
}


@dataclass(frozen=True)
class RecordedCall:
    """A call as the kernels see it, after autocast; its tensors are meta tensors."""

    name: str
    ours: bool
    relu: bool
    input: Tensor  # [N, C_in, D, H, W]
    weight: Tensor  # [C_in, C_out/groups, kD, kH, kW]
    bias: Tensor | None  # [C_out]
    parameters: tuple[Any, ...]
    device: torch.device
    norm: tuple[Any, ...] | None  # of a call with a group norm: what follows `parameters` in the operator's arguments
    precision: str | None  # as PyTorch's switches are at the call; None where convt3d has none for the dtype

    @property
    def norm_groups(self) -> int | None:
        """Of a group norm that the call includes."""
        return None if self.norm is None else int(self.norm[0])


def record(model: nn.Module, example_input: Any, function: str = "convt3d.explain") -> list[RecordedCall]:
    """The calls of one run in eval mode without gradients, which leaves modes and hooks as they were.

    `function` is what errors name.
    """
    if not isinstance(example_input, (Tensor, tuple)):
        raise TypeError(
            f"{function}: the example of a model must be a tensor or a tuple of its positional arguments, got "
            f"{type(example_input).__name__}"
        )
    args = example_input if isinstance(example_input, tuple) else (example_input,)
    model, prefix = unwrapped(model)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor):
            raise RuntimeError(
                f"{function}: {prefix}{name} has no values yet, and running an example must not change the model: "
                "call the model once before"
            )
    names: list[str] = []  # of the modules whose forward is running, from the outermost in
    recorder = _Recorder(names)
    with (
        _eval_mode(model),
        _names_tracked(model, prefix, names),
        torch.no_grad(),
        recorder,
    ):
        model(*args)
    return recorder.calls


class _Recorder(TorchDispatchMode):
    """Sees the operators that a model calls, also from functions, own forwards and TorchScript."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[RecordedCall] = []
        self._names = names

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _OURS or func in _TORCHS:
            given = _arguments(func, args, kwargs)
            if given.get("transposed", True) and given["weight"].dim() == 5:
                self._record(func, given)
        return func(*args, **kwargs)

    def _record(self, func: Any, given: dict[str, Any]) -> None:
        input, bias = given["input"], given["bias"]
        self.calls.append(
            RecordedCall(
                name=self._names[-1] if self._names else "",
                ours=func in _OURS,
                relu=func in (_CONVOLUTIONS[1], _RELU_NORM) or bool(given.get("relu")),
                input=without_data(input.unsqueeze(0) if input.dim() == 4 else input),
                weight=without_data(given["weight"]),
                bias=None if bias is None else without_data(bias),
                parameters=tuple(given[name] for name in _PARAMETERS),
                device=input.device,
                norm=_norm(given),
                precision=precision_of(input.dtype) if input.dtype in DTYPES else None,
            )
        )


def _arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name; the dispatcher leaves out those at the end that have their default values."""
    schema = func._schema.arguments
    given = {argument.name: argument.default_value for argument in schema}
    given.update(zip((argument.name for argument in schema), args, strict=False))
    return given | kwargs


def _norm(given: dict[str, Any]) -> tuple[Any, ...] | None:
    if "num_groups" not in given:
        return None
    values = (given.get(name, default) for name, default in _OF_NORM.items())
    return tuple(without_data(value) if isinstance(value, Tensor) else value for value in values)


@contextlib.contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode by the attribute alone: `train` and `eval` may be overridden, to merge weights for example."""
    before = [(module, module.training) for module in model.modules()]
    try:
        for module, _ in before:
            module.training = False
        yield
    finally:
        for module, training in before:
            module.training = training


@contextlib.contextmanager
def _names_tracked(model: nn.Module, prefix: str, names: list[str]) -> Iterator[None]:
    """Keep in `names` the modules whose forward is running."""

    def enter(name: str) -> Callable[..., None]:
        return lambda module, args: names.append(name)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        names.pop()

    with contextlib.ExitStack() as stack:
        for name, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):  # takes no hooks; its calls count as the caller's
                continue
            handles = (  # of nn.Module, as fused modules of convt3d have methods of their own, which separate them
                nn.Module.register_forward_pre_hook(module, enter(prefix + name), prepend=True),
                nn.Module.register_forward_hook(module, leave, always_call=True),
            )
            for handle in handles:
                stack.callback(handle.remove)
        yield

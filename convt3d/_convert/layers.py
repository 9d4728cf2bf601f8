# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return"
# (as in convt3d/nn.py: PyTorch's annotations of its own modules do not fit each other)
"""Gives a module another class. The object stays, and with it all that belongs to it or refers to it.

PyTorch does the same where a lazy module becomes a plain one and where a module is parametrized.
"""

import functools
import warnings
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

import convt3d.nn
from convt3d import _library

PARTNERS = "_convt3d_partners"  # of a layer that carries others: a tuple of them
CARRIER = "_convt3d_carrier"  # of each of those: a tuple with the layer
OWN_ATTRIBUTES = (PARTNERS, CARRIER)


class PlainConvTranspose3dReLU(nn.ConvTranspose3d):
    """What :class:`convt3d.nn.ConvTranspose3dReLU` computes, in PyTorch's own operators."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """ReLU of the transposed convolution of `input`; `output_size` (D', H', W') replaces the output_padding."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        return F.relu(
            F.conv_transpose3d(
                input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        )


class PlainConvTranspose3dGroupNorm(nn.ConvTranspose3d):
    """What :class:`convt3d.nn.ConvTranspose3dGroupNorm` computes, in PyTorch's own operators."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Convolution, norm and activation of `input`; `output_size` (D', H', W') replaces the output_padding."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        output = F.conv_transpose3d(
            batch, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )
        if self.relu:
            output = F.relu(output)
        output = F.group_norm(output, self.num_groups, self.norm_weight, self.norm_bias, self.eps)
        output = F.leaky_relu(output, self.negative_slope) if self.negative_slope != 1 else output
        return output.squeeze(0) if input.dim() == 4 else output


class PlainConvTranspose3dReLUGroupNorm(PlainConvTranspose3dGroupNorm):
    """What :class:`convt3d.nn.ConvTranspose3dReLUGroupNorm` computes, in PyTorch's own operators."""


class PlainLazyConvTranspose3dReLU(nn.LazyConvTranspose3d, PlainConvTranspose3dReLU):
    """Becomes a :class:`PlainConvTranspose3dReLU` at its first call."""

    cls_to_become = PlainConvTranspose3dReLU


def _separating(name: str) -> Any:
    """The method of that name that adds a hook, for modules that are not computed by themselves."""

    @functools.wraps(getattr(nn.Module, name))
    def register(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"{name} on a module that convt3d.convert fused: it and its partners are modules of their own again, so "
            "that the hook sees what it should; to fuse them again, remove the hook and call convert again",
            stacklevel=2,
        )
        separate(vars(self)[CARRIER][0] if CARRIER in vars(self) else self)
        return getattr(type(self), name)(self, *args, **kwargs)

    return register


class Carrier:
    """Base of layers that compute what the modules behind them did; a hook would see values after those."""

    register_forward_hook = _separating("register_forward_hook")
    register_full_backward_hook = _separating("register_full_backward_hook")
    register_full_backward_pre_hook = _separating("register_full_backward_pre_hook")
    register_backward_hook = _separating("register_backward_hook")

    def forget(self) -> None:
        """Drop what was kept for the partners."""


class Carried:
    """Base of modules that only pass on what the layer before them computed for them."""

    register_forward_hook = _separating("register_forward_hook")
    register_forward_pre_hook = _separating("register_forward_pre_hook")
    register_full_backward_hook = _separating("register_full_backward_hook")
    register_full_backward_pre_hook = _separating("register_full_backward_pre_hook")
    register_backward_hook = _separating("register_backward_hook")
    original_class: ClassVar[type[nn.Module]]


class FusedConvTranspose3dReLU(Carrier, convt3d.nn.ConvTranspose3dReLU):
    """:class:`convt3d.nn.ConvTranspose3dReLU` in the place of a layer and the ReLU module that follows it."""


class FusedLazyConvTranspose3dReLU(Carrier, convt3d.nn.LazyConvTranspose3dReLU):
    """Becomes a :class:`FusedConvTranspose3dReLU` at its first call."""

    cls_to_become = FusedConvTranspose3dReLU


class FusedReLU(Carried, nn.Identity):
    """In the place of a ReLU that the layer before it computes."""

    original_class = nn.ReLU


def carry(layer: nn.Module, core: type[nn.Module], partners: dict[nn.Module, type[nn.Module]]) -> None:
    """Let a layer run `core`, which computes its partners as well; those get the classes beside them."""
    set_core_class(layer, core)
    # Tuples, as modules would become children; copies and pickles of the model keep them together.
    vars(layer)[PARTNERS] = tuple(partners)
    for partner, cls in partners.items():
        partner.__class__ = cls
        vars(partner)[CARRIER] = (layer,)


def separate(layer: Any) -> None:
    """Undo :func:`carry`: convt3d still computes the layer, and each partner works again."""
    for partner in vars(layer).pop(PARTNERS):
        partner.__class__ = partner.original_class
        del vars(partner)[CARRIER]
    layer.forget()
    set_core_class(layer, WITHOUT_RELU.get(core_class(layer), convt3d.nn.ConvTranspose3d))


OURS: dict[type[nn.Module], type[nn.Module]] = {
    nn.ConvTranspose3d: convt3d.nn.ConvTranspose3d,
    nn.LazyConvTranspose3d: convt3d.nn.LazyConvTranspose3d,
    PlainConvTranspose3dReLU: convt3d.nn.ConvTranspose3dReLU,
    PlainLazyConvTranspose3dReLU: convt3d.nn.LazyConvTranspose3dReLU,
    PlainConvTranspose3dGroupNorm: convt3d.nn.ConvTranspose3dGroupNorm,
    PlainConvTranspose3dReLUGroupNorm: convt3d.nn.ConvTranspose3dReLUGroupNorm,
}
PLAIN = {ours: plain for plain, ours in OURS.items()}
WITH_RELU: dict[type[nn.Module], type[nn.Module]] = {
    convt3d.nn.ConvTranspose3d: FusedConvTranspose3dReLU,
    convt3d.nn.LazyConvTranspose3d: FusedLazyConvTranspose3dReLU,
}
WITHOUT_RELU = {with_relu: without for without, with_relu in WITH_RELU.items()}


def written_class(module: nn.Module) -> type[nn.Module]:
    """The module's class as its author wrote it, under those of parametrizations and of this file."""
    cls = type(module)
    if parametrize.is_parametrized(module):
        cls = cls.__bases__[0]
    return cls.__dict__.get("_convt3d_written_class", cls)


def core_class(module: nn.Module) -> type[nn.Module] | None:
    """The class of PyTorch's or of this package whose `forward` the module runs; None where it runs one of its own."""
    if "forward" in vars(module):
        return None
    return _core_of(type(module))


def _core_of(written: type[nn.Module]) -> type[nn.Module] | None:
    for cls in written.__mro__:
        if "_convt3d_core_class" in vars(cls):
            return cls._convt3d_core_class
        if cls in OURS or cls in PLAIN or cls in WITHOUT_RELU:
            return cls
        if "forward" in vars(cls):
            return None
    return None


def set_core_class(module: nn.Module, core: type[nn.Module]) -> None:
    """Make the module run `forward` of `core`; subclasses and parametrizations stay on top of it."""
    written = written_class(module)
    cls = (
        core
        if written in OURS or written in PLAIN or written.__module__.startswith("convt3d._convert")
        else _joined(written, core)
    )
    if parametrize.is_parametrized(module):
        # A class of this one module, and of its copies: hence a new one.
        parametrized = type(module)
        own = {name: value for name, value in vars(parametrized).items() if name not in ("__dict__", "__weakref__")}
        cls = type(f"Parametrized{cls.__name__}", (cls,), own)
    module.__class__ = cls


def _new_joined(written: type[nn.Module], core: type[nn.Module]) -> nn.Module:
    cls = _joined(written, core)
    return cls.__new__(cls)


def _reduce_joined(self: nn.Module, protocol: int) -> tuple[Any, ...]:
    cls = type(self)
    return _new_joined, (cls._convt3d_written_class, cls._convt3d_core_class), self.__getstate__()


@functools.cache
def _joined(written: type[nn.Module], core: type[nn.Module]) -> type[nn.Module]:
    """A subclass that runs `forward` of `core`, for a `written` that has none of its own."""
    if _core_of(written) is core:
        return written
    bases = (written,) if core in written.__mro__ else (written, core)
    own = {
        "forward": core.forward,
        "_convt3d_written_class": written,
        "_convt3d_core_class": core,
        "__module__": written.__module__,
        "__reduce_ex__": _reduce_joined,
    }
    return type(written.__name__, bases, own)


def unsupported(module: nn.ConvTranspose3d) -> str:
    """Why the operators cannot compute this layer where it is; empty where they can."""
    owner: Any = module
    if parametrize.is_parametrized(module, "weight"):  # computing the weight would change some parametrizations' state
        owner = owner.parametrizations["weight"]
    weight = next(owner.parameters(recurse=False))
    dtype = str(weight.dtype).removeprefix("torch.")
    if weight.dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        return f"its dtype is {dtype}; convt3d has float32, float64, float16 and bfloat16"
    if weight.device.type not in ("cpu", "cuda", "meta"):
        return f"it is on the device {weight.device.type}; convt3d has kernels for cpu and cuda"
    if weight.device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(weight.device)
        if reason := _library.why_not_on((major, minor)):
            return f"it is on a GPU of compute capability {major}.{minor}; {reason}"
    return ""

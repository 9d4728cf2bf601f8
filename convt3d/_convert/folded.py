# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return"
# (as in convt3d/nn.py: PyTorch's annotations of its own modules do not fit each other)
"""A transposed convolution that carries the BatchNorm behind it, for inference.

Both modules keep their parameters and statistics, so that the state_dict is that of the original model and the way back
is exact. What the convolution computes with, `folded_weight` and `folded_bias`, are buffers outside of the state_dict,
computed again where a call finds other parameters or statistics than those that they were computed from.
"""

import weakref
from typing import Any, ClassVar

import torch
from torch import Tensor, fx, nn

from convt3d import functional
from convt3d._convert.layers import PARTNERS, Carried, Carrier
from convt3d._registrations import torch_internals
from convt3d.nn import ConvTranspose3d

Sources = tuple[Any, ...]  # weight and bias of the layer; weight, bias, mean and variance of the BatchNorm


class _Stamp:
    """Which tensors and eps something was computed from, and what they held; copies of it know of none."""

    def __init__(self, tensors: Sources = (), eps: float | None = None) -> None:
        self._of = [None if tensor is None else (weakref.ref(tensor), *_content(tensor)) for tensor in tensors]
        self._eps = eps

    def fits(self, tensors: Sources, eps: float) -> bool:
        """Whether they are the same, and nothing wrote to them since."""
        return self._eps == eps and all(
            known is tensor
            if known is None or tensor is None
            else (known[0]() is tensor and known[1:] == _content(tensor))
            for known, tensor in zip(self._of, tensors, strict=True)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _Stamp, ()

    def __deepcopy__(self, memo: Any) -> "_Stamp":
        return _Stamp()


def _content(tensor: Tensor) -> tuple[Any, ...]:
    """Changes where the values may have; not by what writes through `tensor.data`."""
    return tensor._version, tensor.data_ptr(), tensor.dtype, tensor.device, tensor.stride()


class FoldedConvTranspose3d(Carrier, ConvTranspose3d):
    """:class:`convt3d.nn.ConvTranspose3d` followed by the BatchNorm3d that it was converted with, for inference."""

    # So that TorchScript compiles only the branch that is taken.
    __constants__: ClassVar[list[str]] = [*ConvTranspose3d.__constants__, "relu"]
    relu = False

    def fold(self) -> None:
        """Compute weight and bias anew from the parameters and the statistics as they are now."""
        sources = self._sources()
        with torch.no_grad():
            weight, bias = self._folded_here(sources)
        self.register_buffer("folded_weight", weight, persistent=False)
        self.register_buffer("folded_bias", bias, persistent=False)
        vars(self)["_stamp"] = _Stamp() if _untracked(sources) else _Stamp(sources, self._eps())

    def forget(self) -> None:
        """Drop the folded weights."""
        del self.folded_weight, self.folded_bias
        del vars(self)["_stamp"]

    def _sources(self) -> Sources:
        norm = vars(self)[PARTNERS][0]
        return self.weight, self.bias, norm.weight, norm.bias, norm.running_mean, norm.running_var

    def _eps(self) -> float:
        return vars(self)[PARTNERS][0].eps

    def _folded(self, sources: Sources) -> tuple[Tensor, Tensor]:
        """Weight and bias; the sources may be those of torch.fx, of which nothing is known."""
        weight, *others = sources
        doubles: list[Any] = [None if tensor is None else tensor.double() for tensor in others]
        bias, scale, shift, mean, variance = doubles
        factor = torch.rsqrt(variance + self._eps())
        if scale is not None:
            factor = scale * factor
        folded_bias = (-mean if bias is None else bias - mean) * factor
        if shift is not None:
            folded_bias = folded_bias + shift
        # [groups, C_in/groups, C_out/groups, taps] times [groups, 1, C_out/groups, 1]
        grouped = weight.double().reshape(
            self.groups, self.in_channels // self.groups, self.out_channels // self.groups, -1
        )
        folded_weight = grouped * factor.reshape(self.groups, 1, -1, 1)
        shape = (self.in_channels, self.out_channels // self.groups, *self.kernel_size)
        return folded_weight.reshape(shape).to(weight.dtype), folded_bias.to(weight.dtype)

    def _folded_here(self, sources: Sources) -> tuple[Tensor, Tensor]:
        """The same of tensors, in the memory format of the weight."""
        weight, *others = sources
        # The replicas of DataParallel refer to the BatchNorm of the original, on another device.
        here = (None if other is None else other.to(weight.device) for other in others)
        folded_weight, folded_bias = self._folded((weight, *here))
        if not weight.is_contiguous() and not torch_internals.in_function_transform():
            folded_weight = torch.empty_like(weight, requires_grad=False).copy_(folded_weight)
        return folded_weight, folded_bias

    def _current(self) -> tuple[Tensor, Tensor]:
        """Weight and bias from the parameters as they are at this call."""
        sources = self._sources()
        weight = sources[0]
        if isinstance(weight, fx.Proxy):
            return self._folded(sources)
        if torch.compiler.is_compiling() or torch_internals.in_function_transform() or _untracked(sources):
            return self._folded_here(sources)
        if not vars(self)["_stamp"].fits(sources, self._eps()):
            self.fold()
        buffers: tuple[Any, Any] = self.folded_weight, self.folded_bias
        return buffers

    def __prepare_scriptable__(self) -> "FoldedConvTranspose3d":
        """Called by torch.jit.script, whose modules keep the folded weights as they are then."""
        self._current()
        return self

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """BatchNorm, and ReLU where the class has it, of the transposed convolution of `input`."""
        if self.training:
            _refuse()
        if not torch.jit.is_scripting():
            _check_gradients(input, self._sources())
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        if not torch.jit.is_scripting():
            function = functional.conv_transpose3d_relu if self.relu else functional.conv_transpose3d
            return function(
                input, *self._current(), self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        weight, bias = self.folded_weight, self.folded_bias
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        if self.relu:
            output = torch.ops.convt3d.conv_transpose3d_relu(
                batch, weight, bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        else:
            output = torch.ops.convt3d.conv_transpose3d(
                batch, weight, bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        return output.squeeze(0) if input.dim() == 4 else output


class FoldedConvTranspose3dReLU(FoldedConvTranspose3d):
    """:class:`FoldedConvTranspose3d` followed by ReLU, in one kernel."""

    relu = True


class FoldedBatchNorm3d(Carried, nn.BatchNorm3d):
    """In the place of a BatchNorm3d that the layer before it carries; keeps its parameters and statistics."""

    original_class = nn.BatchNorm3d

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        if self.training:
            _refuse()
        if not torch.jit.is_scripting():
            _check_gradients(input, (self.weight, self.bias))
        return input


def _untracked(tensors: Sources) -> bool:
    """Whether nothing tells when they change: subclasses, inference tensors, and those of DataParallel's replicas."""
    return any(
        tensor is not None and (type(tensor) not in (Tensor, nn.Parameter) or tensor.is_inference())
        for tensor in tensors
    )


def _check_gradients(input: Tensor, tensors: Sources) -> None:
    """Refuse where gradients would be lost; what torch.fx traces computes with the parameters themselves."""
    if (
        torch.is_grad_enabled()
        and not isinstance(input, fx.Proxy)
        and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    ):
        _refuse()


def _refuse() -> None:
    raise RuntimeError(
        "a layer with a folded BatchNorm is for inference: call model.eval() and run it under torch.no_grad() or "
        "torch.inference_mode(), or undo the folding with convt3d.revert(model)"
    )


def why_not(convolution: nn.Module, norm: nn.Module) -> str:
    """Why these two cannot become one; empty where they can."""
    if convolution.training or norm.training:
        return "in training mode a BatchNorm computes the statistics of each batch; call model.eval() first"
    if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
        return "the BatchNorm has no running statistics"
    if norm.num_features != convolution.out_channels:
        return f"the BatchNorm has {norm.num_features} features for {convolution.out_channels} channels"
    if not isinstance(convolution._parameters.get("weight"), nn.Parameter) or isinstance(
        convolution, nn.modules.lazy.LazyModuleMixin
    ):
        return "its weight is computed at each call, or not known yet"
    return ""

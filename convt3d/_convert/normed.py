# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return"
# (as in convt3d/nn.py: PyTorch's annotations of its own modules do not fit each other)
"""A transposed convolution that computes the norm behind it, with the activations before and behind the norm.

All modules keep their parameters and their settings, which are read at each call. TorchScript knows nothing of
partners: there, every module computes what its author wrote, and only a ReLU before the norm goes with the convolution.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

from convt3d import functional
from convt3d._arguments import output_size_of
from convt3d._convert.layers import PARTNERS, Carried, Carrier
from convt3d.nn import ConvTranspose3d

NORMS = (nn.GroupNorm, nn.InstanceNorm3d)
ACTIVATIONS = (nn.ReLU, nn.LeakyReLU)


class NormedConvTranspose3d(Carrier, ConvTranspose3d):
    """:class:`convt3d.nn.ConvTranspose3d` followed by the norm that it was converted with, and its activation."""

    # So that TorchScript compiles only the branch that is taken.
    __constants__: ClassVar[list[str]] = [*ConvTranspose3d.__constants__, "relu"]
    relu = False

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Norm and activation of the transposed convolution of `input`; TorchScript leaves them to their modules."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        if not torch.jit.is_scripting():
            return self._normed(input, output_padding)
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        if self.relu:
            output = torch.ops.convt3d.conv_transpose3d_relu(
                batch, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        else:
            output = torch.ops.convt3d.conv_transpose3d(
                batch, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        return output.squeeze(0) if input.dim() == 4 else output

    def _normed(self, input: Tensor, output_padding: Any) -> Tensor:
        norm, *behind = [partner for partner in vars(self)[PARTNERS] if not isinstance(partner, nn.Identity)]
        arguments = (
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )
        is_group_norm = isinstance(norm, nn.GroupNorm)
        known = not isinstance(input, fx.Proxy)
        if known and input.dim() == 4 and is_group_norm:
            # PyTorch's takes the channels for the batch.
            convolve = functional.conv_transpose3d_relu if self.relu else functional.conv_transpose3d
            output = norm.original_class.forward(norm, convolve(*arguments))
            for module in behind:
                output = module.original_class.forward(module, output)
            return output
        if known and not is_group_norm and output_size_of(*arguments) == (1, 1, 1):
            raise ValueError(
                "Expected more than 1 spatial element when training, got input size "
                f"{[*input.shape[:-4], self.out_channels, 1, 1, 1]}"
            )
        # The replicas of DataParallel refer to the norm of the original, on another device.
        weight, bias = (
            parameter if parameter is None or not known else parameter.to(input.device)
            for parameter in (norm.weight, norm.bias)
        )
        return functional.conv_transpose3d_group_norm(
            *arguments,
            num_groups=norm.num_groups if is_group_norm else norm.num_features,
            norm_weight=weight,
            norm_bias=bias,
            eps=norm.eps,
            relu=self.relu,
            negative_slope=_slope(behind[0]) if behind else 1.0,
            dtype=None if is_group_norm or not known else _autocast_dtype(input),
        )


class NormedConvTranspose3dReLU(NormedConvTranspose3d):
    """:class:`NormedConvTranspose3d` with a ReLU between convolution and norm."""

    relu = True


class FusedGroupNorm(Carried, nn.GroupNorm):
    """In the place of a GroupNorm that the layer before it computes; keeps its parameters."""

    original_class = nn.GroupNorm

    def forward(self, input: Tensor) -> Tensor:
        """The input; in TorchScript the norm."""
        if not torch.jit.is_scripting():
            return input
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)


class FusedInstanceNorm3d(Carried, nn.InstanceNorm3d):
    """In the place of an InstanceNorm3d that the layer before it computes; keeps its parameters."""

    original_class = nn.InstanceNorm3d

    def forward(self, input: Tensor) -> Tensor:
        """The input; in TorchScript the norm."""
        if not torch.jit.is_scripting():
            return input
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        output = F.instance_norm(batch, None, None, self.weight, self.bias, True, 0.0, self.eps)
        return output.squeeze(0) if input.dim() == 4 else output


class NormedReLU(Carried, nn.ReLU):
    """In the place of a ReLU behind a norm."""

    original_class = nn.ReLU

    def forward(self, input: Tensor) -> Tensor:
        """The input; in TorchScript the ReLU."""
        if not torch.jit.is_scripting():
            return input
        return F.relu(input)


class NormedLeakyReLU(Carried, nn.LeakyReLU):
    """In the place of a LeakyReLU behind a norm."""

    original_class = nn.LeakyReLU

    def forward(self, input: Tensor) -> Tensor:
        """The input; in TorchScript the LeakyReLU."""
        if not torch.jit.is_scripting():
            return input
        return F.leaky_relu(input, self.negative_slope)


_FUSED: dict[type[nn.Module], type[nn.Module]] = {
    cls.original_class: cls for cls in (FusedGroupNorm, FusedInstanceNorm3d, NormedReLU, NormedLeakyReLU)
}


def partners_of(norm: nn.Module, activation: nn.Module | None) -> dict[nn.Module, type[nn.Module]]:
    """The norm and what is behind it, and the classes that they get."""
    return {module: _FUSED[type(module)] for module in (norm, activation) if module is not None}


def why_not(convolution: nn.Module, norm: nn.Module) -> str:
    """Why the convolution cannot compute the norm; empty where it can."""
    if isinstance(convolution, nn.modules.lazy.LazyModuleMixin):
        return "the weight of the convolution is not known yet"
    if isinstance(norm, nn.InstanceNorm3d) and (norm.track_running_stats or norm.running_mean is not None):
        return "it has running statistics, which a group norm has not"
    channels = norm.num_channels if isinstance(norm, nn.GroupNorm) else norm.num_features
    if channels != convolution.out_channels:
        return f"it is for {channels} channels and gets {convolution.out_channels}"
    if "weight" not in norm._parameters or "bias" not in norm._parameters:
        return "its parameters are computed at each call"
    return ""


def _slope(activation: nn.Module) -> float:
    return 0.0 if isinstance(activation, nn.ReLU) else float(activation.negative_slope)


def _autocast_dtype(input: Tensor) -> torch.dtype | None:
    """Of an instance norm, which autocast leaves in the dtype of the convolution."""
    device_type = input.device.type
    is_cast = torch.is_autocast_enabled(device_type) and input.dtype != torch.float64
    return torch.get_autocast_dtype(device_type) if is_cast else None

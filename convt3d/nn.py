# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return, no-untyped-call"
# (PyTorch's annotations of its own modules do not fit each other, and TorchScript takes no casts)
"""Modules of the package: `torch.nn.ConvTranspose3d` on the kernels of convt3d, without and with ReLU and norm."""

import torch
from torch import Tensor

from convt3d import functional

__all__ = [
    "ConvTranspose3d",
    "ConvTranspose3dGroupNorm",
    "ConvTranspose3dReLU",
    "ConvTranspose3dReLUGroupNorm",
    "LazyConvTranspose3d",
    "LazyConvTranspose3dReLU",
]


class ConvTranspose3d(torch.nn.ConvTranspose3d):
    """Drop-in replacement of :class:`torch.nn.ConvTranspose3d`: same arguments, state_dict and initialisation.

    Shapes:
        input (N, C_in, D, H, W) or (C_in, D, H, W), weight (C_in, C_out/groups, kD, kH, kW), bias (C_out);
        output (N, C_out, D', H', W') or (C_out, D', H', W'), see :func:`convt3d.conv_transpose3d`.
    """

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """The transposed convolution of `input`; `output_size` (D', H', W') replaces the module's output_padding.

        Raises:
            RuntimeError: the input does not fit the module; the text names the argument, its value and what would be
                valid.
            ValueError: `output_size` is out of range.
            torch.OutOfMemoryError: the GPU's memory does not suffice.
        """
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        if not torch.jit.is_scripting():
            return functional.conv_transpose3d(
                input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        output = torch.ops.convt3d.conv_transpose3d(
            batch, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )
        return output.squeeze(0) if input.dim() == 4 else output


class ConvTranspose3dReLU(ConvTranspose3d):
    """:class:`ConvTranspose3d` followed by ReLU, in one kernel.

    The state_dict is that of the convolution alone, so that weights of `Sequential(ConvTranspose3d(...), ReLU())` fit.
    """

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """ReLU of the transposed convolution of `input`; `output_size` (D', H', W') replaces the output_padding."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        if not torch.jit.is_scripting():
            return functional.conv_transpose3d_relu(
                input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
            )
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        output = torch.ops.convt3d.conv_transpose3d_relu(
            batch, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )
        return output.squeeze(0) if input.dim() == 4 else output


class LazyConvTranspose3d(torch.nn.LazyConvTranspose3d, ConvTranspose3d):
    """:class:`torch.nn.LazyConvTranspose3d` that becomes a :class:`ConvTranspose3d` at its first call."""

    cls_to_become = ConvTranspose3d


class LazyConvTranspose3dReLU(torch.nn.LazyConvTranspose3d, ConvTranspose3dReLU):
    """:class:`torch.nn.LazyConvTranspose3d` that becomes a :class:`ConvTranspose3dReLU` at its first call."""

    cls_to_become = ConvTranspose3dReLU


class ConvTranspose3dGroupNorm(ConvTranspose3d):
    """:class:`ConvTranspose3d`, then :class:`torch.nn.GroupNorm`, with a ReLU between or an activation behind.

    Args:
        in_channels: this and all up to `padding_mode` as in :class:`torch.nn.ConvTranspose3d`.
        out_channels: see in_channels.
        kernel_size: see in_channels.
        stride: see in_channels.
        padding: see in_channels.
        output_padding: see in_channels.
        groups: of the convolution; see in_channels.
        bias: of the convolution; see in_channels.
        dilation: see in_channels.
        padding_mode: see in_channels.
        num_groups: of the norm; must divide out_channels. out_channels makes it
            `InstanceNorm3d(track_running_stats=False)`.
        eps: added to the variance.
        affine: whether the norm has a weight and a bias, the parameters `norm_weight` and `norm_bias`.
        relu: whether there is a ReLU between convolution and norm.
        negative_slope: of a LeakyReLU behind the norm; 0 makes it a ReLU, 1 leaves the norm alone.
        device: of the parameters.
        dtype: of the parameters.

    Shapes:
        those of :class:`ConvTranspose3d`; norm_weight and norm_bias (C_out). See
        :func:`convt3d.conv_transpose3d_group_norm`.

    Raises:
        ValueError: num_groups does not divide out_channels.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        output_padding: int | tuple[int, int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, int, int] = 1,
        padding_mode: str = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_groups: int,
        eps: float = 1e-5,
        affine: bool = True,
        relu: bool = False,
        negative_slope: float = 1.0,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
        )
        if num_groups < 1 or out_channels % num_groups != 0:
            raise ValueError(f"num_groups must divide out_channels = {out_channels}, got {num_groups}")
        self.num_groups, self.eps = num_groups, eps
        self.relu, self.negative_slope = relu, float(negative_slope)
        if affine:
            self.norm_weight = torch.nn.Parameter(torch.ones(out_channels, device=device, dtype=dtype))
            self.norm_bias = torch.nn.Parameter(torch.zeros(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("norm_weight", None)
            self.register_parameter("norm_bias", None)

    def extra_repr(self) -> str:
        """The arguments, those of the norm behind those of the convolution."""
        text = f"{super().extra_repr()}, num_groups={self.num_groups}, eps={self.eps}"
        text += ", affine=False" if self.norm_weight is None else ""
        text += ", relu=True" if self.relu else ""
        return text + (f", negative_slope={self.negative_slope}" if self.negative_slope != 1 else "")

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Convolution, norm and activation of `input`; `output_size` (D', H', W') replaces the output_padding."""
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        if not torch.jit.is_scripting():
            return functional.conv_transpose3d_group_norm(
                input,
                self.weight,
                self.bias,
                self.stride,
                self.padding,
                output_padding,
                self.groups,
                self.dilation,
                num_groups=self.num_groups,
                norm_weight=self.norm_weight,
                norm_bias=self.norm_bias,
                eps=self.eps,
                relu=self.relu,
                negative_slope=self.negative_slope,
            )
        batch = input.unsqueeze(0) if input.dim() == 4 else input
        output = torch.ops.convt3d.conv_transpose3d_group_norm(
            batch,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
            self.num_groups,
            self.norm_weight,
            self.norm_bias,
            self.eps,
            self.relu,
            self.negative_slope,
        )
        if output.numel() == self.num_groups:
            raise ValueError(f"Expected more than 1 value per channel when training, got output size {output.shape}")
        return output.squeeze(0) if input.dim() == 4 else output


class ConvTranspose3dReLUGroupNorm(ConvTranspose3dGroupNorm):
    """:class:`ConvTranspose3d`, then ReLU, then :class:`torch.nn.GroupNorm`, as one operator.

    Arguments and shapes are those of :class:`ConvTranspose3dGroupNorm`, whose `relu` is True here.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        output_padding: int | tuple[int, int, int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, int, int] = 1,
        padding_mode: str = "zeros",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        num_groups: int,
        eps: float = 1e-5,
        affine: bool = True,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            groups,
            bias,
            dilation,
            padding_mode,
            device,
            dtype,
            num_groups=num_groups,
            eps=eps,
            affine=affine,
            relu=True,
        )

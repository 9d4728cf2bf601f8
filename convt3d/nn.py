# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return"
# (PyTorch's annotations of its own modules do not fit each other, and TorchScript takes no casts)
"""Modules of the package: `torch.nn.ConvTranspose3d` on the kernels of convt3d, without and with ReLU."""

import torch
from torch import Tensor

from convt3d import functional

__all__ = ["ConvTranspose3d", "ConvTranspose3dReLU", "LazyConvTranspose3d", "LazyConvTranspose3dReLU"]


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

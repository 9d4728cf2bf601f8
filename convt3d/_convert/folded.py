# mypy: disable-error-code="arg-type, attr-defined, misc, no-any-return"
# (as in convt3d/nn.py: PyTorch's annotations of its own modules do not fit each other)
"""A transposed convolution that carries the BatchNorm behind it, for inference.

Both modules keep their parameters and statistics, so that the state_dict is that of the original model and the way back
is exact. What the convolution computes with, `folded_weight` and `folded_bias`, are buffers outside of the state_dict,
computed again after load_state_dict.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from convt3d import functional
from convt3d.nn import ConvTranspose3d


class FoldedConvTranspose3d(ConvTranspose3d):
    """:class:`convt3d.nn.ConvTranspose3d` followed by the BatchNorm3d that it was converted with, for inference."""

    # So that TorchScript compiles only the branch that is taken.
    __constants__: ClassVar[list[str]] = [*ConvTranspose3d.__constants__, "relu"]
    relu = False

    def fold(self) -> None:
        """Compute weight and bias anew from the parameters and the statistics as they are now."""
        (norm,) = self._folded_norm
        with torch.no_grad():
            scale = torch.rsqrt(norm.running_var.double() + norm.eps)
            if norm.weight is not None:
                scale = scale * norm.weight.double()
            bias = -norm.running_mean.double() if self.bias is None else self.bias.double() - norm.running_mean.double()
            bias = bias * scale
            if norm.bias is not None:
                bias = bias + norm.bias.double()
            # [groups, C_in/groups, C_out/groups, taps] times [groups, 1, C_out/groups, 1]
            grouped = self.weight.double().reshape(
                self.groups, -1, self.out_channels // self.groups, self.weight[0, 0].numel()
            )
            weight = (grouped * scale.reshape(self.groups, 1, -1, 1)).reshape(self.weight.shape)
            kept = torch.empty_like(self.weight)  # of the same memory format
            self.register_buffer("folded_weight", kept.copy_(weight), persistent=False)
            self.register_buffer("folded_bias", bias.to(self.weight.dtype), persistent=False)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self.fold()

    def _check_inference(self) -> None:
        trains = self.weight.requires_grad
        bias = self.bias
        if bias is not None:
            trains = trains or bias.requires_grad
        if self.training or (trains and torch.is_grad_enabled()):
            raise RuntimeError(
                "a layer with a folded BatchNorm is for inference: call model.eval() and run it under torch.no_grad() "
                "or torch.inference_mode(), or undo the folding with convt3d.revert(model)"
            )

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """BatchNorm, and ReLU where the class has it, of the transposed convolution of `input`."""
        self._check_inference()
        output_padding = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, 3, self.dilation
        )
        weight, bias = self.folded_weight, self.folded_bias
        if not torch.jit.is_scripting():
            function = functional.conv_transpose3d_relu if self.relu else functional.conv_transpose3d
            return function(input, weight, bias, self.stride, self.padding, output_padding, self.groups, self.dilation)
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


class FoldedBatchNorm3d(nn.BatchNorm3d):
    """In the place of a BatchNorm3d that the layer before it carries; keeps its parameters and statistics."""

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        (convolution,) = self._folded_into
        convolution.fold()

    def forward(self, input: Tensor) -> Tensor:
        """The input."""
        weight = self.weight
        trains = weight is not None and weight.requires_grad
        if self.training or (trains and torch.is_grad_enabled()):
            raise RuntimeError(
                "a folded BatchNorm is for inference: call model.eval() and run it under torch.no_grad() or "
                "torch.inference_mode(), or undo the folding with convt3d.revert(model)"
            )
        return input


def fold(convolution: FoldedConvTranspose3d, norm: nn.Module) -> None:
    """Let the convolution carry the norm; both have their folded classes already."""
    # Tuples, as modules would become children; copies and pickles of the model keep the two together.
    vars(convolution)["_folded_norm"] = (norm,)
    vars(norm)["_folded_into"] = (convolution,)
    convolution.fold()


def unfold(convolution: FoldedConvTranspose3d) -> None:
    """Forget what :func:`fold` added."""
    del convolution.folded_weight, convolution.folded_bias, convolution._folded_norm


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

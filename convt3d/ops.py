"""The operators `torch.ops.convt3d.*` under names that editors and type checkers know; the stub beside it has them."""

from convt3d._registrations.registry import ops as _ops

__all__ = [
    "conv_transpose3d",
    "conv_transpose3d_backward",
    "conv_transpose3d_bias_grad",
    "conv_transpose3d_group_norm",
    "conv_transpose3d_group_norm_forward",
    "conv_transpose3d_input_grad",
    "conv_transpose3d_relu",
    "conv_transpose3d_relu_group_norm",
    "conv_transpose3d_weight_grad",
    "group_norm_backward",
]

conv_transpose3d = _ops.conv_transpose3d
conv_transpose3d_relu = _ops.conv_transpose3d_relu
conv_transpose3d_input_grad = _ops.conv_transpose3d_input_grad
conv_transpose3d_weight_grad = _ops.conv_transpose3d_weight_grad
conv_transpose3d_bias_grad = _ops.conv_transpose3d_bias_grad
conv_transpose3d_backward = _ops.conv_transpose3d_backward
conv_transpose3d_relu_group_norm = _ops.conv_transpose3d_relu_group_norm
conv_transpose3d_group_norm = _ops.conv_transpose3d_group_norm
conv_transpose3d_group_norm_forward = _ops.conv_transpose3d_group_norm_forward
group_norm_backward = _ops.group_norm_backward

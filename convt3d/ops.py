"""The operators `torch.ops.convt3d.*` under names that editors and type checkers know; the stub beside it has them."""

import ast as _ast
import contextlib as _contextlib
from pathlib import Path as _Path

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


def _document() -> None:
    """Give the operators their signatures and docstrings in the stub, for `help`; frozen programs may lack the file."""
    with _contextlib.suppress(OSError):
        stub = _ast.parse(_Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
        for node in stub.body:
            if isinstance(node, _ast.FunctionDef):
                returned = "" if node.returns is None else f" -> {_ast.unparse(node.returns)}"
                signature = f"{node.name}({_ast.unparse(node.args)}){returned}"
                globals()[node.name].__doc__ = f"{signature}\n\n{_ast.get_docstring(node)}"


_document()

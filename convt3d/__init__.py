"""convt3d: fast 3D transposed convolution for PyTorch.

Importing the package registers the operators `torch.ops.convt3d.*`; `convt3d.conv_transpose3d` is equivalent to
`torch.nn.functional.conv_transpose3d`, `convt3d.nn.ConvTranspose3d` to `torch.nn.ConvTranspose3d`;
`convt3d.convert` puts a whole model on it, and `convt3d.revert` takes it back.
"""

import sys as _sys

from convt3d import _checkout
from convt3d._version import __version__

__all__ = [
    "ExplainedCall",
    "Explanation",
    "Layer",
    "ModelExplanation",
    "Report",
    "__version__",
    "conv_transpose3d",
    "conv_transpose3d_group_norm",
    "conv_transpose3d_relu",
    "conv_transpose3d_relu_group_norm",
    "convert",
    "explain",
    "library_path",
    "nn",
    "ops",
    "revert",
]

if not _checkout.use_installed_package():
    try:
        from convt3d import nn, ops
        from convt3d._convert import Layer, Report, convert, revert
        from convt3d._explain import ExplainedCall, Explanation, ModelExplanation, explain
        from convt3d._library import library_path
        from convt3d.functional import (
            conv_transpose3d,
            conv_transpose3d_group_norm,
            conv_transpose3d_relu,
            conv_transpose3d_relu_group_norm,
        )
    except ImportError:
        # `python -m convt3d.collect_env` imports the package first, and must run to say what is wrong with it.
        if _sys.argv[0] != "-m" or "convt3d.collect_env" not in _sys.orig_argv:
            raise


def __dir__() -> list[str]:
    """The interface, for completion: without the modules that importing it has loaded."""
    return sorted(__all__)

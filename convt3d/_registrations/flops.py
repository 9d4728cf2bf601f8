"""Floating-point operations of the operators for `torch.utils.flop_counter.FlopCounterMode`, by PyTorch's formula.

PyTorch's module of flop counters imports Triton where that is installed, so it is not imported from here: the formulas
are registered when somebody else imports it.
"""

import importlib.util
import math
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from convt3d._registrations.registry import ops

_MODULE = "torch.utils.flop_counter"


def _flops(input: Sequence[int], weight: Sequence[int]) -> int:
    """Two for each input voxel and element of the weight, also where padding cuts the product off, as in PyTorch."""
    batch, _, *size = input
    return 2 * batch * math.prod(size) * math.prod(weight)


def _forward(input: Sequence[int], weight: Sequence[int], *_args: Any, out_shape: Any = None, **_kwargs: Any) -> int:
    return _flops(input, weight)


def _input_grad(
    grad_output: Sequence[int], weight: Sequence[int], *_args: Any, out_shape: Any = None, **_kwargs: Any
) -> int:
    return _flops(out_shape, weight)


def _weight_grad(
    grad_output: Sequence[int], input: Sequence[int], *_args: Any, out_shape: Any = None, **_kwargs: Any
) -> int:
    return _flops(input, out_shape)


def _register(flop_counter: Any) -> None:
    register = flop_counter.register_flop_formula
    register([ops.conv_transpose3d, ops.conv_transpose3d_relu])(_forward)
    register(ops.conv_transpose3d_input_grad)(_input_grad)
    register(ops.conv_transpose3d_weight_grad)(_weight_grad)


class _AtImport:
    """A finder of modules that has the formulas registered as soon as PyTorch's module is there, and is gone then."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(cls)
        spec = importlib.util.find_spec(name)
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _register(module)

            loader.exec_module = exec_module
        return spec


if _MODULE in sys.modules:
    _register(sys.modules[_MODULE])
else:
    sys.meta_path.insert(0, _AtImport)

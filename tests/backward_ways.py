"""Problems whose gradients are computed in several ways, and what asks for one of these."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING

import torch
from precisions import BackwardOperands, backward_operands
from reference import Problem
from torch import Tensor

from convt3d._explain.operands import Operand
from convt3d._layer import Layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("small", 2, 64, 48, (6, 7, 5), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 0, 1)),
        Problem("channels", 1, 128, 96, (5, 6, 7), (2, 2, 2), (2, 2, 2)),
        Problem("anisotropic", 2, 40, 24, (4, 9, 11), (1, 3, 4), (1, 2, 2), (0, 1, 1)),
        Problem("groups", 3, 48, 32, (5, 4, 9), (3, 2, 3), (2, 2, 1), (1, 0, 1), groups=2),
        Problem("padded_channels", 2, 20, 12, (7, 5, 6), (3, 3, 3), (1, 1, 1), (1, 1, 1)),
        Problem("dilated", 2, 32, 40, (6, 7, 8), (3, 2, 3), (2, 1, 2), (2, 0, 1), dilation=(2, 1, 2)),
        Problem("many", 2, 64, 64, (12, 17, 31), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
        # Without a mask by patches, and with one by tiles; by tiles alone.
        Problem("depthwise", 3, 20, 20, (4, 9, 7), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 0, 0), groups=20),
        Problem("depthwise_tiles", 2, 12, 12, (5, 6, 7), (4, 3, 5), (2, 1, 2), (1, 1, 2), (0, 0, 1), groups=12),
    )
}


def operand(tensor: Tensor) -> Operand:
    return Operand(tuple(tensor.stride()), tensor.data_ptr() % 16)


def layer_of(problem: Problem, *, bias: bool) -> Layer:
    return Layer(
        "",
        batch=problem.batch,
        in_channels=problem.in_channels,
        out_channels=problem.out_channels,
        input_size=problem.input_size,
        kernel_size=problem.kernel_size,
        stride=problem.stride,
        padding=problem.padding,
        output_padding=problem.output_padding,
        dilation=problem.dilation,
        groups=problem.groups,
        bias=bias,
    )


@contextlib.contextmanager
def in_precision(precision: str) -> Iterator[None]:
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=precision == "tf32"):
        yield


ROUNDS_OF_ALIKE_IMAGES = {"fp16": 2, "tf32": 3}


def alike_images(in_channels: int, precision: str) -> tuple[tuple[Problem, BackwardOperands], ...]:
    """A problem of one image, and one of more such images, all alike, than may be copied at a time; both in NCDHW."""
    one = Problem("one", 1, in_channels, 40, (40, 41, 64), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1))
    images = 6 if precision == "fp16" else 3
    (grad_output, input, weight), _ = backward_operands(one, precision, "NCDHW", integers=True)
    repeated = (grad_output.repeat(images, 1, 1, 1, 1), input.repeat(images, 1, 1, 1, 1), weight)
    return (one, (grad_output, input, weight)), (dataclasses.replace(one, name="all", batch=images), repeated)


@functools.cache  # so that no call takes memory that was poisoned for its results
def _factor(device: torch.device) -> Tensor:
    return torch.randn(2048, 2048, device=device)


@contextlib.contextmanager
def there_for_a_moment(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> Iterator[None]:
    """Around a call: tensors get their values right before it in the stream, behind a long kernel, and lose them."""
    factor = _factor(tensors[0].device)
    for tensor in tensors:
        tensor.fill_(float("nan"))
    torch.mm(factor, factor)
    for tensor, value in zip(tensors, values, strict=True):
        tensor.copy_(value)
    yield
    for tensor in tensors:
        tensor.fill_(float("nan"))

"""The tensors of a call, as far as plans know them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convt3d._layer import Layer


@dataclass(frozen=True)
class Operand:
    """A tensor of a call: its strides, and its address modulo the widest access of any kernel."""

    strides: tuple[int, ...]
    address: int = 0


@dataclass(frozen=True)
class Operands:
    """The tensors of a call.

    Attributes:
        first: the input, or grad_output.
        second: the weight or, of the weight gradient and of a backward, the input; None of the bias gradient.
        mask: of gradients: the output of the forward with ReLU, where there is one.
        result: what is written; of a backward, grad_input.
        weight: of a backward alone; None: nothing is known of it.
    """

    first: Operand
    second: Operand | None
    mask: Operand | None
    result: Operand
    weight: Operand | None = None


def dense_operands(layer: Layer, operator: str, layout: str, *, masked: bool = False) -> Operands:
    """Those of a call whose tensors are all dense in a layout."""
    input, output = (dense(shape, layout) for shape in (layer.input_shape, layer.output_shape))
    weight = dense(layer.weight_shape, layout)
    mask = output if masked else None
    if operator == "forward":
        return Operands(input, weight, None, output)
    if operator == "input_grad":
        return Operands(output, weight, mask, input)
    if operator == "weight_grad":
        return Operands(output, input, mask, weight)
    if operator != "bias_grad":
        return Operands(output, input, mask, input, weight)
    return Operands(output, None, mask, Operand((0, 1, 0, 0, 0)))


def dense(shape: Sequence[int], layout: str) -> Operand:
    """A tensor without gaps, aligned."""
    order = (0, 2, 3, 4, 1) if layout == "NDHWC" else (0, 1, 2, 3, 4)
    strides = [0] * 5
    extent = 1
    for dim in reversed(order):
        strides[dim] = extent
        extent *= shape[dim]
    return Operand(tuple(strides))

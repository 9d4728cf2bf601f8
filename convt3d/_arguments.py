"""Arguments of the functions: what they may be in Python, and the sizes that follow from them."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

Ints = int | Sequence[int]


THREE = "an int or 3 ints (depth, height, width)"


def integer(name: str, valid: str, value: Any) -> int:
    """`value` as an int: also NumPy's integers and tensors of one integer, but nothing that is not a whole number."""
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return value  # type: ignore[return-value]
    if type(value).__name__ != "bool":  # Python's, and NumPy's
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{name} must be {valid}, got {value!r} of type {type(value).__name__}")


def ints(name: str, value: Any) -> Sequence[int]:
    """`value` as the dispatcher takes it, which checks the elements of a sequence itself."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    size = integer(name, THREE, value)
    return size, size, size


def triple(name: str, value: Sequence[int]) -> tuple[int, int, int]:
    if len(value) not in (1, 3):
        raise TypeError(f"{name} must be {THREE}, got {value!r}")
    first, *others = value
    return (first, *others) if others else (first, first, first)  # type: ignore[return-value]


def output_size_of(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """D', H', W' of a call with these arguments."""
    smallest = _smallest_output(input, weight, stride, padding, dilation)
    return tuple(low + more for low, more in zip(smallest, triple("output_padding", output_padding), strict=True))


def _smallest_output(
    input: Tensor, weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[int, ...]:
    """The size of the output with an output_padding of 0."""
    steps, pads, spreads = triple("stride", stride), triple("padding", padding), triple("dilation", dilation)
    return tuple(
        (size - 1) * step - 2 * pad + spread * (kernel - 1) + 1
        for size, step, pad, spread, kernel in zip(
            input.shape[-3:], steps, pads, spreads, weight.shape[2:], strict=True
        )
    )


def output_padding_for(
    output_size: Sequence[int],
    input: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """The output_padding that gives `output_size`; the checks of torch.nn.ConvTranspose3d."""
    leading = input.dim() - 3
    wanted = tuple(output_size[leading:]) if len(output_size) == leading + 3 else tuple(output_size)
    if len(wanted) != 3:
        raise ValueError(
            f"output_size must have 3 or {leading + 3} elements for {input.dim()}-D input, got {len(output_size)}"
        )
    smallest = _smallest_output(input, weight, stride, padding, dilation)
    largest = tuple(size + step - 1 for size, step in zip(smallest, triple("stride", stride), strict=True))
    for size, low, high in zip(wanted, smallest, largest, strict=True):
        if size < low or size > high:
            raise ValueError(
                f"output_size must be between {smallest} and {largest} for input of size "
                f"{tuple(input.shape[leading:])}, got {wanted}"
            )
    return tuple(size - low for size, low in zip(wanted, smallest, strict=True))

"""The passes that are measured: which results each has, and what the hardware allows at best."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from convt3d._layer import COPY_BYTES_PER_SECOND, ELEMENT_BYTES, PEAK_FLOPS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping

    from convt3d._layer import Layer

SINGLE_PASSES = ("forward", "backward_input", "backward_weight")
OF_SLICE = "backward_of_slice"  # grad_output is a slice of the gradient of a concatenation
BACKWARD_PASSES = ("backward", OF_SLICE)
TRAINING_PASSES = ("training_step", "training_step_compiled")
JOINT_PASSES = (*BACKWARD_PASSES, *TRAINING_PASSES)
PASSES = (*SINGLE_PASSES, *JOINT_PASSES)

_GRADIENTS = ("backward_input", "backward_weight", "backward_bias")
# The parts of a joint pass, in the order of its results; the bias's gradient, last, is there where the layer has one.
PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(BACKWARD_PASSES, _GRADIENTS),
    **dict.fromkeys(TRAINING_PASSES, ("forward", *_GRADIENTS)),
}
GRADIENT_MASKS: Mapping[str, tuple[bool, bool, bool]] = {
    "backward_input": (True, False, False),
    "backward_weight": (False, True, False),
    "backward_bias": (False, False, True),
}


def parts(layer: Layer, pass_: str) -> tuple[str, ...]:
    """The single passes whose results a pass has, in their order."""
    return tuple(part for part in PARTS.get(pass_, (pass_,)) if part != "backward_bias" or layer.bias)


def output_mask(layer: Layer, pass_: str) -> list[bool]:
    """Which gradients of input, weight and bias a pass computes."""
    masks = [GRADIENT_MASKS[part] for part in parts(layer, pass_) if part in GRADIENT_MASKS]
    return [any(of_gradient) for of_gradient in zip(*masks, strict=True)]


def least_bytes(layer: Layer, pass_: str, precision: str) -> int:
    """Bytes that any implementation has to move.

    A backward reads grad_output, input and weight once and writes each gradient once; a training step has a forward,
    too, whose output the rest of the network reads before the backward begins.
    """
    forward = layer.bytes(precision)
    if pass_ in SINGLE_PASSES:
        return forward
    elements = [layer.input_shape, layer.weight_shape, *([(layer.out_channels,)] if layer.bias else [])]
    backward = forward + sum(math.prod(shape) for shape in elements) * ELEMENT_BYTES[precision]
    return backward if pass_ in BACKWARD_PASSES else forward + backward


def flops(layer: Layer, pass_: str) -> int:
    """Floating-point operations of a pass: two for each multiply-add in range; a backward has twice the forward's."""
    times = 1 if pass_ in SINGLE_PASSES else 2 if pass_ in BACKWARD_PASSES else 3
    return 2 * times * layer.multiply_adds


def limit_ms(layer: Layer, pass_: str, precision: str) -> float:
    """Milliseconds at best: bytes at the speed of a copy, or the arithmetic at peak, whichever takes longer.

    A training step's are those of the forward and of the backward, one after the other.
    """
    if pass_ in TRAINING_PASSES:
        return limit_ms(layer, "forward", precision) + limit_ms(layer, "backward", precision)
    seconds_moving = least_bytes(layer, pass_, precision) / COPY_BYTES_PER_SECOND
    seconds_computing = flops(layer, pass_) / PEAK_FLOPS_PER_SECOND[precision]
    return 1e3 * max(seconds_moving, seconds_computing)

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
NORM_FORWARD, NORM_TRAINING_STEP = "relu_group_norm", "relu_group_norm_training_step"
NORM_PASSES = (NORM_FORWARD, NORM_TRAINING_STEP)  # ReLU and group norm behind the convolution
PASSES = (*SINGLE_PASSES, *JOINT_PASSES, *NORM_PASSES)

_GRADIENTS = ("backward_input", "backward_weight", "backward_bias")
# The parts of a joint pass, in the order of its results; the bias's gradient, last, is there where the layer has one.
PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(BACKWARD_PASSES, _GRADIENTS),
    **dict.fromkeys(TRAINING_PASSES, ("forward", *_GRADIENTS)),
    NORM_TRAINING_STEP: (
        NORM_FORWARD,
        "norm_backward_input",
        "norm_backward_weight",
        "norm_backward_bias",
        "norm_backward_norm_weight",
        "norm_backward_norm_bias",
    ),
}
OF_ALL_IMAGES = tuple(
    part for of_pass in PARTS.values() for part in of_pass if part.endswith(("weight", "bias"))
)  # their results are sums over the batch
DENSE_GRADIENTS = ("backward_input", "backward_weight", "backward")  # grad_output is a tensor of its own
# What runs for a pass, in this order: single passes, and whether each is the norm's.
RUNS: Mapping[str, tuple[tuple[str, bool], ...]] = {
    **{pass_: tuple((part, False) for part in of_pass) for pass_, of_pass in PARTS.items()},
    NORM_FORWARD: (("forward", False), ("forward", True)),
    NORM_TRAINING_STEP: (
        ("forward", False),
        ("forward", True),
        ("backward", True),
        *((gradient, False) for gradient in _GRADIENTS),
    ),
}
_WITHOUT_NORM = {NORM_FORWARD: "forward", NORM_TRAINING_STEP: "training_step"}
GRADIENT_MASKS: Mapping[str, tuple[bool, bool, bool]] = {
    "backward_input": (True, False, False),
    "backward_weight": (False, True, False),
    "backward_bias": (False, False, True),
}


def parts(layer: Layer, pass_: str) -> tuple[str, ...]:
    """The single passes whose results a pass has, in their order."""
    of_bias = ("backward_bias", "norm_backward_bias")
    return tuple(part for part in PARTS.get(pass_, (pass_,)) if part not in of_bias or layer.bias)


def runs(layer: Layer, pass_: str) -> tuple[tuple[str, bool], ...]:
    """The single passes that run for a pass, in their order, and whether each is the norm's."""
    of_pass = RUNS.get(pass_, ((pass_, False),))
    return tuple((part, of_norm) for part, of_norm in of_pass if part != "backward_bias" or layer.bias)


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
    if pass_ in NORM_PASSES:
        return least_bytes(layer, _WITHOUT_NORM[pass_], precision) + norm_bytes(layer, pass_, precision)
    elements = [layer.input_shape, layer.weight_shape, *([(layer.out_channels,)] if layer.bias else [])]
    backward = forward + sum(math.prod(shape) for shape in elements) * ELEMENT_BYTES[precision]
    return backward if pass_ in BACKWARD_PASSES else forward + backward


def norm_bytes(layer: Layer, pass_: str, precision: str) -> int:
    """Bytes that a norm behind the convolution adds: it cannot begin before its last element is known.

    The forward reads and writes the output once more. The backward reads the norm's input and grad_output for sums
    before, and the norm's input once more with the convolution's gradients.
    """
    tensors = 2 if pass_ == NORM_FORWARD else 5
    return tensors * math.prod(layer.output_shape) * ELEMENT_BYTES[precision]


def flops(layer: Layer, pass_: str) -> int:
    """Floating-point operations of a pass: two for each multiply-add in range; a backward has twice the forward's."""
    times = 1 if pass_ in (*SINGLE_PASSES, NORM_FORWARD) else 2 if pass_ in BACKWARD_PASSES else 3
    return 2 * times * layer.multiply_adds


def limit_ms(layer: Layer, pass_: str, precision: str) -> float:
    """Milliseconds at best: bytes at the speed of a copy, or the arithmetic at peak, whichever takes longer.

    A training step's are those of the forward and of the backward, one after the other.
    """
    if pass_ in NORM_PASSES:
        added_ms = 1e3 * norm_bytes(layer, pass_, precision) / COPY_BYTES_PER_SECOND
        return limit_ms(layer, _WITHOUT_NORM[pass_], precision) + added_ms
    if pass_ in TRAINING_PASSES:
        return limit_ms(layer, "forward", precision) + limit_ms(layer, "backward", precision)
    seconds_moving = least_bytes(layer, pass_, precision) / COPY_BYTES_PER_SECOND
    seconds_computing = flops(layer, pass_) / PEAK_FLOPS_PER_SECOND[precision]
    return 1e3 * max(seconds_moving, seconds_computing)

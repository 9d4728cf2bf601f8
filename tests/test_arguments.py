"""What an argument may be: the types that PyTorch takes, channels that fit 31 bits, sizes of at least 1."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import convt3d

ops = torch.ops.convt3d
LIMIT = 2**31
# "meta" runs the fake kernels, whose checks mirror the compiled ones.
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda), "meta"]
TRIPLES = ["stride", "padding", "output_padding", "dilation"]
INTEGERS = [np.int64(2), np.array(2), torch.tensor(2), torch.tensor([2], dtype=torch.uint8), [np.int32(2)] * 3]


def _tensors() -> tuple[Tensor, Tensor]:
    return torch.randn(1, 4, 5, 7, 6), torch.randn(4, 3, 2, 1, 3)


def _parameters(name: str, value: Any) -> dict[str, Any]:
    return {"stride": 5, name: value} if name == "output_padding" else {name: value}


@pytest.mark.parametrize("value", INTEGERS, ids=repr)
@pytest.mark.parametrize("name", [*TRIPLES, "groups"])
def test_integers_of_other_types(name: str, value: Any, operator_name: str) -> None:
    if name == "groups" and isinstance(value, list):
        pytest.skip("one integer")
    input, weight = _tensors()
    function = getattr(convt3d, operator_name)
    expected = function(input, weight, **_parameters(name, 2))
    assert torch.equal(function(input, weight, **_parameters(name, value)), expected)
    explained = convt3d.explain(input, weight, **_parameters(name, value if name != "groups" else 2))
    assert explained == convt3d.explain(input, weight, **_parameters(name, 2))


@pytest.mark.parametrize(
    "value",
    [2.0, (2.0,) * 3, "2", None, True, np.True_, np.float64(2), np.array([2, 2, 2]), torch.tensor(2.0)],
    ids=repr,
)
@pytest.mark.parametrize("name", [*TRIPLES, "groups"])
def test_other_types_are_refused(name: str, value: Any, operator_name: str) -> None:
    input, weight = _tensors()
    with pytest.raises(TypeError, match=f"^{name} must be an int.*, got "):
        getattr(convt3d, operator_name)(input, weight, **_parameters(name, value))
    if not isinstance(value, np.bool_):  # which PyTorch takes for groups while NumPy takes it for an index
        with pytest.raises((TypeError, RuntimeError)):
            F.conv_transpose3d(input, weight, **_parameters(name, value))


@pytest.mark.parametrize("value", [None, "2", 2.0, np.zeros((1, 4, 5, 7, 6))], ids=["None", "str", "float", "array"])
@pytest.mark.parametrize("name", ["input", "weight", "bias"])
def test_tensors_of_other_types_are_refused(name: str, value: Any, operator_name: str) -> None:
    if name == "bias" and value is None:
        pytest.skip("no bias")
    arguments = dict(zip(("input", "weight"), _tensors(), strict=True)) | {name: value}
    message = f"{operator_name}: {name} must be a Tensor, got {type(value).__name__}"
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        getattr(convt3d, operator_name)(**arguments)


def _expanded(shape: tuple[int, ...], device: str) -> Tensor:
    """A tensor of any size over a single element."""
    return torch.ones((1,) * len(shape), device=device).expand(shape)


CHANNELS = "less than 2^31 channels"
OF_WEIGHT = "(C_in, and C_out/groups times groups)"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("channels", [LIMIT, 2**32 + 16])
@pytest.mark.parametrize(
    ("op", "shapes", "others", "message"),
    [
        (
            "conv_transpose3d",
            {"input": (1, -1, 1, 1, 1), "weight": (-1, 1, 1, 1, 1)},
            {},
            f"weight must have {CHANNELS} {OF_WEIGHT}, got shape (N, 1, 1, 1, 1) with groups = 1",
        ),
        (
            "conv_transpose3d_relu",
            {"input": (1, 16, 1, 1, 1), "weight": (16, -1, 1, 1, 1)},
            {},
            f"weight must have {CHANNELS} {OF_WEIGHT}, got shape (16, N, 1, 1, 1) with groups = 1",
        ),
        (
            "conv_transpose3d",
            {"input": (1, -1, 1, 1, 1), "weight": (-1, 1, 1, 1, 1)},
            {"groups": -1},
            "groups must be less than 2^31, got N",
        ),
        (
            "conv_transpose3d_input_grad",
            {"grad_output": (1, -1, 1, 1, 1), "weight": (1, -1, 1, 1, 1)},
            {},
            f"weight must have {CHANNELS} {OF_WEIGHT}, got shape (1, N, 1, 1, 1) with groups = 1",
        ),
        (
            "conv_transpose3d_weight_grad",
            {"grad_output": (1, 1, 1, 1, 1), "input": (1, -1, 1, 1, 1)},
            {"kernel_size": 1},
            f"input must have {CHANNELS}, got shape (1, N, 1, 1, 1)",
        ),
        (
            "conv_transpose3d_weight_grad",
            {"grad_output": (1, -1, 1, 1, 1), "input": (1, 1, 1, 1, 1)},
            {"kernel_size": 1},
            f"grad_output must have {CHANNELS}, got shape (1, N, 1, 1, 1)",
        ),
        (
            "conv_transpose3d_backward",
            {"grad_output": (1, 1, 1, 1, 1), "input": (1, -1, 1, 1, 1), "weight": (-1, 1, 1, 1, 1)},
            {},
            f"weight must have {CHANNELS} {OF_WEIGHT}, got shape (N, 1, 1, 1, 1) with groups = 1",
        ),
        (
            "conv_transpose3d_bias_grad",
            {"grad_output": (1, -1, 1, 1, 1)},
            {},
            f"grad_output must have {CHANNELS}, got shape (1, N, 1, 1, 1)",
        ),
    ],
)
def test_channels_past_31_bits(
    op: str, shapes: dict[str, tuple[int, ...]], others: dict[str, int], message: str, channels: int, device: str
) -> None:
    """-1 and N stand for the number of channels."""
    arguments: dict[str, Any] = {name: channels if value == -1 else value for name, value in others.items()}
    for name, shape in shapes.items():
        arguments[name] = _expanded(tuple(channels if size == -1 else size for size in shape), device)
    text = f"{op}: {message}".replace("N", str(channels))
    with pytest.raises(RuntimeError, match=f"^{re.escape(text)}"):
        getattr(ops, op)(**arguments)


def test_explain_refuses_channels_past_31_bits() -> None:
    channels = 2**32 + 16
    with pytest.raises(RuntimeError, match=re.escape(f"weight must have {CHANNELS}")):
        convt3d.explain(_expanded((1, channels, 2, 2, 2), "cpu"), _expanded((channels, 8, 1, 1, 1), "cpu"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [2, 3, 4])
@pytest.mark.parametrize(
    "op", ["conv_transpose3d_weight_grad", "conv_transpose3d_bias_grad", "conv_transpose3d_backward"]
)
def test_grad_output_without_voxels(op: str, axis: int, device: str) -> None:
    """A padding of the whole output leaves none, which the forward refuses."""
    shape, padding = [2, 3, 2, 4, 6], [0, 0, 0]
    shape[axis], padding[axis - 2] = 0, axis - 1
    arguments: dict[str, Any] = {"grad_output": torch.ones(shape, device=device)}
    if op == "conv_transpose3d_weight_grad":
        arguments |= {"input": torch.ones(2, 5, 2, 4, 6, device=device), "kernel_size": 1, "padding": padding}
    if op == "conv_transpose3d_backward":
        tensors = {
            "input": torch.ones(2, 5, 2, 4, 6, device=device),
            "weight": torch.ones(5, 3, 1, 1, 1, device=device),
        }
        arguments |= {**tensors, "padding": padding}
    message = f"{op}: grad_output must have a depth, height and width of at least 1, got shape {tuple(shape)}"
    with pytest.raises(RuntimeError, match=f"^{re.escape(message)}"):
        getattr(ops, op)(**arguments)
    assert ops.conv_transpose3d_bias_grad(torch.ones(0, 3, *shape[2:], device=device)).shape == (3,)

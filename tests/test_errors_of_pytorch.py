"""The functions refuse what PyTorch's own refuse, with its errors' types."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch
from rejection import DILATION, GROUPS, INPUT, PADDING, STRIDE, WEIGHT
from torch.nn import functional as F

import convt3d


@pytest.mark.parametrize("kernel", [1, 2])
def test_accepts_exactly_what_pytorch_accepts(kernel: int) -> None:
    strides, paddings, output_paddings, dilations = (-1, 0, 1, 2), (-1, 0, 2), (-1, 0, 1, 2), (0, 1, 3)
    choices = itertools.product(strides, paddings, output_paddings, dilations, (-1, 0, 1, 2, 3), (1, 2), (0, 2, 3))
    disagreements = []
    for stride, padding, output_padding, dilation, groups, size, channels in choices:
        if (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1 == 0:
            continue  # PyTorch's answer to an empty output depends on the backend it picks
        parameters = {
            "stride": (1, stride, 1),
            "padding": (0, padding, 0),
            "output_padding": (0, output_padding, 0),
            "dilation": (1, dilation, 1),
            "groups": groups,
        }
        operands = torch.ones(1, channels, 1, size, 2), torch.ones(channels, 1, 1, kernel, 1)
        accepted = []
        for function in (F.conv_transpose3d, convt3d.conv_transpose3d):
            try:
                function(*operands, **parameters)
                accepted.append(True)
            except RuntimeError:
                accepted.append(False)
        if accepted[0] != accepted[1]:
            disagreements.append((parameters, size, channels, accepted))
    assert disagreements == []


def pytorch_error_inputs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """PyTorch's own: of conv_transpose3d where it has any, and of conv3d, which differs only in padding by name."""
    # The import would forbid the whole process to change torch.backends' switches, as other tests do.
    monkeypatch.setattr(torch.backends, "disable_global_flags", lambda: None)
    from torch.testing._internal.common_methods_invocations import op_db

    names = ("nn.functional.conv_transpose3d", "nn.functional.conv3d")
    ops = [op for op in op_db if op.name in names and op.error_inputs_func is not None]
    inputs = [error_input for op in ops for error_input in op.error_inputs("cpu")]
    return [each for each in inputs if not isinstance(each.sample_input.kwargs.get("padding"), str)]


def test_pytorch_error_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    error_inputs = pytorch_error_inputs(monkeypatch)
    assert len(error_inputs) >= 6
    for error_input in error_inputs:
        sample = error_input.sample_input
        with pytest.raises(error_input.error_type):
            convt3d.conv_transpose3d(sample.input, *sample.args, **sample.kwargs)


@pytest.mark.parametrize(
    ("shape", "output_size", "message"),
    [
        (INPUT, (10, 20), "output_size must have 3 or 5 elements for 5-D input, got 2"),
        (INPUT, (12, 20, 12), r"output_size must be between \(9, 18, 12\) and \(10, 20, 12\)"),
        (INPUT, (10, 17, 12), r"output_size must be between \(9, 18, 12\) and \(10, 20, 12\)"),
        (INPUT[1:], (10, 20), "output_size must have 3 or 4 elements for 4-D input, got 2"),
    ],
)
@pytest.mark.parametrize("function", [convt3d.conv_transpose3d, convt3d.conv_transpose3d_relu])
def test_output_size(function: Any, shape: tuple[int, ...], output_size: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(
            torch.ones(shape),
            torch.ones(WEIGHT),
            stride=STRIDE,
            padding=PADDING,
            groups=GROUPS,
            dilation=DILATION,
            output_size=output_size,
        )


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 5), (1, 1, 4, 3, 3, 3)])
def test_rank_of_input_of_the_function(shape: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match=re.escape(f"got {len(shape)}-D of shape {shape}")):
        convt3d.conv_transpose3d(torch.ones(shape), torch.ones(WEIGHT))

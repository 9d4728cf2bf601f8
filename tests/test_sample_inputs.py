"""PyTorch's own sample inputs and error inputs for nn.functional.conv_transpose3d, which its wheel carries."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import convt3d

NAME = "nn.functional.conv_transpose3d"
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
TOLERANCE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float16: {"rtol": 1e-3, "atol": 1e-2},
    torch.bfloat16: {"rtol": 1e-2, "atol": 1e-2},
}


@pytest.fixture(scope="module")
def catalogue() -> dict[str, Any]:
    """PyTorch's catalogue of operators for its own tests, by name."""
    pytest.importorskip("expecttest", reason="PyTorch's test catalogue needs it")
    # Importing it would forbid the whole process to set flags such as torch.backends.cudnn.allow_tf32.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.m, "disable_global_flags", lambda: None)
        from torch.testing._internal.common_methods_invocations import op_db
    return {info.name: info for info in op_db}


def _wide(sample: Any) -> Any:
    """The same values in float64."""
    return sample.transform(lambda arg: arg.detach().double().requires_grad_() if isinstance(arg, Tensor) else arg)


def _with_gradients(function: Any, sample: Any) -> list[Tensor]:
    tensors = [sample.input, *(arg for arg in sample.args if isinstance(arg, Tensor))]
    output = function(sample.input, *sample.args, **sample.kwargs)
    return [output, *torch.autograd.grad(output, tensors, torch.ones_like(output))]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sample_inputs(catalogue: dict[str, Any], dtype: torch.dtype, device: str) -> None:
    samples = list(catalogue[NAME].sample_inputs(device, dtype, requires_grad=True))
    assert len(samples) >= 10
    for sample in samples:
        expected = _with_gradients(F.conv_transpose3d, _wide(sample))
        actual = _with_gradients(convt3d.conv_transpose3d, sample)
        assert all(result.dtype == dtype for result in actual)
        torch.testing.assert_close([result.double() for result in actual], expected, **TOLERANCE[dtype])
        output = convt3d.conv_transpose3d_relu(sample.input, *sample.args, **sample.kwargs)
        torch.testing.assert_close(output.double(), expected[0].relu(), **TOLERANCE[dtype])


def test_noncontiguous_sample_inputs(catalogue: dict[str, Any], device: str) -> None:
    for sample in catalogue[NAME].sample_inputs(device, torch.float32, requires_grad=True):
        expected = _with_gradients(F.conv_transpose3d, sample)
        actual = _with_gradients(convt3d.conv_transpose3d, sample.noncontiguous())
        torch.testing.assert_close(actual, expected, **TOLERANCE[torch.float32])


def test_error_inputs(catalogue: dict[str, Any], device: str) -> None:
    """What PyTorch rejects: the catalogue's errors for this function, if any, and those of its sister conv3d."""
    errors = [] if catalogue[NAME].error_inputs_func is None else list(catalogue[NAME].error_inputs(device))
    errors += [
        error
        for error in catalogue["nn.functional.conv3d"].error_inputs(device)
        if error.sample_input.kwargs.get("padding") not in ("same", "valid")
    ]
    rejected = 0
    for error in errors:
        sample = error.sample_input
        try:
            F.conv_transpose3d(sample.input, *sample.args, **sample.kwargs)
        except (RuntimeError, TypeError, ValueError):
            rejected += 1
            with pytest.raises((RuntimeError, TypeError, ValueError)):
                convt3d.conv_transpose3d(sample.input, *sample.args, **sample.kwargs)
    assert rejected >= 5

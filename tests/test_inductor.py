"""What TorchInductor makes of the operators: it calls those below autograd, and takes norms apart."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from reference import LAYOUTS, PROBLEMS
from test_group_norm import ORDERS, affine, call, geometry
from torch._inductor.utils import run_and_get_code

import convt3d
from convt3d._registrations.inductor import apply_norms

if TYPE_CHECKING:
    from collections.abc import Callable

    from test_group_norm import Order
    from torch import Tensor

pytestmark = pytest.mark.usefixtures("fresh_compiler")

PROBLEM = PROBLEMS[0]  # 9 output channels in 3 groups
compiled_ops = torch.ops.convt3d_inductor
APART = "convt3d_inductor.conv_transpose3d_channel_norms.default("


def tensors_of(dtype: torch.dtype, device: str, layout: str = "NCDHW") -> tuple[Tensor, ...]:
    affine_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    given = (*PROBLEM.tensors(dtype, device, layout), *affine(PROBLEM, affine_dtype, device))
    return tuple(tensor.detach().requires_grad_() for tensor in given)


def compiled(function: Callable[..., Any], *args: Any) -> tuple[Any, str]:
    """What it returns, and the code of all its graphs."""
    result, code = run_and_get_code(torch.compile(function, fullgraph=True, dynamic=False), *args)
    return result, "\n".join(code)


@pytest.fixture(params=ORDERS)
def order(request: pytest.FixtureRequest) -> Order:
    return ORDERS[request.param]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_norms_of_channels(dtype: torch.dtype, layout: str, order: Order, device: str) -> None:
    tensors = [tensor.detach() for tensor in tensors_of(dtype, device, layout)]
    args = (*tensors[:3], *geometry(PROBLEM), 3, *tensors[3:], 1e-5, order.relu)
    x, norms, mean, rstd = compiled_ops.conv_transpose3d_channel_norms(*args)
    whole = compiled_ops.conv_transpose3d_group_norm_forward(*args, order.negative_slope, torch.float32)
    for ours, expected in zip((x, mean, rstd), whole[1:], strict=True):
        assert torch.equal(ours, expected)
    torch.testing.assert_close(apply_norms(x, norms, order.negative_slope, torch.float32), whole[0])


def test_norms_of_channels_pass_opcheck(device: str) -> None:
    tensors = [tensor.detach() for tensor in tensors_of(torch.float16, device)]
    args = (*tensors[:3], *geometry(PROBLEM), 3, *tensors[3:], 1e-5, True)
    tests = ("test_schema", "test_faketensor")
    results = torch.library.opcheck(compiled_ops.conv_transpose3d_channel_norms.default, args, test_utils=tests)
    assert set(results.values()) == {"SUCCESS"}, results


def test_norms_of_channels_refuse_float64(device: str) -> None:
    tensors = [tensor.detach() for tensor in tensors_of(torch.float64, device)]
    with pytest.raises(RuntimeError, match="conv_transpose3d_channel_norms: input must be of dtype float32, float16"):
        compiled_ops.conv_transpose3d_channel_norms(*tensors[:3], *geometry(PROBLEM), 3)


@pytest.mark.parametrize(("name", "with_gradients"), [("norm_relu", False), ("relu_norm_leaky_relu", True)])
def test_cast_and_sum_are_fused_with_the_norm(name: str, with_gradients: bool, device: str) -> None:
    """As behind a norm under autocast: the result is float32, what follows takes 16 bits."""
    order = ORDERS[name]
    tensors = tensors_of(torch.float16, device)
    skipped = torch.randn(PROBLEM.output_shape, device=device, dtype=torch.float16)

    def function(*given: Tensor) -> Tensor:
        return (call(given, PROBLEM, 3, order, dtype=torch.float32) + skipped).half()

    expected = function(*tensors)
    with torch.set_grad_enabled(with_gradients):
        actual, code = compiled(function, *tensors)
    assert APART in code
    torch.testing.assert_close(actual, expected)
    if with_gradients:
        grad = torch.randn_like(expected)
        pairs = (torch.autograd.grad(result, tensors, grad) for result in (actual, expected))
        torch.testing.assert_close(*pairs)


@pytest.mark.parametrize(
    ("dtype", "layout", "result_dtype", "with_gradients"),
    [
        (torch.float16, "NCDHW", None, False),
        (torch.float16, "NDHWC", torch.float32, False),
        (torch.float16, "NDHWC", torch.float32, True),
        (torch.float64, "NCDHW", None, True),
    ],
    ids=str,
)
def test_norms_that_stay_whole(
    dtype: torch.dtype, layout: str, result_dtype: torch.dtype | None, with_gradients: bool, device: str
) -> None:
    tensors = tensors_of(dtype, device, layout)

    def function(*given: Tensor) -> Tensor:
        return call(given, PROBLEM, 3, ORDERS["norm_relu"], dtype=result_dtype) * 2

    with torch.set_grad_enabled(with_gradients):
        actual, code = compiled(function, *tensors)
    assert APART not in code
    assert "convt3d_inductor.conv_transpose3d_group_norm" in code
    torch.testing.assert_close(actual, function(*tensors))


def test_compiled_code_calls_below_autograd(device: str) -> None:
    tensors = tensors_of(torch.float32, device)[:3]

    def function(*given: Tensor) -> Tensor:
        return F.silu(convt3d.conv_transpose3d_relu(*given, **PROBLEM.parameters))

    def step(*given: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(torch.compile(function, fullgraph=True)(*given).sum(), given)

    gradients, code = run_and_get_code(step, *tensors)
    called = {operator for text in code for operator in re.findall(r"torch\.ops\.(convt3d\w*\.\w+)\.default\(", text)}
    assert called == {"convt3d_inductor.conv_transpose3d_relu", "convt3d_inductor.conv_transpose3d_backward"}
    expected = torch.autograd.grad(function(*tensors).sum(), tensors)
    torch.testing.assert_close(gradients, expected)


def test_imported_after_the_compiler_was_used() -> None:
    """TorchInductor keeps a copy of its table from the first use on."""
    program = """
import torch
import torch._inductor.decomposition
torch._inductor.decomposition.select_decomp_table()
assert "convt3d" not in __import__("sys").modules
import convt3d
table = torch._inductor.decomposition.select_decomp_table()
assert torch.ops.convt3d.conv_transpose3d.default in table
"""
    subprocess.run([sys.executable, "-c", program], check=True)

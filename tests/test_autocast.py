"""torch.autocast: the dtype asked for, PyTorch's rules of what is cast."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference import PROBLEMS, norm_error
from torch import Tensor, nn

import convt3d

PROBLEM = PROBLEMS[0]


def _call(name: str, *tensors: Tensor) -> Tensor:
    output: Tensor = getattr(convt3d, name)(*tensors, **PROBLEM.parameters)
    return output


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_casts_to_the_dtype_asked_for(dtype: torch.dtype, operator_name: str, device: str) -> None:
    tensors = PROBLEM.tensors(torch.float32, device, requires_grad=True)
    with torch.autocast(device, dtype=dtype):
        output = _call(operator_name, *tensors)
        raw = getattr(torch.ops.convt3d, operator_name)(*tensors, **PROBLEM.parameters)
        assert F.conv_transpose3d(*tensors, **PROBLEM.parameters).dtype == dtype
    assert output.dtype == dtype
    assert torch.equal(output, _call(operator_name, *(tensor.to(dtype) for tensor in tensors)))
    assert torch.equal(raw, output)
    output.float().sum().backward()
    for tensor in tensors:
        assert tensor.grad is not None
        assert tensor.grad.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_default_dtype_can_be_set(dtype: torch.dtype, operator_name: str, device: str) -> None:
    before = torch.get_autocast_dtype(device)
    torch.set_autocast_dtype(device, dtype)
    try:
        with torch.autocast(device):
            assert _call(operator_name, *PROBLEM.tensors(torch.float32, device)).dtype == dtype
    finally:
        torch.set_autocast_dtype(device, before)


def test_mixed_dtypes_meet_in_the_one_asked_for(operator_name: str, device: str) -> None:
    input, weight, bias = PROBLEM.tensors(torch.float32, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        output = _call(operator_name, input.bfloat16(), weight, bias.half())
    expected = _call(operator_name, input.bfloat16(), weight.bfloat16(), bias.half().bfloat16())
    assert torch.equal(output, expected)


def test_float64_stays(operator_name: str, device: str) -> None:
    tensors = PROBLEM.tensors(torch.float64, device)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert _call(operator_name, *tensors).dtype == torch.float64
        assert F.conv_transpose3d(*tensors, **PROBLEM.parameters).dtype == torch.float64


def test_disabled_inside(operator_name: str, device: str) -> None:
    tensors = PROBLEM.tensors(torch.float32, device)
    with torch.autocast(device, dtype=torch.bfloat16), torch.autocast(device, enabled=False):
        assert _call(operator_name, *tensors).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def test_double_backward_of_a_forward_outside(device: str, dtype: torch.dtype, operator_name: str) -> None:
    """Derivatives of a float32 call stay float32: here they are large numbers, past the range of float16."""

    def derivatives(function: Any, dtype_of_call: torch.dtype, *, autocast: bool) -> list[Tensor]:
        torch.manual_seed(0)
        tensors = PROBLEM.tensors(torch.float32, device, integers=True)
        input, weight, _ = (1e3 * tensor.to(dtype_of_call) for tensor in tensors)
        input, weight = input.requires_grad_(), weight.requires_grad_()
        output = function(input, weight)
        with torch.autocast(device, dtype=dtype, enabled=autocast):
            first = torch.autograd.grad(output.square().sum(), (input, weight), create_graph=True)
            second = torch.autograd.grad(sum(grad.square().sum() for grad in first), (input, weight))
        return [*first, *second]

    def pytorch(input: Tensor, weight: Tensor) -> Tensor:
        output = F.conv_transpose3d(input, weight, **PROBLEM.parameters)
        return output.relu() if operator_name.endswith("_relu") else output

    actual = derivatives(lambda *tensors: _call(operator_name, *tensors), torch.float32, autocast=True)
    # PyTorch's own second derivatives within CUDA's autocast are rounded to 16 bits, and NaN past their range.
    for ours, expected in zip(actual, derivatives(pytorch, torch.float64, autocast=False), strict=True):
        assert ours.dtype == torch.float32
        assert norm_error(ours, expected) < 1e-5


@pytest.mark.filterwarnings("ignore:.*CUDA is not available:UserWarning")
def test_other_device_is_not_cast(operator_name: str) -> None:
    tensors = PROBLEM.tensors(torch.float32, "cpu")
    with torch.autocast("cuda", dtype=torch.float16):
        assert _call(operator_name, *tensors).dtype == torch.float32


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
def test_network_trains(device: str) -> None:
    """Backward runs outside of the context, on what the context saved."""

    def losses(model: nn.Module) -> list[float]:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        values = []
        torch.manual_seed(1)
        for _ in range(3):
            input = torch.randn(2, 4, 3, 4, 5, device=device)
            with torch.autocast(device, dtype=torch.bfloat16):
                output = model(input)
            assert output.dtype == torch.bfloat16
            loss = output.float().square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            values.append(loss.item())
        return values

    ours = nn.Sequential(convt3d.nn.ConvTranspose3dReLU(4, 6, 3, 2), convt3d.nn.ConvTranspose3d(6, 2, 2)).to(device)
    theirs = nn.Sequential(nn.ConvTranspose3d(4, 6, 3, 2), nn.ReLU(), nn.ConvTranspose3d(6, 2, 2)).to(device)
    theirs.load_state_dict({key.replace("1.", "2."): value for key, value in ours.state_dict().items()})
    expected = losses(theirs)
    scripted = torch.jit.script(nn.Sequential(*(module for module in ours)))
    state = {key: value.clone() for key, value in ours.state_dict().items()}
    assert losses(ours) == pytest.approx(expected, rel=2e-2)
    ours.load_state_dict(state)
    assert losses(scripted) == pytest.approx(expected, rel=2e-2)

"""Runs a case (cases.py) and compares it with float64, element by element; shared by tests and scripts/fuzz.py."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from cases import DTYPES, Case
from reference import ACCUMULATION, ROUNDING, poison
from torch import Tensor

import convt3d

if TYPE_CHECKING:
    from collections.abc import Iterable

ops = torch.ops.convt3d

# What a product of two rounded operands is off by, relative to itself: TF32 keeps 11 bits of each; the two terms of
# float32 proper keep 22 of each and leave out the product of the lower ones.
_OPERANDS = {"fp64": 0.0, "fp32": 2.0**-20, "tf32": 2.0**-10 * 1.001, "fp16": 0.0, "bf16": 0.0}


_PRODUCTS_OF_THE_CPU = 2_000_000
_GUARD = 4096  # elements beside a result that must stay as they are


class WrongResultError(AssertionError):
    """A result is not what it has to be."""


def _values(case: Case, name: str, generator: torch.Generator) -> Tensor:
    """Of an operand or the bias, on the CPU."""
    shape = (case.cout,) if name == "bias" else case.operands[name].shape
    values = torch.randn(shape, generator=generator, dtype=torch.float64)
    if name == "weight" or (
        name == "second" and case.op in ("forward", "input_grad")
    ):  # so that results are of order 1 in every dtype
        values /= math.sqrt(values.numel() / (case.cout if case.op == "forward" else case.cin))
    return values


def operands(case: Case, device: str, seed: int) -> dict[str, Tensor]:
    """The tensors that the operator reads, arranged as the case says, with NaN around them."""
    generator = torch.Generator().manual_seed(seed)
    dtype = DTYPES[case.type]
    tensors = {
        name: memory.tensor(_values(case, name, generator).to(dtype).to(device))
        for name, memory in case.operands.items()
    }
    if case.op == "forward" and case.bias:
        tensors["bias"] = _values(case, "bias", generator).to(dtype).to(device)
    return tensors


def _joined(results: Iterable[Tensor | None]) -> Tensor:
    """The elements of several results, one after another."""
    return torch.cat([result.flatten() for result in results if result is not None])


def run(case: Case, tensors: dict[str, Tensor]) -> Tensor:
    """The result of the operator; the elements of all of them where it has several."""
    first, second, mask = (tensors.get(name) for name in ("first", "second", "mask"))
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=case.type == "tf32"):
        if case.op == "forward":
            forward = convt3d.conv_transpose3d_relu if case.relu else convt3d.conv_transpose3d
            return forward(first, second, tensors.get("bias"), **case.parameters)
        if case.op == "input_grad":
            return ops.conv_transpose3d_input_grad(first, second, mask, **case.parameters)
        if case.op == "weight_grad":
            return ops.conv_transpose3d_weight_grad(first, second, case.kernel, mask, **case.parameters)
        if case.op == "backward":
            return _joined(
                ops.conv_transpose3d_backward(
                    first, second, tensors["weight"], mask, **case.parameters, output_mask=_output_mask(case)
                )
            )
        return ops.conv_transpose3d_bias_grad(first, mask)


def _output_mask(case: Case) -> list[bool]:
    """Of a gradient or a backward: those of input, weight and bias that it has."""
    if case.op == "backward":
        return [True, True, bool(case.bias)]
    return [case.op == "input_grad", case.op == "weight_grad", case.op == "bias_grad"]


def reference(case: Case, tensors: dict[str, Tensor], *, magnitude: bool = False) -> Tensor:
    """The result in float64 by PyTorch, before the ReLU; `magnitude`: of the operands' absolute values.

    Large ones are computed on the device, by PyTorch's own kernels: cuDNN takes long to choose one for every new size.
    """
    device = "cpu" if case.products < _PRODUCTS_OF_THE_CPU else tensors["first"].device
    wide = {name: tensor.to(device).double().contiguous() for name, tensor in tensors.items()}
    first, mask = wide["first"], wide.get("mask")
    if mask is not None:
        first = torch.where(mask > 0, first, 0.0)
    if magnitude:
        first = first.abs()
        wide = {name: tensor.abs() for name, tensor in wide.items()}
    if case.op == "forward":
        with torch.backends.cudnn.flags(enabled=False):
            return F.conv_transpose3d(first, wide["second"], wide.get("bias"), **case.parameters).cpu()
    if case.op == "bias_grad":
        return first.sum((0, 2, 3, 4)).cpu()
    absent = torch.zeros(1, dtype=torch.float64, device=device)  # only the shape counts of what is not read
    input = absent.expand(case.shapes["input"]) if case.op == "input_grad" else wide["second"]
    weight = wide.get("weight", absent.expand(case.shapes["weight"])) if case.op != "input_grad" else wide["second"]
    with torch.backends.cudnn.flags(enabled=False):
        gradients = torch.ops.aten.convolution_backward(
            first,
            input,
            weight,
            None,
            case.stride,
            case.padding,
            case.dilation,
            True,
            case.output_padding,
            case.groups,
            [*_output_mask(case)[:2], False],
        )
    if case.op == "backward":
        bias = first.sum((0, 2, 3, 4)) if case.bias else None
        return _joined((gradients[0], gradients[1], bias)).cpu()
    result: Tensor = gradients[1 if case.op == "weight_grad" else 0]
    return result.cpu()


def _terms(case: Case) -> Tensor:
    """Most products in an element of the result, or in each of several results' elements; at least one."""
    taps = math.prod(case.kernel)
    terms = {
        "forward": case.cin // case.groups * taps,
        "input_grad": case.cout // case.groups * taps,
        "weight_grad": case.n * math.prod(case.size),
        "bias_grad": case.n * math.prod(case.output_size),
    }
    if case.op != "backward":
        return torch.tensor(max(terms[case.op], 1), dtype=torch.float64)
    shapes = {
        "input_grad": case.shapes["input"],
        "weight_grad": case.shapes["weight"],
        "bias_grad": (case.cout * case.bias,),
    }
    return torch.cat(
        [torch.full((math.prod(shape),), max(terms[op], 1), dtype=torch.float64) for op, shape in shapes.items()]
    )


def _guarded(case: Case, tensors: dict[str, Tensor], shape: tuple[int, ...]) -> Tensor:
    """The result; where the allocator puts it between two tensors of ours, these must stay as they are."""
    first = tensors["first"]
    poison(shape)
    guards = [first.new_full((count,), 2.5) for count in (_GUARD, math.prod(shape), _GUARD)]
    del guards[1]  # the place of the result
    result = run(case, tensors)
    if not all(bool((guard == 2.5).all()) for guard in guards):
        raise WrongResultError("memory beside the result was written")
    return result.cpu()


def check(case: Case, device: str, seed: int = 0) -> None:
    """Raises `WrongResultError` where the result is not right to what the type allows, or is not the same twice."""
    tensors = operands(case, device, seed)
    result = {"forward": "output", "input_grad": "input", "backward": "input"}.get(case.op, "weight")
    shape = case.shapes[result] if case.op != "bias_grad" else (case.cout,)
    first = _guarded(case, tensors, shape)
    again = _guarded(case, tensors, shape)
    expected = reference(case, tensors)
    magnitude = reference(case, tensors, magnitude=True)
    if case.op == "forward" and case.relu:
        expected = expected.relu()
    dtype = DTYPES[case.type]
    if first.dtype != dtype or first.shape != expected.shape:
        raise WrongResultError(
            f"the result is {first.dtype} of shape {tuple(first.shape)}, not {tuple(expected.shape)}"
        )
    terms = _terms(case)
    # Products that are all alike are rounded alike: their errors add up.
    alike = any(memory.expanded for name, memory in case.operands.items() if name != "mask")
    accumulation = (terms if alike else 8 * terms.sqrt()) * ACCUMULATION[dtype] + _OPERANDS[case.type]
    bound = 2 * ROUNDING[dtype] * expected.abs() + accumulation * magnitude + torch.finfo(dtype).tiny
    excess = (first.double() - expected).abs() / bound
    largest = torch.finfo(dtype).max
    overflows = (expected.abs() + bound >= largest) & (first.double() == expected.sign() * math.inf)
    wrong = ~((excess <= 1) | overflows)  # NaN is wrong
    if wrong.any():
        worst = tuple(int(index[0]) for index in torch.nonzero(wrong, as_tuple=True))
        raise WrongResultError(
            f"{int(wrong.sum())} of {wrong.numel()} elements are wrong, {worst} first: {first[worst].item():.8g} for "
            f"{expected[worst].item():.8g}, bound {bound[worst].item():.3g}"
        )
    if not torch.equal(first, again):
        raise WrongResultError(f"{int((first != again).sum())} of {first.numel()} elements differ in a second run")

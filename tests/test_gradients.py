"""The operators of single gradients, and what reaches them through autograd."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    LAYOUTS,
    PROBLEMS,
    Problem,
    assert_accurate,
    gradients,
    poison,
    problems,
    pytorch_is_sound,
    random_tensor,
)
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import convt3d

ops = torch.ops.convt3d
FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ALL_DIFFERENT = PROBLEMS[0]


def _gradients(
    problem: Problem, grad_output: Tensor, input: Tensor, weight: Tensor, relu_output: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """All three by the operators themselves."""
    parameters = problem.parameters
    poison(problem.input_shape, problem.weight_shape)
    by_input = ops.conv_transpose3d_input_grad(grad_output, weight, relu_output, **parameters)
    poison(problem.input_shape, problem.weight_shape)
    by_weight = ops.conv_transpose3d_weight_grad(grad_output, input, problem.kernel_size, relu_output, **parameters)
    poison((problem.out_channels,))
    return by_input, by_weight, ops.conv_transpose3d_bias_grad(grad_output, relu_output)


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_accuracy(problem: Problem, dtype: torch.dtype, layout: str, has_relu: bool, device: str) -> None:
    input, weight, _ = problem.tensors(dtype, device, layout)
    grad_output = problem.grad_output(dtype, device, layout)
    relu_output = problem.grad_output(dtype, device, layout).relu() if has_relu else None
    actual = _gradients(problem, grad_output, input, weight, relu_output)
    expected = gradients(problem, grad_output, input, weight, relu_output)
    magnitude = gradients(problem, grad_output.abs(), input.abs(), weight.abs(), relu_output)

    baselines: tuple[Tensor | None, ...] = (None, None, None)
    if pytorch_is_sound(dtype, device):
        masked = grad_output if relu_output is None else grad_output * (relu_output > 0)
        leaves = tuple(tensor.detach().requires_grad_() for tensor in (input, weight))
        output = F.conv_transpose3d(*leaves, None, **problem.parameters)
        baselines = (*torch.autograd.grad(output, leaves, masked), masked.sum((0, 2, 3, 4)))
    terms = (problem.input_grad_terms, problem.weight_grad_terms, grad_output[:, 0].numel())
    for index in range(3):
        assert actual[index].dtype == dtype
        assert_accurate(actual[index], expected[index], magnitude[index], terms[index], pytorch=baselines[index])


@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_integers_are_exact(problem: Problem, dtype: torch.dtype, layout: str, has_relu: bool, device: str) -> None:
    """On small integers each sum is exact and rounded once, so that one wrong or missing product shows."""
    input, weight, _ = problem.tensors(dtype, device, layout, integers=True)
    grad_output = problem.grad_output(dtype, device, layout, integers=True)
    relu_output = problem.grad_output(dtype, device, layout).relu() if has_relu else None
    actual = _gradients(problem, grad_output, input, weight, relu_output)
    for result, expected in zip(actual, gradients(problem, grad_output, input, weight, relu_output), strict=True):
        assert torch.equal(result, expected.to(dtype))


@settings(max_examples=100)
@given(
    problem=problems(),
    layouts=st.tuples(*(st.sampled_from(sorted(LAYOUTS)) for _ in range(4))),
    has_relu=st.booleans(),
)
def test_random_problem(problem: Problem, layouts: tuple[str, ...], has_relu: bool, device: str) -> None:
    input, weight, _ = problem.tensors(torch.float32, device, integers=True)
    input, weight = (
        tensor.to(memory_format=LAYOUTS[layout]) for tensor, layout in zip((input, weight), layouts[:2], strict=True)
    )
    grad_output = problem.grad_output(torch.float32, device, layouts[2], integers=True)
    relu_output = problem.grad_output(torch.float32, device, layouts[3]).relu() if has_relu else None
    actual = _gradients(problem, grad_output, input, weight, relu_output)
    for result, expected in zip(actual, gradients(problem, grad_output, input, weight, relu_output), strict=True):
        assert torch.equal(result, expected.float())


def test_relu_passes_nothing_where_the_output_is_zero(device: str) -> None:
    """PyTorch's ReLU has derivative 0 at 0; grad_output there may be anything, NaN included."""
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(torch.float32, device, integers=True)
    grad_output = torch.full(problem.output_shape, torch.nan, device=device)
    for result in _gradients(problem, grad_output, input, weight, torch.zeros_like(grad_output)):
        assert torch.count_nonzero(result) == 0


def test_nan_in_the_output_passes_as_in_pytorch(device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = problem.tensors(torch.float32, device, requires_grad=True)
    with torch.no_grad():
        tensors[0][0, 0, 0, 0, 0] = torch.nan
    output = _apply("conv_transpose3d_relu", problem, *tensors)
    reference = [tensor.detach().cpu().requires_grad_() for tensor in tensors]
    expected = F.conv_transpose3d(*reference, **problem.parameters).relu()
    torch.testing.assert_close(output.cpu(), expected, equal_nan=True, rtol=1e-4, atol=1e-5)
    assert expected.isnan().any()
    for result, wanted in zip(
        torch.autograd.grad(output.sum(), tensors), torch.autograd.grad(expected.sum(), reference), strict=True
    ):
        torch.testing.assert_close(result.cpu(), wanted, equal_nan=True, rtol=1e-4, atol=1e-4)


# ---- memory formats and strides ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("other", LAYOUTS)
@pytest.mark.parametrize("of_grad_output", LAYOUTS)
def test_memory_format(of_grad_output: str, other: str, dtype: torch.dtype, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(dtype, device, other)
    by_input, by_weight, _ = _gradients(
        problem, problem.grad_output(dtype, device, of_grad_output), input, weight, None
    )
    channels_last = "NDHWC" in (of_grad_output, other) and dtype != torch.float64
    for result in (by_input, by_weight):
        memory_format = torch.channels_last_3d if channels_last else torch.contiguous_format
        assert result.stride() == torch.empty(result.shape, memory_format=memory_format).stride()


def _expanded(tensor: Tensor) -> Tensor:
    return tensor[:1, :1, :1, :1, :1].expand(tensor.shape)


def _sliced(tensor: Tensor) -> Tensor:
    larger = tensor.new_full([2 * size + 1 for size in tensor.shape], float("nan"))
    return larger[tuple(slice(1, 2 * size, 2) for size in tensor.shape)].copy_(tensor)


def _permuted(tensor: Tensor) -> Tensor:
    return tensor.permute(1, 4, 0, 3, 2).contiguous().permute(2, 0, 4, 3, 1)


@pytest.mark.parametrize("of_others", [_expanded, _sliced, _permuted])
@pytest.mark.parametrize("of_grad_output", [_expanded, _sliced, _permuted])
@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
def test_strides(
    of_grad_output: Callable[[Tensor], Tensor], of_others: Callable[[Tensor], Tensor], has_relu: bool, device: str
) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(torch.float32, device, integers=True)
    input, weight = of_others(input), of_others(weight)
    grad_output = of_grad_output(problem.grad_output(torch.float32, device, integers=True))
    relu_output = of_others(problem.grad_output(torch.float32, device).relu()) if has_relu else None
    actual = _gradients(problem, grad_output, input, weight, relu_output)
    for result, expected in zip(actual, gradients(problem, grad_output, input, weight, relu_output), strict=True):
        assert torch.equal(result, expected.float())


def test_empty_batch(device: str) -> None:
    problem = Problem("", 0, 4, 6, (2, 3, 4), (3, 2, 1), (1, 2, 3), groups=2)
    input, weight, bias = problem.tensors(torch.float32, device, requires_grad=True)
    convt3d.conv_transpose3d(input, weight, bias, **problem.parameters).sum().backward()
    assert input.grad is not None
    assert input.grad.shape == input.shape
    for tensor in (weight, bias):
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape
        assert torch.count_nonzero(tensor.grad) == 0


def test_bitwise_repeatable(device: str) -> None:
    problem = PROBLEMS[-1]
    input, weight, _ = problem.tensors(torch.float32, device)
    grad_output = problem.grad_output(torch.float32, device)
    first = _gradients(problem, grad_output, input, weight, None)
    for _ in range(5):
        for result, before in zip(_gradients(problem, grad_output, input, weight, None), first, strict=True):
            assert torch.equal(result, before)


# ---- through autograd ----


class _CalledOperators(TorchDispatchMode):
    """Names of the operators of convt3d that reach a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "convt3d":
            self.names.add(func._schema.name.removeprefix("convt3d::"))
        return func(*args, **(kwargs or {}))


def _apply(name: str, problem: Problem, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    output: Tensor = getattr(convt3d, name)(input, weight, bias, **problem.parameters)
    return output


@pytest.mark.parametrize("has_bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("wanted", [(True, False), (False, True), (True, True), (False, False)], ids=str)
def test_only_the_gradients_that_are_needed(
    wanted: tuple[bool, bool], has_bias: bool, operator_name: str, device: str
) -> None:
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(torch.float32, device, integers=True)
    leaves = [input.requires_grad_(wanted[0]), weight.requires_grad_(wanted[1])]
    if has_bias:
        leaves.append(bias.requires_grad_())
    output = _apply(operator_name, problem, input, weight, bias if has_bias else None)
    assert output.requires_grad == any(leaf.requires_grad for leaf in leaves)
    if not output.requires_grad:
        return
    grad_output = problem.grad_output(torch.float32, device, integers=True)
    with _CalledOperators() as called:
        output.backward(grad_output)
    kinds = zip(("input", "weight", "bias"), (*wanted, has_bias), strict=True)
    needed = {f"conv_transpose3d_{kind}_grad" for kind, is_needed in kinds if is_needed}
    # The input is not kept where only input and bias need their gradients.
    together = len(needed) > 1 and wanted[1]
    assert called.names == ({"conv_transpose3d_backward"} if together else needed)

    relu_output = output if operator_name.endswith("_relu") else None
    for leaf, expected in zip(
        (input, weight, bias), gradients(problem, grad_output, input, weight, relu_output), strict=True
    ):
        if leaf.requires_grad:
            assert leaf.grad is not None
            assert torch.equal(leaf.grad, expected.float())
        else:
            assert leaf.grad is None


def test_no_graph_without_need(operator_name: str, device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = problem.tensors(torch.float32, device, requires_grad=True)
    expected = _apply(operator_name, problem, *tensors)
    with torch.no_grad():
        outputs = [_apply(operator_name, problem, *tensors)]
        outputs.append(getattr(ops, operator_name)(*tensors, **problem.parameters))
    with torch.inference_mode():
        outputs.append(_apply(operator_name, problem, *tensors))
        outputs.append(_apply(operator_name, problem, *(tensor.clone() for tensor in tensors)))
    outputs.append(_apply(operator_name, problem, *(tensor.detach() for tensor in tensors)))
    for output in outputs:
        assert not output.requires_grad
        assert torch.equal(output, expected)


def test_frozen_weight_does_not_keep_the_input(operator_name: str) -> None:
    """With only the input's gradient to compute, the weight is all that the graph has to hold."""
    problem = ALL_DIFFERENT
    leaf, weight, _ = problem.tensors(torch.float32, "cpu")
    activation = leaf.requires_grad_() * 2
    gone = weakref.ref(activation)
    output = _apply(operator_name, problem, activation, weight, None)
    del activation
    gc.collect()
    assert gone() is None
    output.sum().backward()
    assert leaf.grad is not None


def test_expanded_grad_output(operator_name: str, device: str) -> None:
    """`sum().backward()` hands over a gradient of strides 0."""
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(torch.float32, device, integers=True, requires_grad=True)
    output = _apply(operator_name, problem, input, weight, bias)
    output.sum().backward()
    relu_output = output if operator_name.endswith("_relu") else None
    expected = gradients(problem, torch.ones_like(output), input, weight, relu_output)
    for leaf, gradient in zip((input, weight, bias), expected, strict=True):
        assert leaf.grad is not None
        assert torch.equal(leaf.grad, gradient.float())


def test_gradients_take_the_memory_format_of_pytorch(device: str) -> None:
    """A channels_last_3d network keeps its gradients so."""
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(torch.float32, device, "NDHWC", requires_grad=True)
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    output.backward(torch.ones_like(output))
    for leaf in (input, weight):
        assert leaf.grad is not None
        assert leaf.grad.is_contiguous(memory_format=torch.channels_last_3d)


def test_inplace_change_is_noticed(device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(torch.float32, device, requires_grad=True)
    activation = input * 1
    output = convt3d.conv_transpose3d(activation, weight, **problem.parameters)
    activation.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_relu_output_changed_in_place_is_noticed(device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(torch.float32, device, requires_grad=True)
    output = convt3d.conv_transpose3d_relu(input, weight, **problem.parameters)
    output.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grad_output": torch.zeros(1, 5, 5, 3, 4)}, "grad_output must have C_out = 4 channels"),
        ({"grad_output": torch.zeros(1, 4, 4, 3, 4)}, "grad_output must have the size of an output"),
        ({"relu_output": torch.zeros(1, 4, 5, 3, 3)}, "relu_output must have the shape of grad_output"),
        ({"stride": (2, -1, 1)}, "stride must be positive"),
    ],
)
def test_errors_of_the_input_gradient_are_those_of_its_fake_kernel(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "grad_output": torch.zeros(1, 4, 5, 3, 4),
        "weight": torch.zeros(3, 4, 1, 1, 1),
        "stride": (2, 1, 1),
        **changes,
    }
    texts = []
    for device in ("cpu", "meta"):
        there = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in arguments.items()}
        with pytest.raises(RuntimeError, match=message) as raised:
            ops.conv_transpose3d_input_grad(**there)
        texts.append(str(raised.value).splitlines()[0])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"input": random_tensor((1, 3, 2, 3, 4), torch.float32, "cpu")},
            "grad_output must have the shape of the output",
        ),
        ({"groups": 2}, r"input must have a positive number of channels \(C_in\) divisible by groups = 2"),
        ({"kernel_size": (1, 0, 1)}, "kernel_size must be positive"),
    ],
)
def test_errors_of_the_weight_gradient_are_those_of_its_fake_kernel(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "grad_output": torch.zeros(1, 4, 5, 3, 4),
        "input": torch.zeros(1, 3, 5, 3, 4),
        "kernel_size": (1, 1, 1),
        **changes,
    }
    texts = []
    for device in ("cpu", "meta"):
        there = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in arguments.items()}
        with pytest.raises(RuntimeError, match=message) as raised:
            ops.conv_transpose3d_weight_grad(**there)
        texts.append(str(raised.value).splitlines()[0])
    assert texts[0] == texts[1]

"""The gradients of input, weight and bias by one operator, and what reaches it through autograd."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_calls import Calls
from reference import LAYOUTS, PROBLEMS, Problem, gradients, poison, problems
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable

ops = torch.ops.convt3d
MASKS = list(itertools.product((False, True), repeat=3))
ALL_DIFFERENT = PROBLEMS[0]


def _backward(
    problem: Problem,
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    relu_output: Tensor | None,
    output_mask: tuple[bool, ...] = (True, True, True),
) -> tuple[Tensor | None, ...]:
    poison(problem.input_shape, problem.weight_shape, (problem.out_channels,))
    results: tuple[Tensor | None, ...] = ops.conv_transpose3d_backward(
        grad_output, input, weight, relu_output, **problem.parameters, output_mask=output_mask
    )
    return results


def _assert_exact(
    results: tuple[Tensor | None, ...], expected: tuple[Tensor, ...], output_mask: tuple[bool, ...] = (True,) * 3
) -> None:
    assert len(results) == 3
    for result, wanted, asked in zip(results, expected, output_mask, strict=True):
        assert (result is not None) == asked
        if result is not None:
            assert torch.equal(result, wanted.to(result.dtype))


@pytest.mark.parametrize("output_mask", MASKS, ids=str)
@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_integers_are_exact(problem: Problem, has_relu: bool, output_mask: tuple[bool, ...], device: str) -> None:
    input, weight, _ = problem.tensors(torch.float32, device, integers=True)
    grad_output = problem.grad_output(torch.float32, device, integers=True)
    relu_output = problem.grad_output(torch.float32, device).relu() if has_relu else None
    results = _backward(problem, grad_output, input, weight, relu_output, output_mask)
    _assert_exact(results, gradients(problem, grad_output, input, weight, relu_output), output_mask)


@settings(max_examples=100)
@given(
    problem=problems(),
    layouts=st.tuples(*(st.sampled_from(sorted(LAYOUTS)) for _ in range(4))),
    has_relu=st.booleans(),
    output_mask=st.tuples(*(st.booleans() for _ in range(3))),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    slices=st.tuples(*(st.integers(0, 2) for _ in range(6))),
)
def test_random_problem(
    problem: Problem,
    layouts: tuple[str, ...],
    has_relu: bool,
    output_mask: tuple[bool, ...],
    dtype: torch.dtype,
    slices: tuple[int, ...],
    device: str,
) -> None:
    """Any layouts, and grad_output somewhere in a larger tensor."""
    input, weight, _ = problem.tensors(dtype, device, integers=True)
    input, weight = (
        tensor.to(memory_format=LAYOUTS[layout]) for tensor, layout in zip((input, weight), layouts[:2], strict=True)
    )
    dense = problem.grad_output(dtype, device, layouts[2], integers=True)
    begin, end = slices[:3], slices[3:]
    larger = torch.full(
        (
            dense.shape[0],
            *(size + a + b for size, a, b in zip(dense.shape[1:4], begin, end, strict=True)),
            dense.shape[4],
        ),
        float("nan"),
        dtype=dtype,
        device=device,
    ).to(memory_format=LAYOUTS[layouts[2]])
    grad_output = larger
    for dim, (first, size) in enumerate(zip(begin, dense.shape[1:4], strict=True), start=1):
        grad_output = grad_output.narrow(dim, first, size)
    grad_output.copy_(dense)
    relu_output = problem.grad_output(dtype, device, layouts[3]).relu() if has_relu else None
    results = _backward(problem, grad_output, input, weight, relu_output, output_mask)
    _assert_exact(results, gradients(problem, grad_output, input, weight, relu_output), output_mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("layouts", list(itertools.product(LAYOUTS, repeat=3)), ids="-".join)
def test_one_memory_format(layouts: tuple[str, ...], dtype: torch.dtype, device: str) -> None:
    """Of both gradients: channels_last_3d where one of the three tensors is, as for PyTorch on cuDNN."""
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(dtype, device)
    tensors = (problem.grad_output(dtype, device), input, weight)
    given = [tensor.to(memory_format=LAYOUTS[name]) for tensor, name in zip(tensors, layouts, strict=True)]
    channels_last = "NDHWC" in layouts and dtype != torch.float64
    fake = _backward(problem, *(tensor.to("meta") for tensor in given), None)
    for result, predicted in zip(_backward(problem, *given, None)[:2], fake, strict=False):
        assert result is not None
        assert predicted is not None
        assert predicted.stride() == result.stride()
        memory_format = torch.channels_last_3d if channels_last else torch.contiguous_format
        assert result.stride() == torch.empty(result.shape, memory_format=memory_format).stride()


def test_empty_batch(device: str) -> None:
    problem = Problem("", 0, 4, 6, (2, 3, 4), (3, 2, 1), (1, 2, 3), groups=2)
    input, weight, _ = problem.tensors(torch.float32, device)
    results = _backward(problem, problem.grad_output(torch.float32, device), input, weight, None)
    _assert_exact(results, (torch.zeros_like(input), torch.zeros_like(weight), torch.zeros(6, device=device)))


# ---- grad_output as a concatenation hands it over ----


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_behind_a_concatenation(layout: str, operator_name: str, device: str) -> None:
    """A slice of the channels of the decoder's gradient is exact, and its neighbours, all NaN, do not get into it."""
    problem = ALL_DIFFERENT
    tensors = problem.tensors(torch.float32, device, layout, integers=True, requires_grad=True)
    output = getattr(convt3d, operator_name)(*tensors, **problem.parameters)
    handed_over: list[Tensor] = []
    output.register_hook(handed_over.append)
    skip = torch.zeros_like(output[:, :5])
    both = torch.cat((skip, output, skip), 1)
    grad_output = torch.full_like(both, float("nan"))
    grad_output[:, 5:-5] = problem.grad_output(torch.float32, device, layout, integers=True)
    results = torch.autograd.grad(both, tensors, grad_output)
    assert not handed_over[0].is_contiguous(memory_format=LAYOUTS[layout])  # else this would test nothing
    relu_output = output if operator_name.endswith("_relu") else None
    _assert_exact(results, gradients(problem, handed_over[0], *tensors[:2], relu_output))


@pytest.mark.cuda
@pytest.mark.parametrize("has_relu", [False, True], ids=["linear", "relu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", [2, 3])
def test_no_copy_of_a_slice_of_channels(kernel: int, layout: str, dtype: torch.dtype, has_relu: bool) -> None:
    """Results and workspaces are all that is allocated, and less than a copy of grad_output alone would take."""
    problem = Problem("", 2, 16, 32, (24, 28, 40), (kernel,) * 3, (2, 2, 2))
    input, weight, _ = problem.tensors(dtype, "cuda", layout)
    channels = (problem.batch, 2 * problem.out_channels, *problem.output_shape[2:])
    larger = torch.randn(channels, device="cuda").to(dtype, memory_format=LAYOUTS[layout])
    grad_output = larger[:, 16:48]
    relu_output = torch.randn(channels, device="cuda").to(dtype, memory_format=LAYOUTS[layout])[:, 16:48]
    mask = relu_output if has_relu else None
    expected = ops.conv_transpose3d_backward(grad_output, input, weight, mask, **problem.parameters)
    size = grad_output.numel() * grad_output.element_size()
    del expected
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    results = ops.conv_transpose3d_backward(grad_output, input, weight, mask, **problem.parameters)
    kept = sum(result.numel() * result.element_size() for result in results)
    assert torch.cuda.max_memory_allocated() - before - kept < size / 2


# ---- through autograd ----


def test_one_call_for_all_gradients(operator_name: str, device: str) -> None:
    tensors = ALL_DIFFERENT.tensors(torch.float32, device, requires_grad=True)
    output = getattr(convt3d, operator_name)(*tensors, **ALL_DIFFERENT.parameters)
    with Calls() as calls:
        output.sum().backward()
    assert calls.names == ["_backward"]


def test_gradients_of_a_gradient_are_one_call(device: str) -> None:
    """Those of input and weight; grad_output's are two forwards."""
    input, weight, _ = ALL_DIFFERENT.tensors(torch.float32, device, requires_grad=True)
    grad_output = ALL_DIFFERENT.grad_output(torch.float32, device).requires_grad_()
    results = _backward(ALL_DIFFERENT, grad_output, input, weight, None)
    loss = sum(result.square().sum() for result in results if result is not None)
    assert isinstance(loss, Tensor)
    with Calls() as calls:
        loss.backward()
    assert sorted(calls.names) == ["", "", "_backward"]


def test_without_the_weight_the_input_is_not_kept(operator_name: str) -> None:
    """The gradients of input and bias need no more than the weight, which is there anyway."""
    input, weight, bias = ALL_DIFFERENT.tensors(torch.float32, "cpu", requires_grad=True)
    kept: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        output = getattr(convt3d, operator_name)(input, weight.detach(), bias, **ALL_DIFFERENT.parameters)
    assert input.data_ptr() not in {tensor.data_ptr() for tensor in kept}
    with Calls() as calls:
        output.sum().backward()
    assert sorted(calls.names) == ["_bias_grad", "_input_grad"]


class _CallsInside(TorchDispatchMode):
    """Calls a function with tensors that require gradients where autograd is already behind."""

    def __init__(self, function: Callable[[], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.results: list[Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.results.append(self.function())
        return func(*args, **(kwargs or {}))


def test_nothing_is_recorded_below_autograd(operator_name: str) -> None:
    tensors = ALL_DIFFERENT.tensors(torch.float32, "cpu", requires_grad=True)
    with _CallsInside(lambda: getattr(convt3d, operator_name)(*tensors, **ALL_DIFFERENT.parameters)) as mode:
        torch.ones(1)
    assert [result.requires_grad for result in mode.results] == [False]


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_make_fx_sees_the_operator(pre_dispatch: bool, operator_name: str) -> None:
    tensors = ALL_DIFFERENT.tensors(torch.float32, "cpu", requires_grad=True)

    def function(*tensors: Tensor) -> Tensor:
        output: Tensor = getattr(convt3d, operator_name)(*tensors, **ALL_DIFFERENT.parameters)
        return output

    graph = make_fx(function, pre_dispatch=pre_dispatch)(*tensors)
    called = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    assert [name for name in called if name.startswith("convt3d")] == [f"convt3d.{operator_name}.default"]
    torch.testing.assert_close(graph(*tensors), function(*tensors))


# ---- graphs ----


@pytest.mark.parametrize("output_mask", [(True, True, True), (True, False, True), (False, True, False)], ids=str)
@pytest.mark.parametrize("how", ["aot_eager", "inductor", "export"])
def test_in_a_graph(how: str, output_mask: tuple[bool, bool, bool], fresh_compiler: None) -> None:
    problem = ALL_DIFFERENT
    input, weight, _ = problem.tensors(torch.float32, "cpu", "NDHWC", integers=True)
    grad_output = problem.grad_output(torch.float32, "cpu", integers=True)
    stride, padding, output_padding, groups, dilation = problem.parameters.values()

    class Gradients(nn.Module):
        def forward(self, grad_output: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor | None, ...]:
            results: tuple[Tensor | None, ...] = ops.conv_transpose3d_backward(
                grad_output * 2, input, weight, None, stride, padding, output_padding, groups, dilation, output_mask
            )
            return results

    module: Any = Gradients()
    tensors = (grad_output, input, weight)
    expected = gradients(problem, 2 * grad_output, input, weight)
    if how == "export":
        module = torch.export.export(module, tensors).module()
    else:
        module = torch.compile(module, fullgraph=True, backend=how)
    results = module(*tensors)
    _assert_exact(results, expected, output_mask)
    for result, eager in zip(results, Gradients()(*tensors), strict=True):
        assert result is None or result.stride() == eager.stride()


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_traced_with_its_gradients() -> None:
    """torch.jit.trace refuses lists of bools, which nobody asked it for."""
    problem = ALL_DIFFERENT
    tensors = problem.tensors(torch.float32, "cpu", integers=True, requires_grad=True)

    def function(*tensors: Tensor) -> tuple[Tensor, ...]:
        output = convt3d.conv_transpose3d(*tensors, **problem.parameters)
        return torch.autograd.grad(output.square().sum(), tensors)

    traced = torch.jit.trace(function, tensors, check_trace=False)
    for result, expected in zip(traced(*tensors), function(*tensors), strict=True):
        assert torch.equal(result, expected)

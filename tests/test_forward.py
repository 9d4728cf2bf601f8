"""The forward operators: values, memory formats, strides of the arguments, sizes."""

from collections.abc import Callable

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
    forward,
    poison,
    problems,
    pytorch_is_sound,
    random_tensor,
)
from torch import Tensor

import convt3d
from convt3d._registrations import torch_internals

FLOATING = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
ALL_DIFFERENT = PROBLEMS[0]


def _operator(name: str) -> Callable[..., Tensor]:
    operator: Callable[..., Tensor] = getattr(convt3d, name)
    return operator


def _expected(name: str, problem: Problem, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    output = forward(problem, input, weight, bias)
    return output.relu() if name.endswith("_relu") else output


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_accuracy(problem: Problem, dtype: torch.dtype, layout: str, operator_name: str, device: str) -> None:
    input, weight, bias = problem.tensors(dtype, device, layout)
    poison(problem.output_shape)
    output = _operator(operator_name)(input, weight, bias, **problem.parameters)
    assert output.dtype == dtype
    expected = _expected(operator_name, problem, input, weight, bias)
    magnitude = forward(problem, input.abs(), weight.abs(), bias.abs())
    pytorch = None
    if pytorch_is_sound(dtype, device):
        pytorch = F.conv_transpose3d(input, weight, bias, **problem.parameters)
        pytorch = pytorch.relu() if operator_name.endswith("_relu") else pytorch
    assert_accurate(output, expected, magnitude, problem.forward_terms, pytorch=pytorch)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_integers_are_exact(problem: Problem, dtype: torch.dtype, layout: str, operator_name: str, device: str) -> None:
    """On small integers each sum is exact and rounded once, so that one wrong or missing product shows."""
    input, weight, bias = problem.tensors(dtype, device, layout, integers=True)
    poison(problem.output_shape)
    output = _operator(operator_name)(input, weight, bias, **problem.parameters)
    expected = _expected(operator_name, problem, input, weight, bias).to(dtype)
    assert torch.equal(output, expected)


@settings(max_examples=100)
@given(
    problem=problems(),
    layouts=st.tuples(st.sampled_from(sorted(LAYOUTS)), st.sampled_from(sorted(LAYOUTS))),
    has_bias=st.booleans(),
    relu=st.booleans(),
)
def test_random_problem(problem: Problem, layouts: tuple[str, str], has_bias: bool, relu: bool, device: str) -> None:
    input, weight, bias = problem.tensors(torch.float32, device, integers=True)
    input, weight = (
        tensor.to(memory_format=LAYOUTS[layout]) for tensor, layout in zip((input, weight), layouts, strict=True)
    )
    poison(problem.output_shape)
    name = "conv_transpose3d_relu" if relu else "conv_transpose3d"
    output = _operator(name)(input, weight, bias if has_bias else None, **problem.parameters)
    expected = _expected(name, problem, input, weight, bias if has_bias else None)
    assert torch.equal(output, expected.float())


# ---- memory formats and strides ----


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.contiguous()


def _channels_last(tensor: Tensor) -> Tensor:
    return tensor.contiguous(memory_format=torch.channels_last_3d)


def _sliced(tensor: Tensor) -> Tensor:
    """Every second voxel of a larger tensor, from its second on."""
    larger = tensor.new_full([2 * size + 1 for size in tensor.shape], float("nan"))
    view = larger[tuple(slice(1, 2 * size, 2) for size in tensor.shape)]
    return view.copy_(tensor)


def _sliced_channels_last(tensor: Tensor) -> Tensor:
    """Some channels of a wider channels_last_3d tensor."""
    wider = torch.cat([torch.full_like(tensor, float("nan")), tensor], 1)
    return _channels_last(wider)[:, tensor.shape[1] :]


def _permuted(tensor: Tensor) -> Tensor:
    """Depth innermost."""
    return tensor.permute(0, 3, 4, 1, 2).contiguous().permute(0, 3, 4, 1, 2)


def _expanded_over_width(tensor: Tensor) -> Tensor:
    return tensor[..., :1].expand(tensor.shape)


def _expanded_over_channels(tensor: Tensor) -> Tensor:
    return tensor[:, :1].expand(tensor.shape)


# Whether the result is channels_last_3d because the operand has such strides.
STRIDES: list[tuple[Callable[[Tensor], Tensor], bool]] = [
    (_contiguous, False),
    (_channels_last, True),
    (_sliced, False),
    (_sliced_channels_last, True),
    (_permuted, False),
    (_expanded_over_width, False),
    (_expanded_over_channels, False),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("of_weight", "weight_decides"), STRIDES)
@pytest.mark.parametrize(("of_input", "input_decides"), STRIDES)
def test_strides(
    of_input: Callable[[Tensor], Tensor],
    input_decides: bool,
    of_weight: Callable[[Tensor], Tensor],
    weight_decides: bool,
    dtype: torch.dtype,
    device: str,
) -> None:
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(dtype, device, integers=True)
    input, weight = of_input(input), of_weight(weight)
    poison(problem.output_shape)
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    assert torch.equal(output, forward(problem, input, weight, bias).to(dtype))
    channels_last = (input_decides or weight_decides) and dtype != torch.float64
    memory_format = torch.channels_last_3d if channels_last else torch.contiguous_format
    assert output.stride() == torch.empty(problem.output_shape, memory_format=memory_format).stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("of_input", [_contiguous, _channels_last])
@pytest.mark.parametrize("of_weight", [_contiguous, _channels_last])
@pytest.mark.cuda
def test_memory_format_is_that_of_cudnn(
    problem: Problem, of_input: Callable[[Tensor], Tensor], of_weight: Callable[[Tensor], Tensor], dtype: torch.dtype
) -> None:
    if any(extra >= stride for extra, stride in zip(problem.output_padding, problem.stride, strict=True)):
        pytest.skip("PyTorch does not ask cuDNN for it")
    input, weight, bias = problem.tensors(dtype, "cuda")
    input, weight = of_input(input), of_weight(weight)
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    assert output.stride() == F.conv_transpose3d(input, weight, bias, **problem.parameters).stride()


def test_strided_and_expanded_bias(operator_name: str, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(torch.float32, device, integers=True)
    for view in (torch.stack([bias, bias + 99], 1)[:, 0], bias[:1].expand(problem.out_channels)):
        output = _operator(operator_name)(input, weight, view, **problem.parameters)
        assert torch.equal(output, _expected(operator_name, problem, input, weight, view).float())


def test_bitwise_repeatable(operator_name: str, device: str) -> None:
    problem = PROBLEMS[-1]
    input, weight, bias = problem.tensors(torch.float32, device)
    first = _operator(operator_name)(input, weight, bias, **problem.parameters)
    for _ in range(5):
        poison(problem.output_shape)
        assert torch.equal(first, _operator(operator_name)(input, weight, bias, **problem.parameters))


# ---- arguments ----


def test_positional_arguments_are_those_of_pytorch(device: str) -> None:
    problem = ALL_DIFFERENT
    tensors = problem.tensors(torch.float32, device, integers=True)
    parameters = (problem.stride, problem.padding, problem.output_padding, problem.groups, problem.dilation)
    expected = torch.ops.aten.conv_transpose3d(*tensors, *parameters)
    assert torch.equal(torch.ops.convt3d.conv_transpose3d(*tensors, *parameters), expected)
    assert torch.equal(convt3d.conv_transpose3d(*tensors, *parameters), expected)


@pytest.mark.parametrize("form", [2, (2,), [2, 2, 2]], ids=str)
def test_int_for_three(form: object, operator_name: str, device: str) -> None:
    input, weight, bias = Problem("", 1, 3, 4, (2, 3, 4), (3, 3, 3)).tensors(torch.float32, device, integers=True)
    parameters = {"stride": form, "padding": form, "dilation": form}
    expected = F.conv_transpose3d(input, weight, bias, stride=2, padding=2, dilation=2)
    output = _operator(operator_name)(input, weight, bias, **parameters)
    assert torch.equal(output, expected.relu() if operator_name.endswith("_relu") else expected)


def test_unbatched(operator_name: str, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(torch.float32, device, integers=True)
    output = _operator(operator_name)(input[1], weight, bias, **problem.parameters)
    assert torch.equal(output, _operator(operator_name)(input, weight, bias, **problem.parameters)[1])


def test_empty_batch(operator_name: str, device: str) -> None:
    problem = Problem("", 0, 4, 6, (2, 3, 4), (3, 2, 1), (1, 2, 3), groups=2)
    output = _operator(operator_name)(*problem.tensors(torch.float32, device), **problem.parameters)
    assert output.shape == problem.output_shape


def test_output_size(operator_name: str, device: str) -> None:
    problem = Problem("", 2, 3, 4, (2, 3, 4), (3, 2, 1), (3, 2, 4), (1, 0, 0), dilation=(1, 2, 1))
    tensors = problem.tensors(torch.float32, device, integers=True)
    parameters = {name: value for name, value in problem.parameters.items() if name != "output_padding"}
    smallest = problem.output_shape[2:]
    for extra in ((0, 0, 0), (2, 1, 3), (1, 0, 2)):
        wanted = tuple(size + more for size, more in zip(smallest, extra, strict=True))
        expected = _operator(operator_name)(*tensors, output_padding=extra, **parameters)
        for output_size in (wanted, problem.output_shape[:2] + wanted):
            output = _operator(operator_name)(*tensors, output_size=output_size, **parameters)
            assert output.shape[2:] == wanted
            assert torch.equal(output, expected)
        unbatched = _operator(operator_name)(tensors[0][0], *tensors[1:], output_size=wanted, **parameters)
        assert torch.equal(unbatched, expected[0])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"output_size": (9, 9, 9)}, r"output_size must be between \(2, 3, 4\) and \(3, 3, 6\).*got \(9, 9, 9\)"),
        ({"output_size": (1, 3, 4)}, r"output_size must be between"),
        ({"output_size": (2, 3)}, r"output_size must have 3 or 5 elements for 5-D input, got 2"),
        (
            {"output_size": (2, 3, 4), "output_padding": 1},
            r"output_padding must be 0 where output_size is given, got 1",
        ),
    ],
)
def test_output_size_out_of_range(wrong: dict[str, object], message: str, operator_name: str) -> None:
    input, weight = (
        random_tensor((1, 2, 1, 2, 1), torch.float32, "cpu"),
        random_tensor((2, 1, 2, 2, 4), torch.float32, "cpu"),
    )
    with pytest.raises(ValueError, match=message):
        _operator(operator_name)(input, weight, stride=(2, 1, 3), **wrong)


def test_rank(operator_name: str) -> None:
    with pytest.raises(RuntimeError, match=r"input must be 5-D .* or 4-D .*, got 3-D of shape \(2, 3, 4\)"):
        _operator(operator_name)(torch.zeros(2, 3, 4), torch.zeros(2, 1, 1, 1, 1))


def test_parameter_count(operator_name: str) -> None:
    with pytest.raises(TypeError, match=r"stride must be an int or 3 ints \(depth, height, width\), got \(1, 2\)"):
        _operator(operator_name)(
            torch.zeros(1, 2, 1, 1, 1), torch.zeros(2, 1, 1, 1, 1), stride=(1, 2), output_size=[1, 1, 1]
        )


class _Volume(Tensor):
    """A subclass as medical imaging libraries have: plain data that stays what it is through any function."""


def test_tensor_subclass(operator_name: str, device: str) -> None:
    problem = ALL_DIFFERENT
    input, weight, bias = problem.tensors(torch.float32, device, integers=True)
    output = _operator(operator_name)(input.as_subclass(_Volume), weight, bias, **problem.parameters)
    assert isinstance(output, _Volume)
    assert torch.equal(output.as_subclass(Tensor), _operator(operator_name)(input, weight, bias, **problem.parameters))


@pytest.mark.parametrize("way", ["function", "operator", "gradient"])
def test_out_of_memory_is_pytorchs(way: str, operator_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled library can only throw a RuntimeError that says so."""

    def fail(*args: object) -> Tensor:
        raise RuntimeError("CUDA out of memory. Tried to allocate 3.00 GiB")

    for name in ("call", "redispatch_below_autograd", "redispatch_to_next_level"):
        if name != "call" or way == "function":
            monkeypatch.setattr(torch_internals, name, fail)
    tensors = ALL_DIFFERENT.tensors(torch.float32, "cpu", requires_grad=way == "gradient")
    operator = getattr(convt3d if way == "function" else torch.ops.convt3d, operator_name)
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 3.00 GiB"):
        operator(*tensors, **ALL_DIFFERENT.parameters)


# ---- tensors without data ----


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_meta(problem: Problem, layout: str, dtype: torch.dtype, operator_name: str) -> None:
    tensors = problem.tensors(dtype, "cpu", layout)
    output = _operator(operator_name)(*tensors, **problem.parameters)
    meta = _operator(operator_name)(*(tensor.to("meta") for tensor in tensors), **problem.parameters)
    assert meta.device.type == "meta"
    assert meta.dtype == output.dtype
    assert meta.shape == output.shape
    assert meta.stride() == output.stride()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"padding": (0, -1, 0)}, "padding must be non-negative"),
        ({"stride": (1, 0, 1)}, "stride must be positive"),
        ({"groups": 4}, "divisible by groups"),
        ({"output_padding": (2, 0, 0)}, "output_padding must be smaller than stride or dilation"),
        ({"padding": (9, 0, 0)}, "the output size must be positive"),
        ({"weight": torch.zeros(5, 1, 1, 1, 1)}, "input must have C_in = 5 channels"),
        ({"bias": torch.zeros(5)}, "bias must have C_out = 2 elements"),
        ({"bias": torch.zeros(2, dtype=torch.float64)}, "bias must have the dtype of input"),
        ({"input": torch.zeros(6, 2, 3, 4)}, "input must be 5-D"),
    ],
)
def test_meta_reports_what_the_kernels_report(changes: dict[str, object], message: str) -> None:
    arguments = {"input": torch.zeros(1, 6, 2, 3, 4), "weight": torch.zeros(6, 2, 1, 1, 1), **changes}
    texts = []
    for device in ("cpu", "meta"):
        there = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in arguments.items()}
        with pytest.raises(RuntimeError, match=message) as raised:
            torch.ops.convt3d.conv_transpose3d(**there)
        texts.append(str(raised.value).splitlines()[0])
    assert texts[0] == texts[1]

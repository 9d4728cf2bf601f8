"""Bad input: rejected before anything runs, by a message that names the argument, its value and what would be valid."""

from __future__ import annotations

import pytest
import torch
from rejection import DEVICES, DEVICES_AND_FAKE, INPUT, KERNEL, OUTPUT, PARAMETERS, WEIGHT, Shape, rejects, tensor_of

PARAMETER_CASES = {
    "stride zero": ({"stride": (2, 0, 1)}, "stride must be positive, got (2, 0, 1)"),
    "stride negative": ({"stride": -2}, "stride must be positive, got (-2, -2, -2)"),
    "stride of two": ({"stride": (2, 3)}, "stride must be an int or 3 ints (depth, height, width), got (2, 3)"),
    "padding negative": ({"padding": (0, -1, 0)}, "padding must be non-negative, got (0, -1, 0)"),
    "padding of four": (
        {"padding": (0, 1, 2, 3)},
        "padding must be an int or 3 ints (depth, height, width), got (0, 1, 2, 3)",
    ),
    "output_padding negative": (
        {"output_padding": (0, 0, -1)},
        "output_padding must be non-negative, got (0, 0, -1)",
    ),
    "output_padding too large": (
        {"output_padding": (1, 3, 2)},
        (
            "output_padding must be smaller than stride or dilation in every dimension, got output_padding (1, 3, 2) "
            "with stride (2, 3, 1) and dilation (1, 2, 3)"
        ),
    ),
    "dilation zero": ({"dilation": (1, 2, 0)}, "dilation must be positive, got (1, 2, 0)"),
    "groups zero": ({"groups": 0}, "groups must be positive, got 0"),
    "groups negative": ({"groups": -2}, "groups must be positive, got -2"),
}

FORWARD_CASES = PARAMETER_CASES | {
    "input of rank 4": (
        {"input": Shape((4, 5, 6, 7))},
        "input must be 5-D (N, C, D, H, W), got 4-D of shape (4, 5, 6, 7)",
    ),
    "weight of rank 4": (
        {"weight": Shape((4, 3, 3, 2))},
        "weight must be 5-D (C_in, C_out/groups, kD, kH, kW), got 4-D of shape (4, 3, 3, 2)",
    ),
    "bias of rank 2": ({"bias": Shape((6, 1))}, "bias must be 1-D (C_out), got 2-D of shape (6, 1)"),
    "bias too short": ({"bias": Shape((5,))}, "bias must have C_out = 6 elements, got shape (5)"),
    "channels of input": (
        {"input": Shape((2, 3, 5, 6, 7))},
        (
            "input must have C_in = 4 channels (the first dimension of weight, of shape (4, 3, 3, 2, 4)), "
            "got shape (2, 3, 5, 6, 7)"
        ),
    ),
    "channels not divisible": (
        {"groups": 3},
        "weight must have a first dimension (C_in) divisible by groups = 3, got shape (4, 3, 3, 2, 4)",
    ),
    "no input channels": (
        {"input": Shape((2, 0, 5, 6, 7)), "weight": Shape((0, 3, 3, 2, 4))},
        "weight must not be empty in any dimension, got shape (0, 3, 3, 2, 4)",
    ),
    "no output channels": (
        {"weight": Shape((4, 0, 3, 2, 4)), "bias": Shape((0,))},
        "weight must not be empty in any dimension, got shape (4, 0, 3, 2, 4)",
    ),
    "no kernel": (
        {"weight": Shape((4, 3, 3, 0, 4))},
        "weight must not be empty in any dimension, got shape (4, 3, 3, 0, 4)",
    ),
    "no width": (
        {"input": Shape((2, 4, 5, 6, 0))},
        "input must have a depth, height and width of at least 1, got shape (2, 4, 5, 6, 0)",
    ),
    "output size": (
        {"padding": (6, 0, 2)},
        (
            "the output size must be positive, got (0, 20, 12) from input size (5, 6, 7), kernel size (3, 2, 4), "
            "stride (2, 3, 1), padding (6, 0, 2), output_padding (1, 2, 0) and dilation (1, 2, 3)"
        ),
    ),
    "dtype of weight": (
        {"weight": tensor_of(torch.float64, WEIGHT)},
        "weight must have the dtype of input, float32, got float64",
    ),
    "dtype of bias": (
        {"bias": tensor_of(torch.float16, (6,))},
        "bias must have the dtype of input, float32, got float16",
    ),
}

RELU_OUTPUT_CASES = {
    "relu_output of rank 4": (
        {"relu_output": Shape(OUTPUT[1:])},
        "relu_output must be 5-D (N, C, D, H, W), got 4-D of shape (6, 10, 20, 12)",
    ),
    "shape of relu_output": (
        {"relu_output": Shape((2, 6, 10, 12, 20))},
        "relu_output must have the shape of grad_output, (2, 6, 10, 20, 12), got (2, 6, 10, 12, 20)",
    ),
    "dtype of relu_output": (
        {"relu_output": tensor_of(torch.bfloat16, OUTPUT)},
        "relu_output must have the dtype of grad_output, float32, got bfloat16",
    ),
    "grad_output of rank 4": (
        {"grad_output": Shape(OUTPUT[1:])},
        "grad_output must be 5-D (N, C, D, H, W), got 4-D of shape (6, 10, 20, 12)",
    ),
}

INPUT_GRAD_CASES = (
    PARAMETER_CASES
    | RELU_OUTPUT_CASES
    | {
        "channels of grad_output": (
            {"grad_output": Shape((2, 4, 10, 20, 12))},
            (
                "grad_output must have C_out = 6 channels (the second dimension of weight, of shape (4, 3, 3, 2, 4), "
                "times groups = 2), got shape (2, 4, 10, 20, 12)"
            ),
        ),
        "size with a remainder": (
            {"grad_output": Shape((2, 6, 10, 21, 12))},
            (
                "grad_output must have the size of an output, (size-1)*stride - 2*padding + dilation*(kernel_size-1) + "
                "output_padding + 1 for some input size >= 1, got height 21 with kernel size (3, 2, 4), "
                "stride (2, 3, 1), padding (1, 0, 2), output_padding (1, 2, 0) and dilation (1, 2, 3)"
            ),
        ),
        "size of no input": (
            {"grad_output": Shape((2, 6, 10, 20, 5))},
            (
                "grad_output must have the size of an output, (size-1)*stride - 2*padding + dilation*(kernel_size-1) + "
                "output_padding + 1 for some input size >= 1, got width 5 "
            ),
        ),
        "dtype of weight": (
            {"weight": tensor_of(torch.float64, WEIGHT)},
            "weight must have the dtype of grad_output, float32, got float64",
        ),
    }
)

WEIGHT_GRAD_CASES = (
    PARAMETER_CASES
    | RELU_OUTPUT_CASES
    | {
        "kernel_size zero": ({"kernel_size": (3, 0, 4)}, "kernel_size must be positive, got (3, 0, 4)"),
        "batch of input": (
            {"input": Shape((3, 4, 5, 6, 7))},
            "grad_output must have the shape of the output, (3, 6, 10, 20, 12) for input of shape (3, 4, 5, 6, 7), ",
        ),
        "size of grad_output": (
            {"grad_output": Shape((2, 6, 10, 21, 12))},
            (
                "grad_output must have the shape of the output, (2, 6, 10, 20, 12) for input of shape (2, 4, 5, 6, 7), "
                "kernel size (3, 2, 4), stride (2, 3, 1), padding (1, 0, 2), output_padding (1, 2, 0) and "
                "dilation (1, 2, 3), got (2, 6, 10, 21, 12)"
            ),
        ),
        "channels of input": (
            {"input": Shape((2, 5, 5, 6, 7))},
            "input must have a positive number of channels (C_in) divisible by groups = 2, got shape (2, 5, 5, 6, 7)",
        ),
        "channels of grad_output": (
            {"grad_output": Shape((2, 5, 10, 20, 12))},
            (
                "grad_output must have a positive number of channels (C_out) divisible by groups = 2, "
                "got shape (2, 5, 10, 20, 12)"
            ),
        ),
        "dtype of input": (
            {"input": tensor_of(torch.float64, INPUT)},
            "input must have the dtype of grad_output, float32, got float64",
        ),
    }
)

BACKWARD_CASES = (
    PARAMETER_CASES
    | RELU_OUTPUT_CASES
    | {
        name: FORWARD_CASES[name]
        for name in (
            "input of rank 4",
            "weight of rank 4",
            "channels of input",
            "channels not divisible",
            "no input channels",
            "no kernel",
            "no width",
        )
    }
    | {name: WEIGHT_GRAD_CASES[name] for name in ("batch of input", "size of grad_output", "dtype of input")}
    | {
        "dtype of weight": INPUT_GRAD_CASES["dtype of weight"],
        "channels of grad_output": (
            {"grad_output": Shape((2, 4, 10, 20, 12))},
            "grad_output must have the shape of the output, (2, 6, 10, 20, 12) for input of shape (2, 4, 5, 6, 7), ",
        ),
        "output_mask of two": (
            {"output_mask": (True, False)},
            "output_mask must be 3 bools (input, weight, bias), got 2",
        ),
    }
)


@pytest.mark.parametrize("device", DEVICES_AND_FAKE)
@pytest.mark.parametrize("op", ["conv_transpose3d", "conv_transpose3d_relu"])
@pytest.mark.parametrize("case", FORWARD_CASES)
def test_forward(case: str, op: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    overrides, message = FORWARD_CASES[case]
    arguments = {"input": Shape(INPUT), "weight": Shape(WEIGHT), "bias": Shape((6,)), **PARAMETERS, **overrides}
    rejects(op, message, device, arguments, capfd)


@pytest.mark.parametrize("device", DEVICES_AND_FAKE)
@pytest.mark.parametrize("case", INPUT_GRAD_CASES)
def test_input_grad(case: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    overrides, message = INPUT_GRAD_CASES[case]
    arguments = {"grad_output": Shape(OUTPUT), "weight": Shape(WEIGHT), **PARAMETERS, **overrides}
    rejects("conv_transpose3d_input_grad", message, device, arguments, capfd)


@pytest.mark.parametrize("device", DEVICES_AND_FAKE)
@pytest.mark.parametrize("case", WEIGHT_GRAD_CASES)
def test_weight_grad(case: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    overrides, message = WEIGHT_GRAD_CASES[case]
    arguments = {"grad_output": Shape(OUTPUT), "input": Shape(INPUT), "kernel_size": KERNEL, **PARAMETERS, **overrides}
    rejects("conv_transpose3d_weight_grad", message, device, arguments, capfd)


@pytest.mark.parametrize("device", DEVICES_AND_FAKE)
@pytest.mark.parametrize("case", RELU_OUTPUT_CASES)
def test_bias_grad(case: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    overrides, message = RELU_OUTPUT_CASES[case]
    rejects("conv_transpose3d_bias_grad", message, device, {"grad_output": Shape(OUTPUT), **overrides}, capfd)


@pytest.mark.parametrize("device", DEVICES_AND_FAKE)
@pytest.mark.parametrize("case", BACKWARD_CASES)
def test_backward(case: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    overrides, message = BACKWARD_CASES[case]
    shapes = {"grad_output": Shape(OUTPUT), "input": Shape(INPUT), "weight": Shape(WEIGHT)}
    rejects("conv_transpose3d_backward", message, device, {**shapes, **PARAMETERS, **overrides}, capfd)


@pytest.mark.parametrize("device", DEVICES)
def test_the_cases_differ_from_valid_arguments_only_in_what_they_name(device: str) -> None:
    tensors = {name: torch.ones(shape, device=device) for name, shape in (("input", INPUT), ("weight", WEIGHT))}
    output = torch.ops.convt3d.conv_transpose3d(**tensors, bias=torch.ones(6, device=device), **PARAMETERS)
    assert output.shape == OUTPUT
    ops = torch.ops.convt3d
    assert ops.conv_transpose3d_input_grad(output, tensors["weight"], output, **PARAMETERS).shape == INPUT
    assert ops.conv_transpose3d_weight_grad(output, tensors["input"], KERNEL, output, **PARAMETERS).shape == WEIGHT
    assert ops.conv_transpose3d_bias_grad(output, output).shape == (6,)
    results = ops.conv_transpose3d_backward(output, tensors["input"], tensors["weight"], output, **PARAMETERS)
    assert [result.shape for result in results] == [INPUT, WEIGHT, (6,)]


UNSUPPORTED = [
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.uint16,
]


@pytest.mark.parametrize("device", DEVICES_AND_FAKE)
@pytest.mark.parametrize("dtype", UNSUPPORTED, ids=str)
def test_unsupported_dtype(dtype: torch.dtype, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    tensors = {
        name: torch.empty(shape, dtype=dtype, device=device) for name, shape in (("input", INPUT), ("weight", WEIGHT))
    }
    valid = "must be of dtype float32, float64, float16 or bfloat16, got"
    rejects("conv_transpose3d", f"input {valid} ", device, tensors, capfd)
    with pytest.raises(RuntimeError, match=f"grad_output {valid} "):
        torch.ops.convt3d.conv_transpose3d_bias_grad(tensors["input"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["input", "weight", "bias"])
def test_sparse_tensor(name: str, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    shapes = {"input": INPUT, "weight": WEIGHT, "bias": (6,)}
    arguments = {key: torch.ones(shape, device=device) for key, shape in shapes.items()} | PARAMETERS
    arguments[name] = arguments[name].to_sparse()
    message = f"{name} must be a dense (strided) tensor, got another layout (sparse or opaque)"
    rejects("conv_transpose3d", message, device, arguments, capfd)


@pytest.mark.cuda
@pytest.mark.parametrize("name", ["weight", "bias"])
@pytest.mark.parametrize(("device", "other"), [("cuda:0", "cpu"), ("cpu", "cuda:0")])
def test_device_mismatch(name: str, device: str, other: str, capfd: pytest.CaptureFixture[str]) -> None:
    shapes = {"input": INPUT, "weight": WEIGHT, "bias": (6,)}
    arguments = {key: torch.ones(shape, device=device) for key, shape in shapes.items()} | PARAMETERS
    arguments[name] = arguments[name].to(other)
    rejects(
        "conv_transpose3d", f"{name} must be on the device of input, {device}, got {other}", device, arguments, capfd
    )


@pytest.mark.cuda
def test_device_mismatch_of_relu_output(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = {"grad_output": torch.ones(OUTPUT, device="cuda:0"), "relu_output": torch.ones(OUTPUT)}
    message = "relu_output must be on the device of grad_output, cuda:0, got cpu"
    rejects("conv_transpose3d_bias_grad", message, "cuda:0", arguments, capfd)

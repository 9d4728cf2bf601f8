"""`convt3d.explain`: the engine that runs, exact bytes and flops, and the limit, without a GPU."""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import Any

import pytest
import torch

import convt3d
from convt3d._explain import call
from convt3d._explain.asking import only_engine
from convt3d._explain.plan import ENGINES, cuda_device
from convt3d._library import BuildInfo, build_info, image_for

PARAMETERS: dict[str, Any] = {
    "stride": (2, 1, 2),
    "padding": (1, 0, 2),
    "output_padding": (1, 0, 0),
    "groups": 2,
    "dilation": (1, 2, 1),
}


def tensors(dtype: torch.dtype = torch.float16, device: str = "meta") -> tuple[torch.Tensor, torch.Tensor]:
    return (
        torch.empty(3, 16, 4, 5, 6, dtype=dtype, device=device),
        torch.empty(16, 12, 3, 2, 4, dtype=dtype, device=device),
    )


def test_work_is_exact() -> None:
    input, weight = tensors()
    explained = convt3d.explain(input, weight, None, **PARAMETERS)
    output = convt3d.conv_transpose3d(input, weight, None, **PARAMETERS)
    assert explained.output_shape == output.shape
    assert explained.bytes == 2 * (input.numel() + weight.numel() + output.numel())
    products = 0
    for positions in itertools.product(range(4), range(5), range(6)):
        for taps in itertools.product(range(3), range(2), range(4)):
            place = [
                i * PARAMETERS["stride"][a] - PARAMETERS["padding"][a] + k * PARAMETERS["dilation"][a]
                for a, (i, k) in enumerate(zip(positions, taps, strict=True))
            ]
            products += all(0 <= place[a] < output.shape[2 + a] for a in range(3))
    assert explained.flops == 2 * 3 * 16 * 12 * products


def test_limit_is_the_slower_of_moving_and_computing() -> None:
    moving = convt3d.explain(*tensors(), **PARAMETERS)
    assert moving.limit_ms == pytest.approx(1e3 * moving.bytes / 4.25e12)
    many = torch.empty(4, 512, 16, 16, 16, device="meta", dtype=torch.bfloat16)
    computing = convt3d.explain(many, torch.empty(512, 512, 3, 3, 3, device="meta", dtype=torch.bfloat16))
    assert computing.limit_ms == pytest.approx(1e3 * computing.flops / 771e12)
    assert computing.expected_ms >= computing.limit_ms


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_engine_of_an_assumed_h200(device: str) -> None:
    explained = convt3d.explain(*tensors(device=device), **PARAMETERS)
    assert explained.device == "NVIDIA H200 (assumed)"
    assert explained.engine != "simt"
    assert explained.plan
    assert explained.workspace_bytes > 0


def test_engine_of_a_given_capability() -> None:
    assert convt3d.explain(*tensors(), **PARAMETERS, device_capability=(8, 0)).engine == "mma"
    hopper = convt3d.explain(*tensors(), **PARAMETERS, device_capability=(9, 0))
    assert hopper.engine == convt3d.explain(*tensors(), **PARAMETERS).engine
    assert hopper.device == "compute capability 9.0 (given)"


@pytest.mark.parametrize("capability", [(7, 0), (7, 4), (0, 9), (-9, 0)])
def test_capability_that_no_build_serves_is_refused(capability: tuple[int, int]) -> None:
    message = rf"device_capability must be \(7, 5\) or later, .*, got {re.escape(str(capability))}"
    with pytest.raises(RuntimeError, match=message):
        convt3d.explain(*tensors(), **PARAMETERS, device_capability=capability)
    model = torch.nn.ConvTranspose3d(3, 2, 2)
    with pytest.raises(RuntimeError, match=message):
        convt3d.explain(model, torch.ones(1, 3, 2, 2, 2), device_capability=capability)


def test_gpu_without_kernels_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is that of a build for it; 8.7 is not served by machine code for 8.6."""
    for built, which in (((), "a release"), (("sm_80", "sm_86"), "this build")):
        info = BuildInfo("0", "2.11", "13.0", built, ("sm_86", "sm_100"))
        monkeypatch.setattr(call, "build_info", lambda info=info: info)
        for capability in ((8, 7), (11, 0)):
            explained = convt3d.explain(*tensors(), **PARAMETERS, device_capability=capability)
            assert f"(given; {which} has no kernels for it, one with CONVT3D_CUDA_ARCHS would" in explained.device
            assert explained.engine == "mma"
        served = convt3d.explain(*tensors(), **PARAMETERS, device_capability=(8, 9))
        assert served.device == "compute capability 8.9 (given)"


@pytest.mark.parametrize("capability", [9.0, "9.0", (9,), (9, 0, 0), (9.0, 0), (True, 0)])
def test_capability_that_is_none_is_refused(capability: Any) -> None:
    with pytest.raises(TypeError, match="device_capability must be two ints such as") as caught:
        convt3d.explain(*tensors(), **PARAMETERS, device_capability=capability)
    assert str(caught.value).endswith(f"got {capability!r}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            lambda x, w: (None, w),
            "the first argument must be a torch.nn.Module or, for one call, a Tensor, got NoneType",
        ),
        (lambda x, w: (convt3d.convert(torch.nn.ReLU()), x), r"the first argument must be .*, got Report"),
        (lambda x, w: (x, None), "weight must be a Tensor, got NoneType"),
        (lambda x, w: (x, w, 1.0), "bias must be a Tensor, got float"),
        (lambda x, w: (x, w, None, 1, 0, 0, "2"), "groups must be an int, got '2' of type str"),
    ],
)
def test_argument_of_another_type_is_named(arguments: Any, message: str) -> None:
    input, weight, *_ = tensors()
    with pytest.raises(TypeError, match=message):
        convt3d.explain(*arguments(input, weight))


def test_gpu_that_no_build_serves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 0))
    with pytest.raises(RuntimeError, match=r"the compute capability of cuda:0 must be \(7, 5\) or later"):
        call._device(torch.device("cuda:0"), None)


@pytest.mark.parametrize(
    ("dtype", "precision"), [(torch.float64, "fp64"), (torch.float16, "fp16"), (torch.bfloat16, "bf16")]
)
def test_precision_of_a_dtype(dtype: torch.dtype, precision: str) -> None:
    assert convt3d.explain(*tensors(dtype)).precision == precision


@pytest.mark.parametrize(("allowed", "precision"), [(True, "tf32"), (False, "fp32")])
def test_float32_follows_pytorchs_switch(allowed: bool, precision: str) -> None:
    with torch.backends.cudnn.flags(allow_tf32=allowed):
        assert convt3d.explain(*tensors(torch.float32)).precision == precision


GRADIENTS = ("input_grad", "weight_grad", "bias_grad")


@pytest.mark.parametrize("operator", GRADIENTS)
@pytest.mark.parametrize("relu", [False, True])
def test_gradients_have_a_plan(operator: Any, relu: bool) -> None:
    explained = convt3d.explain(*tensors(), None, **PARAMETERS, operator=operator, relu=relu)
    kind = {"input_grad": "correlation", "weight_grad": "weight_grad", "bias_grad": "bias_grad"}[operator]
    assert (explained.operator, explained.engine) == (operator, "simt" if operator == "bias_grad" else "mma")
    assert explained.plan.split()[0] == kind
    assert (" masked" in explained.plan) == relu
    assert explained.workspace_bytes > 0
    assert str(explained).startswith(f"conv_transpose3d_{operator}: grad_output {explained.output_shape}")
    forward = convt3d.explain(*tensors(), None, **PARAMETERS)
    if operator == "bias_grad":
        outputs = torch.Size(forward.output_shape).numel()
        assert (explained.bytes, explained.flops) == (2 * outputs, outputs)
    else:
        assert (explained.bytes, explained.flops) == (forward.bytes, forward.flops)
    assert explained.expected_ms >= explained.limit_ms > 0


@pytest.mark.parametrize("has_bias", [False, True])
def test_all_gradients_have_a_plan(has_bias: bool) -> None:
    input, weight = (
        torch.empty(*shape, dtype=torch.float16, device="meta", memory_format=torch.channels_last_3d)
        for shape in ((2, 32, 40, 48, 56), (32, 16, 2, 2, 2))
    )
    bias = input.new_empty(16) if has_bias else None
    explained = convt3d.explain(input, weight, bias, stride=2, operator="backward", relu=True)
    assert explained.engine == "mma"
    assert explained.plan.startswith("backward ")
    assert " masked" in explained.plan
    assert (" bias" in explained.plan) == has_bias
    assert str(explained).startswith("conv_transpose3d_backward: grad_output (2, 16, 80, 96, 112), input ")
    forward = convt3d.explain(input, weight, bias, stride=2)
    assert explained.flops == 2 * forward.flops
    assert explained.bytes == forward.bytes + 2 * (input.numel() + weight.numel() + 16 * has_bias)
    assert explained.expected_ms >= explained.limit_ms > 0


def test_gradients_one_by_one() -> None:
    explained = convt3d.explain(*tensors(), None, **PARAMETERS, operator="backward")
    assert explained.engine == "separate"
    assert re.match(r"input_grad=\w+ weight_grad=mma", explained.plan)
    one_by_one = [convt3d.explain(*tensors(), None, **PARAMETERS, operator=operator) for operator in GRADIENTS[:2]]
    assert 0 < explained.expected_ms <= 1.001 * sum(one.expected_ms for one in one_by_one)
    bias = convt3d.explain(
        *tensors(), torch.empty(24, dtype=torch.float16, device="meta"), **PARAMETERS, operator="backward"
    )
    assert " bias_grad=simt" in bias.plan


def test_strides_of_the_outputs_gradient_count() -> None:
    input, weight = (tensor.to(memory_format=torch.channels_last_3d) for tensor in tensors())
    # What is small may be copied, whatever its strides.
    input = input.new_empty((4096, *input.shape[1:])).to(memory_format=torch.channels_last_3d)
    shape = convt3d.explain(input, weight, **PARAMETERS).output_shape
    dense = convt3d.explain(input, weight, **PARAMETERS, operator="weight_grad")
    expanded = torch.empty((), dtype=torch.float16, device="meta").expand(shape)
    other = convt3d.explain(input, weight, **PARAMETERS, operator="weight_grad", grad_output=expanded)
    assert " load=copy_parts,copy" in dense.plan  # 12 channels a group
    assert " load=elements" in other.plan
    contiguous = torch.empty(shape, dtype=torch.float16, device="meta")
    bias = [
        convt3d.explain(input, weight, **PARAMETERS, operator="bias_grad", grad_output=g).plan
        for g in (None, contiguous)
    ]
    assert ["load=channels" in plan for plan in bias] == [True, False]


def test_channels_that_are_no_whole_pieces_are_copied_in_parts() -> None:
    """Behind a concatenation, of which nothing large is copied first."""
    input = torch.empty(64, 48, 48, 48, 48, dtype=torch.float16, device="meta", memory_format=torch.channels_last_3d)
    for channels, first, in_parts in ((4, 0, True), (4, 4, True), (6, 2, True), (3, 0, False), (8, 0, False)):
        weight = torch.empty(48, channels, 2, 2, 2, dtype=torch.float16, device="meta")
        whole = torch.empty(
            64, 3 * channels, 96, 96, 96, dtype=torch.float16, device="meta", memory_format=torch.channels_last_3d
        )
        slice = whole[:, first : first + channels]
        plan = convt3d.explain(input, weight, stride=2, operator="weight_grad", grad_output=slice).plan
        assert (" load=copy_parts,copy" in plan) == in_parts, (channels, plan)


def test_alignment_counts() -> None:
    input = torch.empty(2, 8, 3, 4, 9, dtype=torch.float16, device="meta")[..., :8]
    weight = torch.empty(8, 1, 1, 2, 2, dtype=torch.float16, device="meta")
    aligned = torch.empty(2, 8, 3, 4, 8, dtype=torch.float16, device="meta")
    plans = [convt3d.explain(x, weight, stride=(1, 2, 2), groups=8).plan for x in (aligned, input, input[..., 1:])]
    assert ["load=vectors" in plan for plan in plans] == [True, False, False]
    shifted = torch.zeros(aligned.numel() + 1, dtype=torch.float16)[1:].view(aligned.shape)  # on the CPU
    plan = convt3d.explain(shifted, weight.new_empty(weight.shape, device="cpu"), stride=(1, 2, 2), groups=8).plan
    assert "load=elements" in plan


def test_times_of_other_gpus_are_said_to_be_a_models() -> None:
    assert "by a model" not in str(convt3d.explain(*tensors(), **PARAMETERS))
    assert "by a model" in str(convt3d.explain(*tensors(), **PARAMETERS, operator="input_grad"))  # in 16 bits
    other = convt3d.explain(*tensors(), **PARAMETERS, device_capability=(8, 6))
    assert not other.measured
    assert ", by a model: not measured on this GPU" in str(other)


@pytest.mark.parametrize("capability", [(8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (13, 0)])
@pytest.mark.parametrize("operator", ["forward", *GRADIENTS])
def test_every_gpu_has_a_plan(capability: tuple[int, int], operator: Any) -> None:
    explained = convt3d.explain(*tensors(), **PARAMETERS, operator=operator, device_capability=capability)
    of_forward = "halo_wgmma" if capability == (9, 0) else "mma"
    assert explained.engine == {"forward": of_forward, "bias_grad": "simt"}.get(operator, "mma")
    assert explained.expected_ms > 0


@pytest.mark.parametrize("operator", ["forward", *GRADIENTS])
def test_gpu_before_the_tensor_cores_instructions_has_the_other_engines(operator: Any) -> None:
    assert convt3d.explain(*tensors(), **PARAMETERS, operator=operator, device_capability=(7, 5)).engine == "simt"
    depthwise = torch.empty(2, 8, 5, 6, 7), torch.empty(8, 1, 3, 3, 3)
    explained = convt3d.explain(*depthwise, stride=2, groups=8, operator=operator, device_capability=(7, 5))
    assert explained.engine == ("simt" if operator == "bias_grad" else "depthwise")


def test_slower_gpus_are_expected_to_take_longer() -> None:
    input, weight = torch.empty(4, 64, 16, 64, 64, device="meta"), torch.empty(64, 32, 2, 2, 2, device="meta")
    h200, a100, rtx_3090 = (
        convt3d.explain(input, weight, stride=2, device_capability=capability).expected_ms
        for capability in [(9, 0), (8, 0), (8, 6)]
    )
    assert h200 < a100 < rtx_3090


@pytest.mark.parametrize("operator", ["backward_and_bias", "", None, 1])
def test_unknown_operator_is_refused(operator: Any) -> None:
    known = "forward, input_grad, weight_grad, bias_grad, backward"
    message = f"operator must be one of {known}, got " + re.escape(repr(operator))
    with pytest.raises(RuntimeError, match=message):
        convt3d.explain(*tensors(), operator=operator)


def test_gradient_of_another_shape_is_refused_as_by_the_call() -> None:
    with pytest.raises(RuntimeError, match="grad_output"):
        convt3d.explain(*tensors(), operator="input_grad", grad_output=torch.empty(3, 5, 4, 5, 6, device="meta"))
    with pytest.raises(RuntimeError, match="grad_output goes with the operator of a gradient"):
        convt3d.explain(*tensors(), grad_output=torch.empty(3, 5, 4, 5, 6, device="meta"))


def test_layout_is_the_results() -> None:
    input, weight = tensors()
    assert convt3d.explain(input, weight).layout == "NCDHW"
    assert convt3d.explain(input.to(memory_format=torch.channels_last_3d), weight).layout == "NDHWC"


def test_unbatched_input_counts_as_a_batch_of_one() -> None:
    input, weight = tensors()
    assert convt3d.explain(input[0], weight) == convt3d.explain(input[:1], weight)


def test_nothing_runs_for_an_empty_batch() -> None:
    input, weight = tensors()
    explained = convt3d.explain(input[:0], weight)
    assert (explained.engine, explained.flops, explained.expected_ms) == ("none", 0, 0.0)
    assert "none" in str(explained)


def test_invalid_arguments_are_refused_as_by_the_call() -> None:
    input, weight = tensors()
    with pytest.raises(RuntimeError, match="stride must be positive, got"):
        convt3d.explain(input, weight, stride=0)
    with pytest.raises(RuntimeError, match="bias must have C_out = 12 elements"):
        convt3d.explain(input, weight, torch.empty(5, dtype=torch.float16, device="meta"))


def test_text_shows_everything() -> None:
    explained = convt3d.explain(*tensors(), **PARAMETERS)
    text = str(explained)
    for value in (explained.engine, explained.plan, explained.output_shape, "fp16, NCDHW", "FLOP/byte", "assumed"):
        assert str(value) in text
    with pytest.raises(dataclasses.FrozenInstanceError):
        explained.engine = "another"  # type: ignore[misc]


@pytest.mark.cuda
def test_device_of_cuda_tensors_is_their_own() -> None:
    explained = convt3d.explain(*tensors(device="cuda"), **PARAMETERS)
    device = cuda_device(torch.device("cuda:0"))
    assert explained.device == device.name
    assert device.name.startswith(torch.cuda.get_device_name())
    assert explained.engine == ("halo_wgmma" if device.has("halo_wgmma") else "mma")


@pytest.mark.cuda
def test_one_engine_alone_computes_the_same() -> None:
    input = torch.randint(-3, 4, (2, 8, 5, 6, 8), device="cuda").float()
    weight = torch.randint(-3, 4, (8, 2, 3, 3, 3), device="cuda").float()
    parameters: dict[str, Any] = {"stride": 2, "padding": 1, "groups": 4}
    chosen = convt3d.conv_transpose3d(input, weight, **parameters)
    device = cuda_device(torch.device("cuda:0"))
    for engine in [engine for engine in ENGINES if device.has(engine) and engine != "matmul"]:
        with only_engine(engine):
            assert torch.equal(convt3d.conv_transpose3d(input, weight, **parameters), chosen)
    for engine in ("depthwise", "matmul"):
        with only_engine(engine), pytest.raises((RuntimeError, ValueError), match=f"engine {engine} has no plan"):
            convt3d.conv_transpose3d(input, torch.ones(8, 16, 3, 3, 3, device="cuda"))
    assert torch.equal(convt3d.conv_transpose3d(input, weight, **parameters), chosen)


@pytest.mark.cuda
@pytest.mark.own_plans
def test_traits_are_the_devices() -> None:
    device = cuda_device(torch.device("cuda:0"))
    properties = torch.cuda.get_device_properties(0)
    major, minor, multiprocessors, shared, l2, bytes_per_ms, clocks_per_ms, *measures, _ = device.traits
    assert (major, minor) == (properties.major, properties.minor)
    assert multiprocessors == properties.multi_processor_count
    assert shared == properties.shared_memory_per_block_optin
    assert l2 == properties.L2_cache_size
    assert 1e8 < bytes_per_ms < 2e10  # 100 GB/s to 20 TB/s
    assert 5e5 < clocks_per_ms < 5e6
    assert len(measures) == 16  # rates of a multiprocessor, times of launches, what memory gives
    assert all(measure > 0 for measure in measures)
    assert device.has("halo_wgmma") == (image_for((int(major), int(minor)), build_info().architectures) == "sm_90a")
    assert device.measured == (device.name == "NVIDIA H200")

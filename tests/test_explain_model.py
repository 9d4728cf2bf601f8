"""`convt3d.explain(model, example_input)`: every call of a model, as it runs, and the model as it was."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from explained_model import Decoder, explained, inputs, names
from torch import Tensor, nn

import convt3d

if TYPE_CHECKING:
    from collections.abc import Callable


def test_every_call_is_the_one_that_explain_shows_for_its_arguments() -> None:
    model, (x, skip) = Decoder(), inputs()
    result = explained(model, (x, skip))
    assert names(result) == ["up.0", "same", "same", "last"]
    same = convt3d.explain(skip, model.same.weight, None, padding=1, groups=2)
    assert [call.explanation for call in result.calls] == [
        convt3d.explain(x, model.up[0].weight, model.up[0].bias, stride=2),
        same,
        same,
        convt3d.explain(skip, model.last.weight, model.last.bias, stride=(2, 1, 2), output_padding=(1, 0, 1)),
    ]
    assert {call.computed_by for call in result.calls} == {"torch"}


def test_converted_model_shows_who_computes_and_what_is_fused() -> None:
    model, example = Decoder(), inputs()
    before = explained(model, example)
    convt3d.convert(model)
    after = explained(model, example)
    assert [(call.computed_by, call.relu) for call in after.calls] == [("convt3d", call == 0) for call in range(4)]
    assert [call.explanation for call in after.calls] == [call.explanation for call in before.calls]


def test_folded_layers_are_seen() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(4, 4, 2), nn.BatchNorm3d(4), nn.ReLU()).eval()
    convt3d.convert(model, fold_batchnorm=True)
    (call,) = explained(model, torch.randn(1, 4, 3, 3, 3)).calls
    assert (call.name, call.computed_by, call.relu) == ("0", "convt3d", True)


def test_model_is_as_before() -> None:
    model = Decoder().train()
    model.other.eval()
    seen: list[str] = []
    model.same.register_forward_hook(lambda *_: seen.append("same"))
    hooks = copy.copy(model.same._forward_hooks)
    modes = [module.training for module in model.modules()]
    state = copy.deepcopy(model.state_dict())
    example = inputs()
    values = copy.deepcopy(example)
    explained(model, example)
    assert seen == ["same", "same"]
    assert [module.training for module in model.modules()] == modes
    for module in model.modules():
        assert not module._forward_pre_hooks
        assert module._forward_hooks == (hooks if module is model.same else {})
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(*pair) for pair in zip(example, values, strict=True))


def test_random_numbers_go_on_as_before() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.randn(3)

    torch.manual_seed(7)
    explained(Noisy(), torch.zeros(3))
    after = torch.rand(2)
    torch.manual_seed(7)
    assert torch.equal(after, torch.rand(2))


def test_model_is_as_before_where_it_fails() -> None:
    model = Decoder().train()
    with pytest.raises(RuntimeError, match="expected input"):
        explained(model, (torch.randn(2, 3, 3, 4, 5), inputs()[1]))
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_overridden_train_does_not_run() -> None:
    class Merging(nn.ConvTranspose3d):
        def train(self, mode: bool = True) -> Merging:
            raise AssertionError("merges its weights")

    assert names(explained(Merging(2, 2, 2), torch.randn(1, 2, 3, 3, 3))) == [""]


@pytest.mark.parametrize("converted", [False, True])
def test_autocast_is_seen(converted: bool) -> None:
    model = Decoder()
    if converted:
        convt3d.convert(model)
    with torch.autocast("cpu", torch.bfloat16):
        result = explained(model, inputs())
    assert [call.explanation.precision for call in result.calls if call.explanation] == ["bf16"] * 4
    model = model.double()
    with torch.autocast("cpu", torch.bfloat16):
        result = explained(model, inputs(dtype=torch.float64))
    # PyTorch and convt3d leave float64 alone
    assert [call.explanation.precision for call in result.calls if call.explanation] == ["fp64"] * 4


@pytest.mark.parametrize("allowed", [True, False])
def test_tf32_is_that_of_the_call(allowed: bool) -> None:
    class Switching(nn.ConvTranspose3d):
        def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=allowed):
                return super().forward(input, output_size)

    (call,) = explained(Switching(2, 2, 2), torch.randn(1, 2, 3, 3, 3)).calls
    assert call.explanation is not None
    assert call.explanation.precision == ("tf32" if allowed else "fp32")


def test_float64_and_the_cpu_have_a_plan() -> None:
    (call,) = explained(nn.ConvTranspose3d(16, 16, 3).double(), torch.randn(1, 16, 4, 4, 4).double()).calls
    assert call.explanation is not None
    assert (call.explanation.precision, call.explanation.engine) == ("fp64", "simt")
    assert call.explanation.device == "NVIDIA H200 (assumed)"
    assert (call.convt3d_ms, call.cudnn_ms, call.note) == (None, None, "")


def test_meta_model_needs_no_memory() -> None:
    with torch.device("meta"):
        model, example = nn.ConvTranspose3d(512, 512, 3), torch.empty(64, 512, 64, 64, 64)
    (call,) = explained(model, example).calls
    assert call.explanation is not None
    assert call.explanation.output_shape == (64, 512, 66, 66, 66)


def test_given_capability() -> None:
    model = nn.ConvTranspose3d(16, 16, 3)
    (call,) = explained(model, torch.randn(1, 16, 4, 4, 4), device_capability=(8, 0)).calls
    assert call.explanation is not None
    assert call.explanation.engine == "mma"


def test_backward_is_what_explain_shows_for_it() -> None:
    model, (x, skip) = Decoder(), inputs()
    up, same, *_ = explained(model, (x, skip)).calls
    arguments = (x, model.up[0].weight, model.up[0].bias)
    assert up.backward == convt3d.explain(*arguments, stride=2, operator="backward")
    assert same.backward is not None
    assert "bias_grad" not in same.backward.plan  # it has none
    convt3d.convert(model)
    fused, *_ = explained(model, (x, skip)).calls
    assert fused.relu
    arguments = (x, model.up[0].weight, model.up[0].bias)
    assert fused.backward == convt3d.explain(*arguments, stride=2, operator="backward", relu=True)
    assert fused.backward_ms == fused.backward.expected_ms


def test_gradients_that_are_computed_at_once() -> None:
    model = nn.ConvTranspose3d(32, 16, 2, 2, dtype=torch.float16, device="meta").to(
        memory_format=torch.channels_last_3d
    )
    x = torch.empty(2, 32, 40, 48, 56, dtype=torch.float16, device="meta", memory_format=torch.channels_last_3d)
    (call,) = explained(model, x, device_capability=(9, 0)).calls
    arguments = (x, model.weight, model.bias)
    expected = convt3d.explain(*arguments, stride=2, operator="backward", device_capability=(9, 0))
    assert call.backward == expected
    assert expected.engine == "mma"


def test_another_gpu_s_times_are_said_to_be_a_model_s() -> None:
    model = nn.ConvTranspose3d(64, 64, 3, bias=False, device="meta")
    x = torch.empty(2, 64, 32, 32, 32, device="meta")
    said = "expected by a model, not measured on this GPU: forward (mma), backward (mma)"
    assert said in str(explained(model, x, device_capability=(8, 0))).splitlines()
    unmeasured = "expected by a model, not measured on this GPU: backward (halo_wgmma)"
    assert unmeasured in str(explained(model, x)).splitlines()


def test_misaligned_operands_are_planned_as_they_run() -> None:
    class Shifted(nn.ConvTranspose3d):
        def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
            memory = input.new_zeros(input.numel() + 1)
            shifted = memory.as_strided(input.shape, input.stride(), 1).copy_(input)
            return super().forward(shifted, output_size)

    model, x = Shifted(8, 8, 3, groups=8), torch.randn(2, 8, 4, 4, 8).to(memory_format=torch.channels_last_3d)
    (call,) = explained(model, x).calls
    (aligned,) = explained(nn.ConvTranspose3d(8, 8, 3, groups=8), x).calls
    assert call.explanation is not None
    assert aligned.explanation is not None
    assert "channels width=any " in call.explanation.plan
    assert "channels width=stride1_kernel3 " in aligned.explanation.plan


def test_unsupported_dtype_is_said() -> None:
    class Whole(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.conv_transpose3d(x, torch.ones(2, 1, 2, 2, 2, dtype=torch.int64))

    result = explained(Whole(), torch.ones(1, 2, 3, 3, 3, dtype=torch.int64))
    (call,) = result.calls
    assert call.explanation is None
    assert call.note == "its dtype is int64; convt3d has float32, float64, float16, bfloat16"
    assert call.note in str(result)


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ConvTranspose3d(2, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return convt3d.conv_transpose3d_relu(
            F.conv_transpose3d(y, torch.ones(2, 3, 2, 2, 2)), torch.ones(3, 1, 1, 1, 1)
        )


def test_functions_count_for_the_module_that_calls_them() -> None:
    result = explained(nn.Sequential(Functional()), torch.randn(2, 3, 3, 3))  # unbatched
    assert names(result) == ["0.inner", "0", "0"]
    assert [(call.computed_by, call.relu) for call in result.calls] == [
        ("torch", False),
        ("torch", False),
        ("convt3d", True),
    ]
    assert result.calls[0].input_shape == (1, 2, 3, 3, 3)


@pytest.mark.parametrize("converted", [False, True])
def test_inference_mode(converted: bool) -> None:
    model = Decoder().eval()
    if converted:
        convt3d.convert(model)
    with torch.inference_mode():
        result = explained(model, inputs())
    assert names(result) == ["up.0", "same", "same", "last"]


@pytest.mark.parametrize(
    ("wrap", "expected"),
    [
        (lambda model: torch.compile(model, backend="eager"), ["_orig_mod.0", "_orig_mod.1"]),
        (lambda model: nn.DataParallel(model), ["module.0", "module.1"]),
        (lambda model: nn.Sequential(torch.compile(model, backend="eager")), ["0._orig_mod.0", "0._orig_mod.1"]),
        (lambda model: torch.jit.script(model), ["", ""]),
    ],
    ids=["compiled", "data parallel", "a compiled part", "scripted"],
)
def test_wrapped_models(wrap: Callable[[nn.Module], nn.Module], expected: list[str]) -> None:
    model = nn.Sequential(nn.ConvTranspose3d(2, 2, 2), convt3d.nn.ConvTranspose3d(2, 2, 2))
    assert names(explained(wrap(model), torch.randn(1, 2, 3, 3, 3))) == expected


def test_layouts_are_told_apart() -> None:
    model, x = nn.ConvTranspose3d(4, 4, 2), torch.randn(1, 4, 3, 3, 3)
    for memory_format, layout in ((torch.contiguous_format, "NCDHW"), (torch.channels_last_3d, "NDHWC")):
        (call,) = explained(model, x.to(memory_format=memory_format)).calls
        assert call.explanation is not None
        assert call.explanation.layout == layout


def test_lazy_modules_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"1\.weight has no values yet"):
        explained(nn.Sequential(nn.ReLU(), nn.LazyConvTranspose3d(2, 2)), torch.randn(1, 2, 3, 3, 3))


def test_arguments_that_do_not_go_together() -> None:
    model, x = nn.ConvTranspose3d(2, 2, 2), torch.randn(1, 2, 3, 3, 3)
    with pytest.raises(TypeError, match="a tensor or a tuple of its positional arguments, got list"):
        convt3d.explain(model, [x])  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="several inputs of the model go into a tuple"):
        convt3d.explain(model, x, x)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="measure goes with a model"):
        convt3d.explain(x, model.weight, measure=True)  # type: ignore[call-overload]


def test_other_convolutions_are_not_shown() -> None:
    model = nn.Sequential(nn.Conv3d(2, 2, 1), nn.Flatten(2, 3), nn.ConvTranspose2d(2, 2, 2))
    result = explained(model, torch.randn(1, 2, 3, 3, 3))
    assert result.calls == ()
    assert str(result) == "the model called no transposed 3D convolution"

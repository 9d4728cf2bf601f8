"""The engines, plans and machine code that the benchmark's records of several results name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from benchmark_cases import ASYMMETRIC, CROPPED, STRIDE_ONE
from record_files import record

from convt3d._explain import plan
from convt3d._explain.plan import known_device, layer_plan
from convt3d._layer import Layer
from convt3d.benchmark import calls, records
from convt3d.benchmark import engine as planning
from convt3d.benchmark.engine import Kernels, engine
from convt3d.benchmark.fingerprint import KERNELS, Hashes, fingerprint
from convt3d.benchmark.layers import LAYOUTS

if TYPE_CHECKING:
    from convt3d._explain.plan import OperatorPlan

CPU = torch.device("cpu")


def test_engines_of_a_joint_pass_are_those_of_its_parts() -> None:
    operators = ["forward", "input_grad", "weight_grad", "bias_grad"]
    gpu = known_device((8, 0))
    names = [layer_plan(STRIDE_ONE, operator, "bf16", "NDHWC", gpu).engine for operator in operators]
    assert len(set(names)) > 1
    step = engine(STRIDE_ONE, "training_step", "bf16", "NDHWC", device=gpu)
    backward = engine(STRIDE_ONE, "backward", "bf16", "NDHWC", device=gpu)
    assert step.name == "+".join(names)
    assert backward.name == "+".join(names[1:])
    other_layout = engine(STRIDE_ONE, "backward", "bf16", "NCDHW", device=gpu)
    assert len({step.plan, backward.plan, other_layout.plan}) == 3
    assert len(engine(CROPPED, "backward", "bf16", "NDHWC", device=gpu).name.split("+")) == 2
    assert records.engines({**record("backward"), "engine": backward.name}) == names[1:]


@pytest.mark.parametrize(
    ("layer", "forward", "kernels"),
    [
        (
            Layer("matmul", 2, 32, 16, (64, 64, 64), (2, 2, 2), (2, 2, 2), bias=True),
            "matmul",
            {
                "convt3d_mma_backward",
                "convt3d_mma_backward_of_warpgroup",
                "convt3d_mma_pack_weight",
                "convt3d_ordered_sum",
            },
        ),
        (
            Layer("depthwise", 2, 32, 32, (64, 64, 64), (3, 3, 3), (2, 2, 2), (1, 1, 1), groups=32, bias=True),
            "depthwise",
            {"convt3d_depthwise_patch_backward", "convt3d_ordered_sum"},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Layer) else "",
)
def test_engine_of_gradients_that_are_computed_at_once(layer: Layer, forward: str, kernels: set[str]) -> None:
    together = engine(layer, "backward", "fp16", "NDHWC", device=known_device((9, 0))).name
    assert together == ("depthwise_together" if layer.groups > 1 else "mma_together")
    step = engine(layer, "training_step", "fp16", "NDHWC", device=known_device((9, 0)))
    assert step.name == f"{forward}+{together}"
    hashes: Hashes = {(name, "__half"): (name,) for kernels in KERNELS.values() for name in kernels}
    before = fingerprint(hashes, together, "backward", "fp16")
    changing = {
        name
        for (name, type_) in hashes
        if fingerprint({**hashes, (name, type_): ("changed",)}, together, "backward", "fp16") != before
    }
    assert changing == kernels


def test_a_forward_with_a_norm_behind_it_is_chosen_for_both() -> None:
    """Its epilogue gathers what the norm needs, which another engine that is as fast by itself does not."""
    layer = Layer("", 2, 32, 16, (64, 64, 64), (2, 2, 2), (2, 2, 2))
    for pass_, name in (("forward", "matmul"), ("relu_group_norm", "halo_wgmma+group_norm")):
        assert engine(layer, pass_, "fp16", "NDHWC", device=known_device((9, 0))).name == name


@pytest.mark.parametrize("pass_", ["backward", "backward_of_slice"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_plans_are_of_the_strides_that_are_measured(pass_: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[plan.Operands] = []

    def seen(
        layer: Layer,
        operator: str,
        precision: str,
        operands: plan.Operands,
        device: plan.Device,
        engine: str | None,
        *,
        norm_result_bytes: int,
    ) -> OperatorPlan:
        planned.append(operands)
        return plan.operator_plan(
            layer, operator, precision, operands, device, engine, norm_result_bytes=norm_result_bytes
        )

    monkeypatch.setattr(planning, "operator_plan", seen)
    engine(ASYMMETRIC, pass_, "fp16", layout, device=known_device((8, 0)))
    grad = calls.random_operands(ASYMMETRIC, "fp16", CPU, pass_).in_layout(layout).grad_output
    assert [operands.first.strides for operands in planned] == [grad.stride()]  # of all gradients


def test_fingerprint_of_a_joint_pass_is_of_all_its_kernels() -> None:
    hashes: Hashes = {(name, "float"): (name,) for kernels in KERNELS.values() for name in kernels}
    asked = ("mma+simt+simt", "backward", "fp32")
    before = fingerprint(hashes, *asked)
    assert before is not None
    assert fingerprint(hashes, "mma+simt+simt", "backward_of_slice", "tf32") == before
    assert Kernels(hashes).measured_by({**record("backward"), "engine": "mma+simt+simt", "kernels": before})
    changing = {
        name for (name, type_) in hashes if fingerprint({**hashes, (name, type_): ("changed",)}, *asked) != before
    }
    assert changing == {
        "convt3d_channels_last_copy",
        "convt3d_mma_correlation",
        "convt3d_mma_pack_weight",
        "convt3d_weight_grad",
        "convt3d_ordered_sum",
        "convt3d_bias_grad",
    }
    without_bias = {**hashes, ("convt3d_bias_grad", "float"): ("changed",)}
    two = ("mma+simt", "backward", "fp32")
    assert fingerprint(without_bias, *two) == fingerprint(hashes, *two)

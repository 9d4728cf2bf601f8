"""The benchmark's passes with ReLU and group norm behind the convolution, on the CPU."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from benchmark_cases import ASYMMETRIC, CROPPED, KERNEL_IS_STRIDE
from test_benchmark_passes import CountedTimes, eager  # noqa: F401

from convt3d._explain.plan import known_device, layer_plan
from convt3d.benchmark import calls
from convt3d.benchmark import measure as measuring
from convt3d.benchmark.__main__ import main
from convt3d.benchmark.engine import engine
from convt3d.benchmark.fingerprint import KERNELS, Hashes, fingerprint
from convt3d.benchmark.layers import LAYOUTS
from convt3d.benchmark.measure import Options, measure
from convt3d.benchmark.norms import num_groups
from convt3d.benchmark.passes import NORM_FORWARD, NORM_PASSES, NORM_TRAINING_STEP, flops, least_bytes
from convt3d.benchmark.peers import peers

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from convt3d._layer import Layer

CPU = torch.device("cpu")


def expected_results(layer: Layer, pass_: str, operands: calls.Operands) -> list[Tensor]:
    """By autograd in float64, of all images at once."""
    leaves = [None if tensor is None else tensor.double().requires_grad_() for tensor in operands.of_norm]
    x, w, b, norm_weight, norm_bias = leaves
    assert x is not None
    y = F.conv_transpose3d(x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)  # type: ignore[arg-type]
    y = F.group_norm(F.relu(y), 2, norm_weight, norm_bias)
    if pass_ == NORM_FORWARD:
        return [y.detach()]
    gradients = torch.autograd.grad(y, [leaf for leaf in leaves if leaf is not None], operands.grad_output.double())
    return [y.detach(), *gradients]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("layer", [ASYMMETRIC, CROPPED, KERNEL_IS_STRIDE], ids=lambda layer: layer.name)
@pytest.mark.parametrize("pass_", NORM_PASSES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_result_is_autograds(layer: Layer, pass_: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convt3d.benchmark.norms.num_groups", lambda _: 2)
    operands = calls.random_operands(layer, "fp32", CPU, pass_)
    expected = expected_results(layer, pass_, operands)
    arranged = operands.in_layout(layout)
    of_peers = {peer.name: peer.prepare(arranged) for peer in peers(layer, pass_) if peer.layout == layout}
    assert set(of_peers) == {f"{name}_{layout}" for name in ("cudnn", "compiled", "convt3d_then_norm_compiled")}
    reference = calls.Reference(layer, pass_, operands)
    for call in (calls.convt3d_call(layer, pass_, arranged), *of_peers.values()):
        results = calls.tensors_of(call())
        assert len(results) == len(expected) == (1 if pass_ == NORM_FORWARD else 6 if layer.bias else 5)
        assert all(error < 1e-4 for error in reference.errors(results))  # a bias is a sum that cancels
    assert max(reference.errors(tuple(expected))) < 1e-12
    for place, value in itertools.product(range(len(expected)), (1.01, math.nan)):
        spoiled = tuple(exact * value if number == place else exact for number, exact in enumerate(expected))
        assert reference.error(spoiled) == pytest.approx(value - 1, nan_ok=True)


def test_gradients_are_zero_near_the_corner() -> None:
    operands = calls.random_operands(ASYMMETRIC, "bf16", CPU, NORM_TRAINING_STEP)
    dense = calls.random_operands(ASYMMETRIC, "bf16", CPU, "forward")
    assert torch.equal(operands.weight, dense.weight)
    convolved = calls.aten_call(ASYMMETRIC, "forward", dense)()
    assert isinstance(convolved, torch.Tensor)
    near = convolved.abs() <= 0.05 * convolved.float().std()
    assert near.any()
    assert torch.equal(operands.grad_output, torch.where(near, 0, dense.grad_output))


def test_groups_divide_the_channels() -> None:
    assert [num_groups(layer) for layer in (ASYMMETRIC, CROPPED)] == [2, 4]


@pytest.mark.parametrize("pass_", NORM_PASSES)
def test_peers_are_compiled_where_they_say_so(pass_: str, eager: list[str]) -> None:  # noqa: F811
    names = {f"{name}_{layout}" for name in ("compiled", "convt3d_then_norm_compiled") for layout in LAYOUTS}
    (entry,) = measure(ASYMMETRIC, pass_, "bf16", ["NDHWC"], CountedTimes(), Options(slow_peers=False))
    assert eager == []
    assert set(entry["peers_ms"]) == {"cudnn_NCDHW", "cudnn_NDHWC"}
    assert set(entry["peers_absent"]) == names
    (entry,) = measure(ASYMMETRIC, pass_, "bf16", ["NDHWC"], CountedTimes())
    assert len(eager) == 4
    assert set(entry["peers_ms"]) == {"cudnn_NCDHW", "cudnn_NDHWC", *names}
    assert entry["cudnn_error"] is not None


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("place", range(6))
def test_each_wrong_result_is_an_error(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = calls.convt3d_call

    def wrong(layer: Layer, pass_: str, operands: calls.Operands) -> calls.Call:
        def call() -> calls.Result:
            results = list(calls.tensors_of(exact(layer, pass_, operands)()))
            results[place] = results[place] * 1.1
            return tuple(results)

        return call

    monkeypatch.setattr(measuring, "convt3d_call", wrong)
    with pytest.raises(measuring.WrongResultError, match=r"NDHWC: wrong result, relative error 0\.1"):
        measure(ASYMMETRIC, NORM_TRAINING_STEP, "fp32", ["NDHWC"], CountedTimes(), Options(peers=False))


def test_engines_and_kernels_are_those_of_the_convolution_and_the_norm() -> None:
    gpu = known_device((8, 0))
    of_layer = [
        layer_plan(ASYMMETRIC, operator, "fp16", "NDHWC", gpu).engine
        for operator in ("forward", "input_grad", "weight_grad", "bias_grad")
    ]
    names = {
        pass_: engine(ASYMMETRIC, pass_, "fp16", "NDHWC", device=known_device((8, 0))).name for pass_ in NORM_PASSES
    }
    assert names[NORM_FORWARD] == f"{of_layer[0]}+group_norm"
    assert names[NORM_TRAINING_STEP] == "+".join([of_layer[0], "group_norm", "group_norm", *of_layer[1:]])
    hashes: Hashes = {(name, "__half"): (name,) for kernels in KERNELS.values() for name in kernels}
    changing = {
        pass_: {
            name
            for (name, type_) in hashes
            if fingerprint({**hashes, (name, type_): ("changed",)}, names[pass_], pass_, "fp16")
            != fingerprint(hashes, names[pass_], pass_, "fp16")
        }
        for pass_ in NORM_PASSES
    }
    of_norm = {pass_: {name for name in found if "norm" in name} for pass_, found in changing.items()}
    assert of_norm[NORM_FORWARD] == set(KERNELS["group_norm", "forward"])
    assert of_norm[NORM_TRAINING_STEP] == {*of_norm[NORM_FORWARD], "convt3d_norm_coefficients"}
    assert changing[NORM_FORWARD] - of_norm[NORM_FORWARD] == set(KERNELS[of_layer[0], "forward"])
    assert set(KERNELS[of_layer[2], "backward_weight"]) <= changing[NORM_TRAINING_STEP]


def test_work_is_the_convolutions_and_the_norms_bytes() -> None:
    output = 2 * math.prod(ASYMMETRIC.output_shape)
    for pass_, without, tensors in ((NORM_FORWARD, "forward", 2), (NORM_TRAINING_STEP, "training_step", 5)):
        assert least_bytes(ASYMMETRIC, pass_, "bf16") == least_bytes(ASYMMETRIC, without, "bf16") + tensors * output
        assert flops(ASYMMETRIC, pass_) == flops(ASYMMETRIC, without)


def test_command_refuses_one_engine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(SystemExit):
        main(["--pass", NORM_FORWARD, "--engine", "mma"])
    assert "--engine and --plans are for single passes" in " ".join(capsys.readouterr().err.split())


@pytest.mark.cuda
def test_command_measures_them(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    spec = "layer=small,N=2,C_in=8,C_out=6,input=5x6x7,kernel=2x3x1,stride=1,padding=0x1x0,groups=2,bias=1"
    chosen = [word for pass_ in NORM_PASSES for word in ("--pass", pass_)]
    options = ["--precision", "fp32", "--precision", "bf16", "--quick", "--json", str(path)]
    assert main(["--layer", spec, *options, *chosen]) == 0

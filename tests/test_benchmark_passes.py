"""The benchmark's passes with several results: all gradients at once, and training steps, on the CPU."""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
import torch.nn.functional as F
from benchmark_cases import ASYMMETRIC, CROPPED, KERNEL_IS_STRIDE, STRIDE_ONE
from record_files import META, record

from convt3d._layer import Layer
from convt3d.benchmark import calls, records
from convt3d.benchmark import measure as measuring
from convt3d.benchmark import peers as benchmark_peers
from convt3d.benchmark.__main__ import main
from convt3d.benchmark.layers import LAYOUTS, PRECISIONS
from convt3d.benchmark.measure import Gradients, Options, measure
from convt3d.benchmark.passes import (
    BACKWARD_PASSES,
    DENSE_GRADIENTS,
    JOINT_PASSES,
    NORM_FORWARD,
    NORM_PASSES,
    NORM_TRAINING_STEP,
    PASSES,
    SINGLE_PASSES,
    TRAINING_PASSES,
    limit_ms,
)
from convt3d.benchmark.peers import peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import performance_tables  # noqa: E402  # scripts/performance_tables.py
import readme_numbers  # noqa: E402  # scripts/readme_numbers.py

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is compiled; the names of what would have been."""
    compiled: list[str] = []

    def keep(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        compiled.append(function.__qualname__)
        return function

    for module in (calls, benchmark_peers):
        monkeypatch.setattr(module, "compile_once", keep)
    return compiled


def expected_results(layer: Layer, pass_: str, operands: calls.Operands) -> list[Tensor]:
    """By autograd in float64."""
    tensors = (operands.input, operands.weight, operands.bias)
    leaves = [None if tensor is None else tensor.double().requires_grad_() for tensor in tensors]
    parameters = (layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)
    y = F.conv_transpose3d(*leaves, *parameters)  # type: ignore[arg-type]
    wanted = [leaf for leaf in leaves if leaf is not None]
    gradients = torch.autograd.grad(y, wanted, operands.grad_output.double())
    return [*([y.detach()] if pass_ in TRAINING_PASSES else []), *gradients]


@pytest.mark.parametrize("layer", [ASYMMETRIC, STRIDE_ONE, CROPPED, KERNEL_IS_STRIDE], ids=lambda layer: layer.name)
@pytest.mark.parametrize("pass_", JOINT_PASSES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_result_is_autograds(layer: Layer, pass_: str, layout: str) -> None:
    operands = calls.random_operands(layer, "fp32", CPU, pass_)
    expected = expected_results(layer, pass_, operands)
    arranged = operands.in_layout(layout)
    of_peers = {peer.name: peer.prepare(arranged) for peer in peers(layer, pass_) if peer.layout == layout}
    second = {"compiled"} if pass_ in TRAINING_PASSES else set()
    assert set(of_peers) == {f"{name}_{layout}" for name in {"cudnn", *second}}
    reference = calls.Reference(layer, pass_, operands)
    for call in (calls.convt3d_call(layer, pass_, arranged), *of_peers.values()):
        results = calls.tensors_of(call())
        assert len(results) == len(expected) == (3 if layer.bias else 2) + (pass_ in TRAINING_PASSES)
        for result, exact in zip(results, expected, strict=True):
            assert not result.requires_grad
            torch.testing.assert_close(result.double(), exact, rtol=1e-4, atol=1e-4)
        assert max(reference.errors(results)) < 1e-5  # a bias is a sum that cancels
    assert max(reference.errors(tuple(expected))) < 1e-14
    for place, value in itertools.product(range(len(expected)), (1.01, math.nan)):
        spoiled = tuple(exact * value if number == place else exact for number, exact in enumerate(expected))
        assert reference.error(spoiled) == pytest.approx(value - 1, nan_ok=True)


@pytest.mark.parametrize("layer", [ASYMMETRIC, KERNEL_IS_STRIDE], ids=lambda layer: layer.name)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_slice_is_of_a_concatenation_whose_rest_is_nan(layer: Layer, layout: str) -> None:
    dense = calls.random_operands(layer, "bf16", CPU, "backward").in_layout(layout).grad_output
    grad = calls.random_operands(layer, "bf16", CPU, "backward_of_slice").in_layout(layout).grad_output
    torch.testing.assert_close(grad, dense, rtol=0, atol=0)
    memory_format = calls.MEMORY_FORMATS[layout]
    assert dense.is_contiguous(memory_format=memory_format)
    batch, channels, *size = dense.shape
    whole = torch.empty(batch, 2 * channels, *size).contiguous(memory_format=memory_format)
    assert grad.stride() == whole.stride()
    rest = grad.as_strided(grad.shape, grad.stride(), channels * grad.stride(1))
    assert rest.isnan().all()


class CountedTimes:
    """Each call takes a millisecond more than the one before it, and returns its results as the timer does."""

    device = CPU

    def __init__(self) -> None:
        self.count = 0

    def time(self, call: calls.Call) -> tuple[float, tuple[Tensor, ...]]:
        self.count += 1
        return float(self.count), calls.tensors_of(call())

    def workspace_bytes(self, call: calls.Call) -> int:
        return 0


@pytest.mark.parametrize("pass_", BACKWARD_PASSES)
@pytest.mark.parametrize("layer", [KERNEL_IS_STRIDE, CROPPED], ids=lambda layer: layer.name)
def test_single_gradients_are_the_strongest_of_a_layout_added_up(layer: Layer, pass_: str) -> None:
    first, second = measure(layer, pass_, "fp32", LAYOUTS, CountedTimes())
    assert (first["pass"], first["layout"], second["layout"]) == (pass_, *LAYOUTS)
    singles = first["single_peers"]
    assert list(singles) == ["backward_input", "backward_weight", *(["backward_bias"] if layer.bias else [])]
    for layout in LAYOUTS:
        assert f"conv3d_{layout}" in singles["backward_input"]["peers_ms"]
        strongest = [
            min(ms for name, ms in of["peers_ms"].items() if name.endswith(f"_{layout}")) for of in singles.values()
        ]
        assert first["peers_ms"][f"single_gradients_{layout}"] == sum(strongest)
    assert set(first["peers_ms"]) == {
        f"{name}_{layout}" for name in ("cudnn", "single_gradients") for layout in LAYOUTS
    }
    assert second["peers_ms"] == first["peers_ms"]
    assert ("matmul_unshuffle_NDHWC" in singles["backward_weight"]["peers_ms"]) == (layer is KERNEL_IS_STRIDE)
    assert 0 < first["error"] < 1e-5
    assert first["cudnn_error"] is not None
    assert first["cudnn_error"] < 1e-5


@pytest.mark.parametrize("order", [DENSE_GRADIENTS, DENSE_GRADIENTS[::-1]], ids=["singles first", "singles last"])
def test_what_gradients_have_in_common_is_timed_once(order: tuple[str, ...]) -> None:
    timer, known = CountedTimes(), Gradients()
    entry = {pass_: measure(CROPPED, pass_, "fp32", LAYOUTS, timer, gradients=known)[0] for pass_ in order}
    together = entry["backward"]["single_peers"]
    for part in ("backward_input", "backward_weight"):
        assert together[part]["peers_ms"] == entry[part]["peers_ms"]
        assert entry[part]["peers_absent"] == together[part]["peers_absent"]
    ours = 3 * len(LAYOUTS)
    single_peers = sum(len(of_part["peers_ms"]) for of_part in together.values())
    joint_peers = sum(not name.startswith("single_gradients") for name in entry["backward"]["peers_ms"])
    assert timer.count == ours + single_peers + joint_peers
    # Operands of other passes are others, or others' results are wanted of them.
    for pass_ in set(PASSES) - set(DENSE_GRADIENTS) - set(NORM_PASSES):
        measure(CROPPED, pass_, "fp32", ["NDHWC"], CountedTimes(), Options(slow_peers=False), gradients=known)
    assert set(known.peers) == set(known.exact) == set(together)


def test_gradient_without_a_peer_leaves_the_sum_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(layer: Layer, pass_: str, operands: calls.Operands) -> calls.Call:
        raise RuntimeError("not today")

    monkeypatch.setattr(benchmark_peers, "aten_call", unsupported)
    (entry,) = measure(ASYMMETRIC, "backward", "fp32", ["NDHWC"], CountedTimes(), Options(slow_peers=False))
    assert entry["peers_ms"] == {}
    assert entry["peers_absent"] == {
        **{f"cudnn_{layout}": "RuntimeError: not today" for layout in LAYOUTS},
        **{f"single_gradients_{layout}": "no peer of backward_weight, backward_bias" for layout in LAYOUTS},
    }
    slow = {f"cudnn_frontend_{layout}": "left out by --no-slow-peers" for layout in LAYOUTS}
    assert slow.items() <= entry["single_peers"]["backward_input"]["peers_absent"].items()


@pytest.mark.parametrize("pass_", TRAINING_PASSES)
def test_training_step_is_compiled_where_it_says_so(pass_: str, eager: list[str]) -> None:
    (entry,) = measure(STRIDE_ONE, pass_, "bf16", ["NDHWC"], CountedTimes(), Options(slow_peers=False))
    assert len(eager) == (pass_ == "training_step_compiled")
    assert set(entry["peers_ms"]) == {"cudnn_NCDHW", "cudnn_NDHWC"}
    assert set(entry["peers_absent"]) == {"compiled_NCDHW", "compiled_NDHWC"}
    assert "single_peers" not in entry
    eager.clear()
    (entry,) = measure(STRIDE_ONE, pass_, "bf16", ["NDHWC"], CountedTimes())
    assert set(entry["peers_ms"]) == {f"{name}_{layout}" for name in ("cudnn", "compiled") for layout in LAYOUTS}
    assert len(eager) == 2 + (pass_ == "training_step_compiled")


@pytest.mark.parametrize("pass_", JOINT_PASSES)
@pytest.mark.parametrize("place", range(3))
def test_each_wrong_gradient_is_an_error(pass_: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = calls.convt3d_call

    def wrong(layer: Layer, pass_: str, operands: calls.Operands) -> calls.Call:
        def call() -> calls.Result:
            results = list(calls.tensors_of(exact(layer, pass_, operands)()))
            results[place - 3] = results[place - 3] * 1.1
            return tuple(results)

        return call

    monkeypatch.setattr(measuring, "convt3d_call", wrong)
    with pytest.raises(measuring.WrongResultError, match=r"NDHWC: wrong result, relative error 0\.1"):
        measure(ASYMMETRIC, pass_, "fp32", ["NDHWC"], CountedTimes(), Options(peers=False))


COMPUTING = Layer("computing", 1, 64, 96, (5, 8, 6), (5, 4, 3))  # arithmetic takes longer than memory


@pytest.mark.parametrize("layer", [ASYMMETRIC, KERNEL_IS_STRIDE, CROPPED, COMPUTING], ids=lambda layer: layer.name)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_limits_are_the_bytes_or_the_arithmetic(layer: Layer, precision: str) -> None:
    size = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2}[precision]
    peak = {"fp32": 133e12, "tf32": 400e12, "fp16": 743e12, "bf16": 771e12}[precision]
    x, w, y = (math.prod(shape) for shape in (layer.input_shape, layer.weight_shape, layer.output_shape))
    bias = layer.out_channels if layer.bias else 0
    forward = layer.limit_ms(precision)
    backward = 1e3 * max(size * (y + 2 * x + 2 * w + bias) / 4.25e12, 4 * layer.multiply_adds / peak)
    expected = {
        **dict.fromkeys(SINGLE_PASSES, forward),
        **dict.fromkeys(BACKWARD_PASSES, backward),
        **dict.fromkeys(TRAINING_PASSES, forward + backward),
        NORM_FORWARD: forward + 1e3 * 2 * size * y / 4.25e12,
        NORM_TRAINING_STEP: forward + backward + 1e3 * 5 * size * y / 4.25e12,
    }
    assert {pass_: limit_ms(layer, pass_, precision) for pass_ in PASSES} == pytest.approx(expected)
    computing = 1e3 * (4 * layer.multiply_adds / peak)
    assert (backward == computing) == (layer is COMPUTING)
    (entry,) = measure(layer, "backward", precision, ["NCDHW"], CountedTimes(), Options(peers=False))
    assert entry["limit_ms"] == pytest.approx(backward, rel=1e-3)


def test_tables_of_the_scripts_have_the_joint_passes(tmp_path: Path) -> None:
    found: list[records.Record] = [
        {**record(pass_, ms=1.0), "layer": "kb58", "engine": "mma+simt+simt"} for pass_ in ("backward", *PASSES[4:])
    ]
    alone = records.merge(None, META, [{**record(), "layer": "kb58"}])
    path = tmp_path / readme_numbers.RESULTS / "h200.json"
    records.save(path, alone)
    before = readme_numbers.section(readme_numbers.measured(tmp_path))
    assert "all gradients" not in before
    assert "added up" not in before
    assert "training step |" not in before.replace("networks, training step |", "")
    records.save(path, records.merge(alone, META, found))
    assert performance_tables.means(tmp_path).splitlines()[3:] == [
        f"| {title}, fp32 | 1 | mma, simt | 5.00 | 5.00 | 0 of 1 | 0.50 |"
        for title in (
            "all gradients",
            "all gradients, grad_output a slice",
            "training step",
            "training step, compiled",
            "forward with ReLU and group norm",
            "training step with ReLU and group norm",
        )
    ]
    results = readme_numbers.measured(tmp_path)
    after = readme_numbers.section(results)
    assert "added up" in after
    for title in (
        "all gradients",
        "all gradients, slice",
        "training step",
        "training step, compiled",
        "with ReLU and group norm",
        "training step, ReLU and group norm",
    ):
        assert f"| {title} | **5.00** (one case) |" in after
        assert f">{title}<" in readme_numbers.figure(results)


def test_summary_tells_the_passes_apart() -> None:
    shown = [record("backward"), record("backward_of_slice", ms=4.0)]
    assert records.format_summary(shown).splitlines() == [
        "given: backward fp32: 2.50x, at least 2.50x; 25.0% of the limit (1 records)",
        "given: backward_of_slice fp32: 1.25x, at least 1.25x; 12.5% of the limit (1 records)",
    ]
    assert len(records.merge(None, META, shown)["records"]) == 2


@pytest.mark.parametrize("option", [["--engine", "mma"], ["--plans", "2"]])
def test_command_refuses_one_engine_or_its_plans_for_joint_passes(
    option: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(SystemExit) as exit_info:
        main(["--pass", "forward", "--pass", "backward", *option])
    assert exit_info.value.code == 2
    assert "--engine and --plans are for single passes" in " ".join(capsys.readouterr().err.split())


@pytest.mark.cuda
def test_command_measures_joint_passes(tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    spec = "layer=small,N=2,C_in=8,C_out=6,input=5x6x7,kernel=2x3x1,stride=1,padding=0x1x0,groups=2,bias=1"
    chosen = [word for pass_ in JOINT_PASSES for word in ("--pass", pass_)]
    assert main(["--layer", spec, "--precision", "fp32", "--quick", "--json", str(path), *chosen]) == 0
    content = records.load(path)
    assert content is not None
    assert len(content["records"]) == 8
    for entry in content["records"]:
        assert entry["convt3d_ms"] > 0
        assert entry["error"] < 1e-5
        second = "compiled" if entry["pass"] in TRAINING_PASSES else "single_gradients"
        assert set(entry["peers_ms"]) == {f"{name}_{layout}" for name in ("cudnn", second) for layout in LAYOUTS}

"""What the benchmark measures and records, and its peers, on the CPU."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
import torch
import torch.nn.functional as F
from benchmark_cases import ASYMMETRIC, CROPPED, KERNEL_IS_STRIDE, STRIDE_ONE
from record_files import META, record

from convt3d._explain.plan import NoPlanError
from convt3d.benchmark import calls, cudnn_frontend, records
from convt3d.benchmark import measure as measuring
from convt3d.benchmark import peers as benchmark_peers
from convt3d.benchmark.engine import candidates
from convt3d.benchmark.layers import LAYOUTS
from convt3d.benchmark.measure import Options, measure
from convt3d.benchmark.peers import peers
from convt3d.benchmark.timing import Repetitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from torch import Tensor

    from convt3d._layer import Layer


@pytest.mark.parametrize("layer", [ASYMMETRIC, STRIDE_ONE, CROPPED, KERNEL_IS_STRIDE], ids=lambda layer: layer.name)
@pytest.mark.parametrize("pass_", ["forward", "backward_input", "backward_weight"])
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_every_peer_and_the_reference_compute_what_autograd_does(
    layer: Layer, pass_: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark_peers, "compile_once", lambda function: function)
    operands = calls.random_operands(layer, "fp32", torch.device("cpu"))
    x, w = (tensor.double().requires_grad_() for tensor in (operands.input, operands.weight))
    b = None if operands.bias is None else operands.bias.double()
    y = F.conv_transpose3d(x, w, b, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)
    gx, gw = torch.autograd.grad(y, (x, w), operands.grad_output.double())
    expected = {"forward": y.detach(), "backward_input": gx, "backward_weight": gw}[pass_]

    found = [peer for peer in measured_here(layer, pass_) if peer.layout == layout]
    assert found
    for peer in found:
        result = peer.prepare(operands.in_layout(layout))()
        torch.testing.assert_close(result.double(), expected, rtol=1e-4, atol=1e-4)
    reference = calls.Reference(layer, pass_, operands)
    assert reference.error(expected) < 1e-14
    assert reference.error(expected * 1.01) == pytest.approx(0.01)
    spoiled = expected.clone()
    spoiled[0, 0, 0, 0, 0] = float("nan")
    assert not reference.error(spoiled) < 1


FRONTEND_ABSENT = {
    f"cudnn_frontend_{layout}": "RuntimeError: nvidia-cudnn-frontend is not installed" for layout in LAYOUTS
}


def measured_here(layer: Layer, pass_: str) -> list[benchmark_peers.Peer]:
    """The peers that run without a GPU."""
    return [peer for peer in peers(layer, pass_) if peer.name not in FRONTEND_ABSENT]


@pytest.fixture(autouse=True)
def no_frontend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of cuDNN is installed, wherever these tests run."""
    found = cudnn_frontend.importlib.util.find_spec
    monkeypatch.setattr(
        cudnn_frontend.importlib.util, "find_spec", lambda name, *rest: None if name == "cudnn" else found(name, *rest)
    )


class FixedTimes:
    """Calls once and says 2 ms for convt3d, 4 ms for everything else."""

    device = torch.device("cpu")

    def time(self, call: calls.Call) -> tuple[float, torch.Tensor]:
        return (2.0 if "convt3d_call" in call.__qualname__ else 4.0), call()

    def workspace_bytes(self, call: calls.Call) -> int | None:
        found = (bytes for name, bytes in (("convt3d_call", 8), ("known_error", 16)) if name in call.__qualname__)
        return next(found, None)


@pytest.mark.parametrize("pass_", ["forward", "backward_input", "backward_weight"])
def test_measure_gives_a_record_for_each_layout(pass_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = calls.aten_call
    peer_error = {"NCDHW": 0.003, "NDHWC": 0.005}

    def known_error(layer: Layer, pass_: str, operands: calls.Operands) -> calls.Call:
        """A peer's error is given here: that of PyTorch's own bfloat16 depends on the CPU."""
        bias = None if operands.bias is None else operands.bias.double()
        call = exact(
            layer,
            pass_,
            calls.Operands(operands.input.double(), operands.weight.double(), bias, operands.grad_output.double()),
        )
        if operands.input.dtype == torch.float64:  # the reference
            return call
        channels_last = operands.input.is_contiguous(memory_format=torch.channels_last_3d)
        return lambda: call() * (1 + peer_error["NDHWC" if channels_last else "NCDHW"])

    for module in (calls, benchmark_peers):
        monkeypatch.setattr(module, "aten_call", known_error)
    found = measure(STRIDE_ONE, pass_, "bf16", ["NCDHW", "NDHWC"], FixedTimes())
    assert [entry["layout"] for entry in found] == ["NCDHW", "NDHWC"]
    for entry in found:
        assert (entry["layer"], entry["pass"], entry["precision"]) == ("stride_one", pass_, "bf16")
        assert entry["convt3d_ms"] == 2.0
        assert entry["peers_ms"] == {peer.name: 4.0 for peer in measured_here(STRIDE_ONE, pass_)}
        assert entry["workspace_bytes"] == 8
        assert entry["peers_workspace_bytes"] == {"cudnn_NCDHW": 16, "cudnn_NDHWC": 16}
        assert entry["peers_absent"] == FRONTEND_ABSENT
        assert 1e-4 < entry["error"] < 1e-2  # rounding to bf16, measured against float64
        assert entry["cudnn_error"] == pytest.approx(peer_error[entry["layout"]])


def test_peer_that_fails_or_is_wrong_is_absent_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(layer: Layer, operands: calls.Operands) -> calls.Call:
        raise RuntimeError("not today\nand a second line")

    def wrong(function: Callable[[Tensor, Tensor | None], Tensor]) -> Callable[[Tensor, Tensor | None], Tensor]:
        return lambda product, bias: function(product, bias) * 1.1

    monkeypatch.setattr(benchmark_peers, "conv3d_flipped_call", unsupported)
    monkeypatch.setattr(benchmark_peers, "compile_once", wrong)
    (entry,) = measure(STRIDE_ONE, "forward", "fp32", ["NDHWC"], FixedTimes())
    assert entry["peers_absent"] == {
        **{f"conv3d_flipped_{layout}": "RuntimeError: not today" for layout in LAYOUTS},
        **FRONTEND_ABSENT,
    }
    (entry,) = measure(KERNEL_IS_STRIDE, "forward", "fp32", ["NDHWC"], FixedTimes())
    assert entry["peers_absent"] == {"matmul_shuffle": "wrong result: relative error 0.1", **FRONTEND_ABSENT}
    assert set(entry["peers_ms"]) == {"cudnn_NCDHW", "cudnn_NDHWC"}


def test_plans_of_an_engine_are_measured_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    @contextlib.contextmanager
    def only_engine(engine: str, candidate: int = 0) -> Iterator[None]:
        asked.append((engine, candidate))
        yield

    monkeypatch.setattr(measuring, "only_engine", only_engine)
    options = Options(peers=False, engine="mma", plans=3)
    (entry,) = measure(STRIDE_ONE, "backward_input", "bf16", ["NDHWC"], FixedTimes(), options)
    assert asked == [("mma", 0), ("mma", 0), ("mma", 1), ("mma", 2)]
    assert entry["engine"] == "mma"
    expected = candidates(STRIDE_ONE, "backward_input", "bf16", "NDHWC", "mma", 3)
    assert [plan["plan"] for plan in entry["plans"]] == [candidate.plan for candidate in expected]
    assert len({candidate.plan for candidate in expected}) == 3
    assert [plan["ms"] for plan in entry["plans"]] == [2.0] * 3
    asked.clear()
    (entry,) = measure(STRIDE_ONE, "forward", "bf16", ["NDHWC"], FixedTimes(), Options(peers=False, engine="simt"))
    assert (entry["engine"], asked) == ("simt", [("simt", 0)])
    with pytest.raises(NoPlanError, match="the engine depthwise has no plan for this call"):
        measure(STRIDE_ONE, "forward", "bf16", ["NDHWC"], FixedTimes(), Options(engine="depthwise"))


def test_candidates_end_where_the_engine_has_no_more() -> None:
    (only,) = candidates(STRIDE_ONE, "forward", "fp32", "NCDHW", "simt", 5)
    assert only.number == 0


def test_wrong_result_of_convt3d_is_an_error_not_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = calls.convt3d_call

    def wrong(layer: Layer, pass_: str, operands: calls.Operands) -> calls.Call:
        return lambda: exact(layer, pass_, operands)() + float("nan")

    monkeypatch.setattr(measuring, "convt3d_call", wrong)
    with pytest.raises(measuring.WrongResultError, match="NDHWC: wrong result, relative error nan"):
        measure(ASYMMETRIC, "forward", "fp32", ["NDHWC"], FixedTimes(), Options(peers=False))


def test_peers_are_those_that_apply() -> None:
    def names(layer: Layer, pass_: str) -> set[str]:
        found = peers(layer, pass_)
        assert len({peer.name for peer in found}) == len(found)
        assert all(peer.layout in LAYOUTS and peer.name.endswith((peer.layout, "shuffle")) for peer in found)
        return {peer.name.removesuffix(f"_{peer.layout}") for peer in found} - {"cudnn", "cudnn_frontend"}

    assert names(ASYMMETRIC, "forward") == names(ASYMMETRIC, "backward_weight") == set()
    assert names(ASYMMETRIC, "backward_input") == {"conv3d"}
    assert names(STRIDE_ONE, "forward") == {"conv3d_flipped"}
    assert names(KERNEL_IS_STRIDE, "forward") == {"matmul_shuffle"}
    assert names(KERNEL_IS_STRIDE, "backward_input") == {"conv3d", "matmul_unshuffle"}
    assert names(KERNEL_IS_STRIDE, "backward_weight") == {"matmul_unshuffle"}


def test_slow_peers_can_be_left_out_and_the_record_says_so() -> None:
    (entry,) = measure(KERNEL_IS_STRIDE, "backward_input", "fp32", ["NCDHW"], FixedTimes(), Options(slow_peers=False))
    slow = {f"{name}_{layout}" for name in ("matmul_unshuffle", "cudnn_frontend") for layout in LAYOUTS}
    assert entry["peers_absent"] == dict.fromkeys(slow, "left out by --no-slow-peers")


class FakeFrontend:
    """What `convt3d.benchmark.cudnn_frontend` asks of the module cudnn: a graph of one node, with numbered plans."""

    data_type = SimpleNamespace(FLOAT="FLOAT", HALF="HALF", BFLOAT16="BFLOAT16")
    numerical_note = SimpleNamespace(DOWN_CONVERT_INPUTS="down", TENSOR_CORE="tensor core")
    heur_mode = SimpleNamespace(A="A", FALLBACK="fallback")

    def __init__(self) -> None:
        self.deselected: list[str] = []
        self.executed: list[int] = []

    def pygraph(self, **arguments: object) -> FakeFrontend:
        assert arguments["handle"] == "handle"
        return self

    def tensor(self, name: str, dim: list[int], stride: list[int], data_type: str) -> Any:
        node = MagicMock(dim=dim, stride=stride)
        node.name = name
        return node

    def node(self, kind: str, **arguments: Any) -> Any:
        self.kind, self.arguments, self.output = kind, arguments, MagicMock()
        for setter in ("set_output", "set_data_type", "set_dim", "set_stride"):
            getattr(self.output, setter).return_value = self.output
        return self.output

    def __getattr__(self, name: str) -> Any:
        if name.startswith("conv_"):
            return functools.partial(self.node, name)
        return MagicMock()

    def deselect_numeric_notes(self, notes: list[str]) -> None:
        self.deselected = notes

    def get_execution_plan_count(self) -> int:
        return 4

    def build_plan_at_index(self, index: int) -> None:
        if index == 1:
            raise ValueError("not supported")

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        return 8 * index

    def execute_plan_at_index(self, tensors: dict[Any, Tensor], workspace: Tensor, index: int, handle: str) -> None:
        self.executed.append(index)
        named = {key: tensors[value] for key, value in self.arguments.items() if isinstance(value, MagicMock)}
        sizes = [self.arguments[key] for key in ("stride", "padding", "dilation")]
        result = tensors[self.output]
        assert self.output.set_dim.call_args[0][0] == list(result.shape)
        assert self.output.set_stride.call_args[0][0] == list(result.stride())
        image = result if self.kind == "conv_dgrad" else named["image"]
        weight = named.get("weight", named.get("filter", result))
        groups = image.shape[1] // weight.shape[1]
        if self.kind == "conv_fprop":
            computed = F.conv3d(image, weight, None, *sizes, groups)
        else:
            mask = [self.kind == "conv_dgrad", self.kind == "conv_wgrad", False]
            computed = torch.ops.aten.convolution_backward(
                named["loss"], image, weight, None, *sizes, False, [0, 0, 0], groups, mask
            )[mask.index(True)]
        result.copy_(computed)


@pytest.mark.parametrize("pass_", ["forward", "backward_input", "backward_weight"])
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_frontends_fastest_plan_computes_what_autograd_does(
    pass_: str, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeFrontend()
    times = itertools.chain([3.0] * 3, [1.0] * 3, [2.0] * 3)
    monkeypatch.setattr(cudnn_frontend.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(cudnn_frontend.importlib, "import_module", lambda name: fake)
    monkeypatch.setattr(cudnn_frontend, "_handle", lambda device: "handle")
    monkeypatch.setattr(cudnn_frontend, "_milliseconds", lambda call: next(times))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=1))
    operands = calls.random_operands(ASYMMETRIC, "fp32", torch.device("cpu")).in_layout(layout)
    with calls.precision_switches("fp32"):
        call = cudnn_frontend.fastest_plan_call(ASYMMETRIC, pass_, operands)
    assert fake.deselected == ["down", "tensor core"]
    fake.executed = []
    torch.testing.assert_close(call(), calls.aten_call(ASYMMETRIC, pass_, operands)(), rtol=1e-4, atol=1e-4)
    assert fake.executed == [2]  # of 0, 2 and 3, as 1 does not run


@pytest.mark.parametrize(("precision", "allowed"), [("fp32", False), ("tf32", True), ("bf16", False)])
def test_precision_sets_pytorchs_switches_and_puts_them_back(precision: str, allowed: bool) -> None:
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    with calls.precision_switches(precision):
        assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32) == (allowed, allowed)
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32) == before


def test_repetitions_fill_the_budget_within_bounds() -> None:
    repetitions = Repetitions(budget_ms=100, at_least=5, at_most=40, slow_ms=50, slow_replays=2)
    assert [repetitions.count(ms) for ms in (0.001, 10, 30, 80)] == [40, 10, 5, 2]


def test_merge_replaces_a_record_of_the_same_case_and_keeps_the_others() -> None:
    old = records.merge(None, META, [record(), record(layout="NDHWC"), record("backward_input")])
    newer: records.Meta = {**META, "date": "2026-02-01", "python_tree": "p1"}
    merged = records.merge(old, newer, [record(ms=1.0), record("backward_weight")])
    assert merged["meta"] == newer
    assert [(r["pass"], r["layout"], r["convt3d_ms"]) for r in merged["records"]] == [
        ("forward", "NCDHW", 1.0),
        ("forward", "NDHWC", 2.0),
        ("backward_input", "NCDHW", 2.0),
        ("backward_weight", "NCDHW", 2.0),
    ]


def test_merge_drops_records_of_other_sources_whose_kernels_are_not_known() -> None:
    other: records.Meta = {**META, "csrc_tree": "another"}
    old = records.merge(None, META, [record()])
    assert records.differences(META, other) == []
    assert records.merge(old, other, [record("backward_input")])["records"] == [record("backward_input")]


def test_merge_keeps_where_records_of_the_same_kernels_come_from() -> None:
    second: records.Meta = {**META, "csrc_tree": "second", "date": "2026-02-01"}
    third: records.Meta = {**META, "csrc_tree": "third", "date": "2026-03-01"}
    first_origin = {"date": META["date"], "csrc_tree": META["csrc_tree"]}
    content = records.merge(records.merge(None, META, [record()]), second, [record("backward_input")], lambda _: True)
    merged = records.merge(content, third, [record("backward_weight")], lambda _: True)
    assert merged["meta"] == third
    assert merged["records"] == [
        {**record(), "origin": first_origin},
        {**record("backward_input"), "origin": {"date": "2026-02-01", "csrc_tree": "second"}},
        record("backward_weight"),
    ]
    assert [records.origin_of(one, third)["csrc_tree"] for one in merged["records"]] == [
        META["csrc_tree"],
        "second",
        "third",
    ]
    assert records.merge(content, META, [])["records"] == []
    again = records.merge(content, META, [], lambda _: True)["records"]
    assert ["origin" in one for one in again] == [False, True]


@pytest.mark.parametrize("field", ["gpu", "torch", "cudnn"])
def test_merge_drops_records_of_another_origin(field: str) -> None:
    other: records.Meta = {**META, field: "another"}  # type: ignore[misc]
    old = records.merge(None, META, [record()])
    assert records.differences(META, other) == [f"{field}: {META[field]} -> another"]  # type: ignore[literal-required]
    assert records.merge(old, other, [record("backward_input")])["records"] == [record("backward_input")]


def test_record_file_round_trip_keeps_one_record_a_line(tmp_path: Path) -> None:
    path = tmp_path / "results" / "gpu.json"
    assert records.load(path) is None
    content = records.merge(None, META, [record(), record("backward_input")])
    records.save(path, content)
    assert records.load(path) == content == json.loads(path.read_text())
    assert sum('"layer"' in line for line in path.read_text().splitlines()) == 2
    assert [entry.name for entry in path.parent.iterdir()] == ["gpu.json"]


def test_speedup_is_against_the_strongest_peer_in_any_layout() -> None:
    assert records.speedup(record(ms=2.0)) == 2.5
    assert records.limit_fraction(record(ms=2.0)) == 0.25
    assert records.speedup({**record(), "peers_ms": {}}) is None


def test_table_shows_every_peer_ratio_and_reason() -> None:
    table = records.format_table([record(), record("backward_input", "NDHWC", 10.0)])
    header, first, second, absent = table.splitlines()
    assert header.split()[:7] == [
        "pass",
        "precision",
        "layout",
        "convt3d",
        "cudnn_NCDHW",
        "cudnn_NDHWC",
        "matmul_shuffle",
    ]
    assert " ".join(first.split()) == "forward fp32 NCDHW 2.0000 8.0000 5.0000 - 2.50x 25.0% 1.2e-07 -"
    assert second.split()[-4:] == ["0.50x", "5.0%", "1.2e-07", "-"]
    assert absent == "absent matmul_shuffle: RuntimeError: no compiler"

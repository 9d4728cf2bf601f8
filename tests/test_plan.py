"""The phase map, the plans and their cache, without torch or a GPU: compiles the tests in tests/cpp and runs them."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from statistics import geometric_mean

import pytest
from reference import LAYOUTS, TILED

from convt3d._explain import forward_plan
from convt3d._explain.plan import NoPlanError, known_device, layer_plan
from convt3d._layer import Layer
from convt3d.benchmark import records
from convt3d.benchmark.layers import known_layers

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "emulator"))

import build  # noqa: E402

pytestmark = pytest.mark.torch_free

# Everything that is planned without CUDA, but what chooses between the engines.
PLANS = [
    str(path.relative_to(ROOT))
    for folder in ("core", "engines", "norm")
    for path in sorted((ROOT / "csrc" / folder).rglob("*.cpp"))
]

CHOICE = [
    "csrc/planning/backward_ms.cpp",
    "csrc/planning/choose.cpp",
    "csrc/planning/copied_gradient.cpp",
    "csrc/planning/grad_copies.cpp",
    "csrc/planning/grad_copy.cpp",
    "csrc/planning/least_cost.cpp",
    "csrc/planning/margin.cpp",
    "csrc/planning/norm_way.cpp",
    "csrc/planning/operator_plan.cpp",
    "csrc/planning/plan_cache.cpp",
    "csrc/planning/separate_plan.cpp",
]


@pytest.mark.parametrize(
    ("test", "sources"),
    [
        ("plan_test", PLANS),
        ("choose_test", [*PLANS, *CHOICE]),
        ("mma_plan_test", PLANS),
        ("mma_weight_grad_plan_test", PLANS),
        ("mma_backward_plan_test", PLANS),
        ("wgmma_weight_grad_plan_test", PLANS),
        ("kernel_memo_test", []),
        ("small_quotient_test", []),
    ],
)
def test_in_cpp(test: str, sources: list[str], tmp_path: Path) -> None:
    if build.compiler() is None:
        pytest.skip("needs g++")
    program = tmp_path / test
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-Icsrc"]
    # Most tests need the same sources, and so does the emulator.
    objects = build.planner_objects((ROOT / source for source in sources), build.cache())
    command = [build.needed_compiler(), *flags, f"tests/cpp/{test}.cpp", *map(str, objects), "-o", str(program)]
    subprocess.run(command, cwd=ROOT, check=True)
    result = subprocess.run([str(program)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("precision", "has_wgmma", "expected"),
    [
        ("fp32", True, "halo_wgmma"),
        ("tf32", True, "halo_wgmma"),
        ("bf16", True, "halo_wgmma"),
        ("fp32", False, "mma"),
        ("bf16", False, "mma"),
    ],
)
def test_engine_of_a_forward(precision: str, has_wgmma: bool, expected: str) -> None:
    layer = Layer("", 2, 24, 40, (16, 20, 40), (3, 2, 4), (2, 1, 2), (1, 0, 1), groups=2)
    plan = forward_plan(layer, precision, "NCDHW", has_wgmma=has_wgmma)
    assert plan.engine == expected
    assert "tile=" in plan.plan
    if expected == "halo_wgmma":
        assert f" terms={2 if precision == 'fp32' else 1} " in plan.plan


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_input_gradients_on_hopper(precision: str, layout: str) -> None:
    layer = Layer("stride 1", 2, 64, 128, (9, 20, 24), (3, 2, 5), padding=(1, 0, 8), dilation=(1, 2, 2))
    plan = layer_plan(layer, "input_grad", precision, layout, known_device((9, 0)))
    assert plan.engine == "halo_wgmma"
    forward = replace(
        layer, in_channels=128, out_channels=64, input_size=layer.output_size, padding=(1, 2, 0), kernel_size=(3, 2, 5)
    )
    assert forward.output_size == layer.input_size
    assert plan.plan == layer_plan(forward, "forward", precision, layout, known_device((9, 0))).plan
    others = [
        replace(layer, stride=(1, 2, 1)),
        replace(layer, stride=(2, 2, 2)),
        replace(layer, groups=2),
        replace(layer, output_padding=(0, 1, 0)),
        replace(layer, padding=(3, 0, 8)),
    ]
    for other in others:
        plan = layer_plan(other, "input_grad", precision, layout, known_device((9, 0)), engine="halo_wgmma")
        assert plan.engine == "halo_wgmma"
    with pytest.raises(NoPlanError, match="halo_wgmma has no plan for this call"):
        layer_plan(
            replace(layer, stride=(3, 1, 1)), "input_grad", precision, layout, known_device((9, 0)), engine="halo_wgmma"
        )
    for plan in (
        layer_plan(layer, "input_grad", precision, layout, known_device((9, 0)), masked=True),
        layer_plan(layer, "input_grad", precision, layout, known_device((8, 0))),
        layer_plan(layer, "input_grad", "fp64", layout, known_device((9, 0))),
    ):
        assert plan.engine != "halo_wgmma"


def test_engine_of_a_large_stride() -> None:
    layer = Layer("", 1, 16, 16, (8, 8, 8), (3, 3, 3), (3, 1, 1))
    assert forward_plan(layer, "bf16", "NDHWC", has_wgmma=True).engine == "mma"


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_engine_of_a_depthwise_layer(precision: str, layout: str) -> None:
    for width, vectors in ((16, True), (17, layout == "NDHWC")):  # rows of 32 outputs are whole vectors
        layer = Layer("", 2, 24, 24, (5, 6, width), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), groups=24)
        plan = forward_plan(layer, precision, layout, has_wgmma=True)
        assert plan.engine == "depthwise"
        assert plan.plan.startswith(f"{'rows' if layout == 'NCDHW' else 'channels'} width=stride2_kernel3 paired ")
        assert plan.workspace_bytes == 0
        moved = layer.bytes(precision) / 4.25e12  # at the speed of a copy
        assert moved < plan.expected_ms * 1e-3
        assert (plan.expected_ms * 1e-3 < 1.5 * moved) == vectors


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)])
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_depthwise_layers_of_the_benchmark(precision: str, layout: str, capability: tuple[int, int]) -> None:
    layers = [layer for layer in known_layers() if layer.groups == layer.in_channels == layer.out_channels > 1]
    assert len(layers) >= 3
    for layer in layers:
        for operator, masked in product(("forward", "input_grad", "weight_grad"), (False, True)):
            if operator == "forward" and masked:
                continue
            plan = layer_plan(layer, operator, precision, layout, known_device(capability), masked=masked)
            assert plan.engine == "depthwise", (layer.name, operator, masked)


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_the_cheapest_engine_computes_a_forward(layout: str) -> None:
    """mma is chosen where it is expected to be a sixth faster than halo_wgmma, and matmul unless one of both is."""
    chosen = set()
    for layer in [*known_layers(), Layer("few channels", 2, 40, 8, (16, 14, 3), (3, 4, 1))]:
        plans = {
            engine: layer_plan(layer, "forward", "fp32", layout, known_device((9, 0)), engine=engine)
            for engine in (None, "halo_wgmma", "mma")
            if max(layer.stride) <= 2 and layer.groups == 1
        }
        if plans:
            with contextlib.suppress(NoPlanError):
                plans["matmul"] = layer_plan(layer, "forward", "fp32", layout, known_device((9, 0)), engine="matmul")
            worth = {"matmul": 1, "halo_wgmma": 1.16, "mma": 1.16**2}
            best = min(worth.keys() & plans.keys(), key=lambda engine: plans[engine].expected_ms * worth[engine])
            assert plans[None] == plans[best] or plans[None].engine == "simt"
            chosen.add(plans[None].engine)
    assert {"mma", "halo_wgmma", "matmul"} <= chosen


@pytest.mark.parametrize("capability", [(8, 0), (8, 6), (9, 0), (12, 0)])
@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_tiles_and_patches_of_the_depthwise_engine(precision: str, layout: str, capability: tuple[int, int]) -> None:
    """Both gradients, and the forward where a kernel is longer than four."""
    device = known_device(capability)
    for kernel, stride in [((3, 3, 3), (2, 2, 2)), ((7, 5, 6), (2, 1, 2)), ((1, 1, 7), (1, 2, 1))]:
        layer = Layer("", 2, 24, 24, (5, 6, 17), kernel, stride, (1, 0, 1), groups=24)
        for operator in ("forward", "input_grad", "weight_grad"):
            plan = layer_plan(layer, operator, precision, layout, device)
            assert plan.engine == "depthwise"
            patches = operator != "forward" and kernel == (3, 3, 3)
            assert plan.plan.startswith("patches ") == patches
            assert plan.plan.startswith("tiles ") == (not patches and (operator != "forward" or max(kernel) > 4))
            assert (plan.workspace_bytes > 0) == (operator == "weight_grad")
            if operator != "forward":
                masked = layer_plan(layer, operator, precision, layout, device, masked=True)
                assert " masked" in masked.plan
                assert masked.expected_ms > plan.expected_ms
                assert layer_plan(layer, operator, "fp64", layout, device).engine == "simt"


@pytest.mark.parametrize(
    ("groups", "out_channels", "kernel", "stride", "dilation"),
    [(12, 24, 3, 2, 1), (12, 12, 8, 2, 1), (12, 12, 3, 3, 1), (12, 12, 3, 1, 2)],
)
def test_gradients_that_tiles_do_not_compute(
    groups: int, out_channels: int, kernel: int, stride: int, dilation: int
) -> None:
    layer = Layer(
        "",
        2,
        12,
        out_channels,
        (5, 6, 7),
        (3, kernel, 4),
        (1, stride, 2),
        (0, 0, 0),
        (0, 0, 0),
        (1, dilation, 1),
        groups,
    )
    for operator in ("input_grad", "weight_grad"):
        assert layer_plan(layer, operator, "fp16", "NCDHW", known_device((9, 0))).engine != "depthwise"


@pytest.mark.parametrize(
    ("in_channels", "out_channels", "stride", "engine"),
    [(12, 24, 5, "depthwise"), (24, 24, 8, "depthwise"), (12, 60, 1, "mma"), (36, 24, 1, "mma"), (12, 12, 9, "mma")],
)
def test_limits_of_the_depthwise_engine(in_channels: int, out_channels: int, stride: int, engine: str) -> None:
    layer = Layer("", 2, in_channels, out_channels, (10, 12, 14), (3, 2, 4), (1, stride, 2), groups=12)
    assert forward_plan(layer, "fp32", "NCDHW", has_wgmma=False).engine == engine


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        *(
            (name, precision, [f"folds={folds}"] * 2)
            for name, folds in [("folded", "2x2"), ("folded_depth", "2x1"), ("folded_height", "1x2")]
            for precision in ["fp32", "tf32", "fp16", "bf16"]
        ),
        ("joined", "fp16", ["joined=4", "joined=4"]),
        ("joined_four", "bf16", ["joined=4", "joined=4"]),
        ("joined_four", "tf32", ["joined=4", "joined=2"]),
        ("joined_four", "fp32", ["joined=4", "joined=2"]),
        ("not_joined", "fp16", ["joined=1", "joined=1"]),
    ],
)
def test_positions_are_folded_and_groups_joined(name: str, precision: str, expected: list[str]) -> None:
    """The plans of halo_wgmma for problems of tests/test_tensor_cores.py; ``expected``: in each layout."""
    for layout, part in zip(LAYOUTS, expected, strict=True):
        layer = Layer(**asdict(TILED[name]))
        plan = layer_plan(layer, "forward", precision, layout, known_device((9, 0)), engine="halo_wgmma")
        assert f" {part} " in plan.plan, plan.plan


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("name", ["many_items", "many_items_of_groups", "many_items_of_chunks"])
def test_items_are_claimed(name: str, precision: str, layout: str) -> None:
    """The problems of tests/test_tensor_cores.py that stand for claims have more items than 132 blocks know of."""
    plan = forward_plan(Layer(**asdict(TILED[name])), precision, layout, has_wgmma=True)
    found = re.search(r" work_tiles=(\d+)", plan.plan)
    assert found is not None
    assert int(found[1]) > 4 * 132, plan.plan


@pytest.mark.parametrize(
    ("name", "layout", "precision", "expected"),
    [
        *(
            (name, "NCDHW", precision, ("sets=2", "width_pairs=1", "staging=runs"))
            for name in ["height_sets", "height_sets_of_groups"]
            for precision in ["fp32", "tf32", "fp16", "bf16"]
        ),
        *(
            (name, "NDHWC", precision, ("sets=2", "slab_channels=32", "staging=boxes"))
            for name in ["channel_sets", "channel_sets_of_groups"]
            for precision in ["fp16", "bf16"]
        ),
        ("runs_of_rows", "NCDHW", "fp16", ("sets=1", "width_pairs=0", "staging=runs")),
        ("runs_in_a_row", "NCDHW", "tf32", ("sets=2", "width_pairs=0", "staging=runs")),
        *(
            (name, "NCDHW", precision, (f"sets={sets}", f"phase_halos={halos}", "images=8", "staging=registers"))
            for name, sets, halos, precisions in [
                ("image_planes", 2, 1, ["fp32", "tf32"]),
                ("image_planes_unstrided", 1, 0, ["tf32", "fp16", "bf16"]),
                ("image_planes_of_groups", 2, 1, ["fp32", "tf32", "fp16", "bf16"]),
                ("image_planes_of_four", 2, 0, ["fp32", "tf32", "fp16", "bf16"]),
                ("image_pairs", 1, 1, ["tf32", "fp16", "bf16"]),
            ]
            for precision in precisions
        ),
        *(
            (name, "NCDHW", precision, (f"n_major={rows}", "images=1"))
            for name, rows in [
                ("position_rows", 64),
                ("position_rows_of_a_width", 32),
                ("position_rows_of_groups", 64),
                ("position_rows_of_chunks", 64),
                ("position_rows_of_one_tap", 32),
                ("position_rows_of_phases", 64),
                ("position_rows_moved", 32),
                ("position_rows_in_depth", 32),
                ("position_rows_past_the_width", 32),
            ]
            for precision in ["fp16", "bf16"]
        ),
        ("position_rows", "NDHWC", "fp16", ("n_major=0",)),
        ("position_rows", "NCDHW", "tf32", ("n_major=0",)),
        *(
            ("phase_halos", layout, precision, ("phase_halos=1", "images=1"))
            for layout in LAYOUTS
            for precision in ["fp32", "tf32", "fp16", "bf16"]
        ),
    ],
)
def test_sets_runs_and_images(name: str, layout: str, precision: str, expected: tuple[str, ...]) -> None:
    """The problems of tests/test_tensor_cores.py that stand for such plans get them."""
    layer = Layer(**asdict(TILED[name]))
    plan = layer_plan(layer, "forward", precision, layout, known_device((9, 0)), engine="halo_wgmma")
    assert all(re.search(f" {part} ", plan.plan) for part in expected), plan.plan


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)])
def test_every_layer_has_a_plan_on_every_architecture(capability: tuple[int, int]) -> None:
    """Of engines that the device has, within its shared memory; tensor cores have one of every layer but float64."""
    device = known_device(capability)
    shared_bytes = device.traits[3]
    tensor_cores = {"mma", "matmul"} if capability >= (8, 0) else set()
    if capability == (9, 0):
        tensor_cores.add("halo_wgmma")
    for layer, operator, precision, layout in product(
        known_layers(), ("forward", "input_grad", "weight_grad"), ("fp32", "tf32", "fp16"), LAYOUTS
    ):
        case = f"{layer.name} {operator} {precision} {layout}"
        chosen = layer_plan(layer, operator, precision, layout, device)
        assert chosen.engine in {"simt", "depthwise", *tensor_cores}, case
        assert chosen.expected_ms > 0, case
        for engine in {chosen.engine, "mma"} & tensor_cores:
            plan = layer_plan(layer, operator, precision, layout, device, engine=engine).plan
            (used,) = re.findall(r" shared(?:_bytes)?=(\d+)", plan)
            assert 0 < int(used) <= shared_bytes, case


@pytest.mark.parametrize("gradient", ["input_grad", "weight_grad"])
def test_one_gradient_of_copies(gradient: str) -> None:
    """Channels of large NCDHW tensors are copied some images at a time for Hopper's units, and there alone."""
    layers = {layer.name: layer for layer in known_layers()}
    for name, rounds in (("gan3d_128", 2), ("kb2_100", 8)):
        on_hopper = layer_plan(layers[name], gradient, "fp16", "NCDHW", known_device((9, 0)))
        assert on_hopper.engine == "halo_wgmma"
        if name == "gan3d_128" and gradient == "input_grad":
            assert "rounds=" not in on_hopper.plan  # all images fit
            continue
        copied = "both" if gradient == "weight_grad" else "grad_output"
        assert on_hopper.plan.endswith(f" copied={copied} rounds={rounds}")
        assert on_hopper.workspace_bytes < 300 << 20
        for layout, capability in (("NDHWC", (9, 0)), ("NCDHW", (8, 0))):
            assert "rounds=" not in layer_plan(layers[name], gradient, "fp16", layout, known_device(capability)).plan


def test_expected_times_are_those_of_the_record() -> None:
    """Costs are fitted to an H200: where a layer takes longer than its launches, they are right to a factor of 2."""
    content = records.load(ROOT / "benchmarks" / "results" / "h200.json")
    assert content is not None
    layers = {layer.name: layer for layer in known_layers()}
    ratios = []
    for record in content["records"]:
        if record["convt3d_ms"] < 0.06:
            continue
        call = (layers[record["layer"]], "forward", record["precision"], record["layout"], known_device((9, 0)))
        plan = layer_plan(*call, engine=record["engine"])
        chosen = layer_plan(*call)
        # Other engines give way to matmul, whose costs are not lower than its times, unless they are a sixth faster.
        worth = 1.16 if chosen.engine == "matmul" else 1
        assert chosen.engine == record["engine"] or chosen.expected_ms < worth * record["convt3d_ms"]
        ratios.append(plan.expected_ms / record["convt3d_ms"])
    assert len(ratios) > 100
    assert min(ratios) > 0.5
    assert max(ratios) < 2
    assert 0.8 < geometric_mean(ratios) < 1.25

"""The benchmark's layers: the published ones and their groups, their arithmetic, and those given as text."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from benchmark_cases import ASYMMETRIC, KERNEL_IS_STRIDE, STRIDE_ONE

from convt3d.benchmark.layers import find_layer, group_of, groups, known_layers, parse_layer, select_layers

if TYPE_CHECKING:
    from convt3d._layer import Layer

# Work (GFLOP) and limits (ms in fp32, tf32, fp16, bf16) as published with the suite, rounded there.
PUBLISHED = {
    "seed0_grouped_asymmetric": (26.72, (0.2009, 0.1421, 0.0711, 0.0711)),
    "seed1_grouped_k3s2": (5.08, (0.0985, 0.0985, 0.0492, 0.0492)),
    "seed2_k355": (1288.49, (9.6879, 3.2212, 1.7342, 1.6712)),
    "seed3_k3_64_128": (231.93, (1.7438, 0.5798, 0.3122, 0.3008)),
    "seed4_dilated_strided": (26.64, (0.2003, 0.1423, 0.0712, 0.0712)),
    "kb58": (56.37, (0.4238, 0.1409, 0.0759, 0.0731)),
    "kb72": (5.54, (0.0416, 0.03, 0.015, 0.015)),
    "kb73": (13.97, (0.2774, 0.2774, 0.1387, 0.1387)),
    "kb2_100": (370.01, (2.782, 0.925, 0.498, 0.4799)),
    "kb2_34": (129.02, (0.97, 0.3225, 0.1736, 0.1673)),
    "nnunet_320_8": (1.34, (0.0101, 0.0034, 0.0018, 0.0017)),
    "nnunet_128_32": (8.59, (0.0646, 0.0395, 0.0198, 0.0198)),
    "nnunet_64_64": (17.18, (0.1579, 0.1579, 0.079, 0.079)),
    "nnunet_aniso": (13.42, (0.148, 0.148, 0.074, 0.074)),
    "monai_unet_96": (35.93, (0.2702, 0.0933, 0.0484, 0.0467)),
    "gan3d_512": (46.04, (0.3461, 0.1151, 0.062, 0.0597)),
    "gan3d_128": (249.91, (1.879, 0.6248, 0.3363, 0.3241)),
    "depthwise_k3s2": (0.88, (0.1421, 0.1421, 0.0711, 0.0711)),
}

# Output sizes as published with the layers in use.
IN_USE = {
    "nnunet_320_6x7x5": (12, 14, 10),
    "nnunet_256_10x14x10": (20, 28, 20),
    "nnunet_64_40x56x40": (80, 112, 80),
    "nnunet_aniso_14x44x36": (14, 88, 72),
    "stereo_64_32_k4": (24, 68, 124),
    "stereo_32_8_k4": (48, 136, 248),
    "psmnet_64_64": (24, 34, 62),
    "occupancy_64_32": (200, 200, 16),
    "vae_last_32_1": (80, 96, 80),
    "head_48_4": (96, 96, 96),
    "mednext_up_k3": (79, 79, 79),
    "mednext_up_k7": (39, 39, 39),
    "mednext_residual": (39, 39, 39),
    "expand4_96_24": (80, 96, 80),
    "unpatch8_256_1": (64, 64, 64),
    "flat_32_k133": (24, 160, 128),
    "monai_64_19x23x15": (38, 46, 30),
    "dilated_48": (20, 28, 24),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_work_and_limits_equal_the_published_figures(name: str) -> None:
    (layer,) = (layer for layer in groups()["suite"] if layer.name == name)
    gflop, limits = PUBLISHED[name]
    assert layer.gflop == pytest.approx(gflop, abs=0.0051)
    for precision, limit in zip(("fp32", "tf32", "fp16", "bf16"), limits, strict=True):
        assert layer.limit_ms(precision) == pytest.approx(limit, abs=0.000051)


def test_suite_is_the_published_one() -> None:
    assert [layer.name for layer in groups()["suite"]] == list(PUBLISHED)


def test_layers_in_use_have_the_published_outputs() -> None:
    assert {layer.name: layer.output_size for layer in groups()["use"]} == IN_USE


def test_every_layer_is_in_one_group() -> None:
    names = [layer.name for layer in known_layers()]
    assert len(set(names)) == len(names) == 36
    assert [group_of(name) for name in names] == ["suite"] * 18 + ["use"] * 18
    assert group_of("N=1,C_in=2,C_out=3,input=4,kernel=2") == group_of("another") == "given"
    assert find_layer("psmnet_64_64") is not None


@pytest.mark.parametrize("layer", [ASYMMETRIC, STRIDE_ONE, KERNEL_IS_STRIDE], ids=lambda layer: layer.name)
def test_multiply_adds_equal_a_count_by_enumeration(layer: Layer) -> None:
    products = 0
    for taps in itertools.product(*map(range, layer.kernel_size)):
        for positions in itertools.product(*map(range, layer.input_size)):
            output = [positions[a] * layer.stride[a] - layer.padding[a] + taps[a] * layer.dilation[a] for a in range(3)]
            products += all(0 <= output[a] < layer.output_size[a] for a in range(3))
    channels = layer.in_channels * layer.out_channels // layer.groups
    assert layer.multiply_adds == layer.batch * channels * products


def test_layer_spec_gives_the_layer() -> None:
    spec = (
        "layer=asymmetric,N=3,C_in=4,C_out=6,input=2x4x3,kernel=3x2x4,stride=2x3x1,padding=1x0x2,output_padding=1x2x0,"
        "dilation=2x1x3,groups=2,bias=1"
    )
    assert parse_layer(spec) == ASYMMETRIC


def test_one_number_in_a_spec_is_meant_for_every_dimension() -> None:
    layer = parse_layer("N=1,C_in=2,C_out=3,input=4,kernel=2,stride=2")
    assert (layer.input_size, layer.kernel_size, layer.stride) == ((4, 4, 4), (2, 2, 2), (2, 2, 2))
    assert layer.output_shape == (1, 3, 8, 8, 8)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("N=1,C_in=2,C_out=3,input=4", "needs 'kernel'"),
        ("N=1,C_in=2,C_out=3,input=4,kernel=two", "kernel must be an integer"),
        ("N=1,C_in=2,C_out=3,input=4x4,kernel=2", "input must be one or three numbers"),
        ("N=1,C_in=2,C_out=3,input=4,kernel=2,pad=1", "unknown key 'pad'"),
        ("N=1,C_in=3,C_out=2,input=4,kernel=2,groups=2", "groups=2 must divide C_in=3"),
        ("N=1,C_in=2,C_out=3,input=1,kernel=1,padding=1", "output size"),
        ("no_such_layer*", "known: suite/seed0_grouped_asymmetric"),
        ("suite/psmnet*", "no layer matches"),
    ],
)
def test_bad_layer_is_refused_by_name(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select_layers([spec])


def test_layers_are_selected_by_globs_in_the_suites_order_and_once() -> None:
    names = [layer.name for layer in select_layers(["seed[12]*", "seed2_k355", "kb72"])]
    assert names == ["seed1_grouped_k3s2", "seed2_k355", "kb72"]
    assert select_layers(["use/*"]) == groups()["use"]
    assert select_layers([]) == select_layers(["suite/*", "*"]) == known_layers()

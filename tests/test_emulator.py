"""The kernels on the CPU: the emulator is built, finds nothing, and finds what is planted; see docs/dev/emulator.md."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EMULATOR = ROOT / "tests" / "emulator"
sys.path.insert(0, str(EMULATOR))

import build  # noqa: E402
import planted_bugs  # noqa: E402

pytestmark = pytest.mark.torch_free

PROBLEM = (
    "op={} type={} layout={} n=2 cin=8 cout=12 size=3,4,8 kernel=2,3,2 stride=2,1,2 padding=1,0,1 "
    "output_padding=1,0,0 dilation=1,2,1 groups=2 bias=1 relu=1 first={} second={} mask={}"
)
OPERATORS = ["forward", "input_grad", "weight_grad", "bias_grad"]
ARRANGEMENTS = ["offset", "offset_four", "slice_w", "slice_c_quads", "slice_all", "permuted_height", "batch_inner"]
ARRANGEMENTS += ["permuted_channels", "expanded_n", "expanded_w", "expanded"]
# Kernel == stride and a padding: the tiles of the phases begin at different positions of the input.
ROWS_OF_POSITIONS = (
    "op=forward type=bf16 layout=NCDHW n=2 cin=8 cout=34 size=2,16,8 kernel=2,2,2 stride=2,2,2 padding=1,0,0 "
    "output_padding=1,1,0 dilation=1,1,1 groups=2 bias=1 relu=0"
)
# Raw rows of 16 bits: whole ones, such as begin alike in all channels of a line, and others.
ROWS_OF_CHANNELS = [
    "op={} type={} layout=NCDHW n=2 cin=24 cout=40 size={} kernel=3,3,3 stride=1,1,1 padding=1,1,1 relu={} engine=mma",
    "op={} type={} layout=NCDHW n=2 cin=16 cout=24 size={} kernel=2,2,2 stride=2,2,2 relu={} engine=mma",
    "op={} type={} layout=NCDHW n=1 cin=8 cout=16 size={} kernel=3,2,3 stride=1,2,3 dilation=1,1,2 relu={} engine=mma",
]
ROW_SIZES = ["2,4,32", "2,4,36", "2,4,7", "3,5,7"]
TYPES = [("fp16", "bf16"), ("bf16", "fp16")]


# One image, channel or position whose stride is no multiple of 16 bytes.
PAST_THE_LAST = [
    "op=forward type=bf16 layout=NDHWC n=2 cin=1 cout=32 size=8,1,2 kernel=4,4,4 stride=4,4,4 {}",
    "op=forward type=bf16 layout=NDHWC n=1 cin=1 cout=18 size=3,11,8 kernel=8,1,8 stride=8,1,8 first=batch_inner {}",
    "op=forward type=fp32 layout=NCDHW n=1 cin=48 cout=1536 size=1,1,1 kernel=2,1,1 stride=2,1,1 groups=12 {}",
]


@pytest.fixture(scope="session")
def emulate() -> Path:
    if build.compiler() is None:
        pytest.skip("needs g++")
    if not (ROOT / "csrc" / "device").is_dir():
        pytest.skip("needs the sources")
    return build.build(build.cache())


def run(emulate: Path, *options: str, expect: int = 0) -> str:
    result = subprocess.run([emulate, *options], capture_output=True, text=True, timeout=600)
    assert result.returncode == expect, result.stdout + result.stderr
    return result.stdout + result.stderr


def run_drawn(emulate: Path, count: int, *options: str) -> None:
    """The same problems on every machine; CI draws others every day."""
    options = (*options, "--seed", "2", "--seconds", "1000", "--cases", str(count))
    assert f"{count} cases, 0 failed" in run(emulate, *options)


def test_only_one_folder_has_ptx() -> None:
    word = re.compile(r"\basm\b|__shared__|__cvta")
    sources = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".cu", ".cuh", ".cpp", ".h")]
    assert len(sources) > 50
    found = {path.parent for path in sources if word.search(path.read_text(encoding="utf-8"))}
    assert found == {ROOT / "csrc" / "device" / "ptx"}


def test_every_header_of_ptx_has_its_other() -> None:
    ours, theirs = (
        {path.name for path in folder.glob("*")}
        for folder in (EMULATOR / "device" / "ptx", ROOT / "csrc" / "device" / "ptx")
    )
    assert ours == theirs


def test_every_planted_bug_has_its_place(tmp_path: Path) -> None:
    """Each is a change of words that the sources have once."""
    if not (ROOT / "csrc" / "device").is_dir():
        pytest.skip("needs the sources")
    tree = planted_bugs.copied_tree(tmp_path / "tree")
    text = "".join(path.read_text(encoding="utf-8") for path in (tree / "csrc").rglob("*.*"))
    assert all(f"planted({number})" in text for number in range(len(planted_bugs.BUGS)))


@pytest.mark.parametrize("problem", PAST_THE_LAST)
def test_past_the_last_image_channel_and_position(emulate: Path, problem: str) -> None:
    """Nothing is read there, but a copy of nothing has an address, which must be a multiple of 16 bytes, too."""
    run(emulate, "--problem", problem.format("engine=matmul plan=1037386"))
    run(emulate, "--problem", problem.format("engine=matmul plan=754985"))


@pytest.mark.parametrize(("engine", "count"), [("wgmma", 40), ("simt", 40), ("depthwise", 160), ("matmul", 100)])
def test_random_forwards(emulate: Path, engine: str, count: int) -> None:
    run_drawn(emulate, count, "--engine", engine)


@pytest.mark.parametrize("operator", ["forward", "input_grad", "weight_grad"])
@pytest.mark.parametrize("type", ["fp32", "tf32", "fp16", "bf16"])
def test_random_operators_on_mma(emulate: Path, type: str, operator: str) -> None:
    run_drawn(emulate, 30, "--engine", "mma", "--operator", operator, "--type", type)


@pytest.mark.parametrize("operator", ["forward", "input_grad", "weight_grad", "backward"])
def test_rows_of_channels_on_mma(emulate: Path, operator: str, tmp_path: Path) -> None:
    """The types take turns: they have the same loads and stores."""
    problems = ROWS_OF_CHANNELS[1:2] if operator == "backward" else ROWS_OF_CHANNELS
    lines = [
        f"{problem.format(operator, type, size, relu)} first={first}"
        for problem in problems
        for number, size in enumerate(ROW_SIZES)
        for relu in [0, 1]
        for first, type in zip(["dense", "slice_w"], TYPES[(number + relu) % 2], strict=True)
    ]
    file = tmp_path / "problems.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert f"{len(lines)} cases, 0 failed" in run(emulate, "--problems", str(file))


@pytest.mark.parametrize(("operator", "count"), [("input_grad", 160), ("weight_grad", 90)])
def test_random_gradients_on_tiles(emulate: Path, operator: str, count: int) -> None:
    run_drawn(emulate, count, "--engine", "depthwise", "--operator", operator)


@pytest.mark.parametrize(
    ("operator", "count"), [("input_grad", 30), ("weight_grad", 60), ("bias_grad", 200), ("backward", 30)]
)
def test_random_gradients(emulate: Path, operator: str, count: int) -> None:
    run_drawn(emulate, count, "--operator", operator)


@pytest.mark.parametrize("type", ["fp32", "tf32", "fp16", "bf16"])
def test_ways_of_a_backward(emulate: Path, type: str, tmp_path: Path) -> None:
    """With copies of all images or of some at a time, and gradients beside each other."""
    problem = "op=backward type={} layout=NCDHW n=4 cin=16 cout=24 size=3,5,8 kernel=3,2,3 stride=2,1,2 padding=1,0,1 "
    other = "output_padding=1,0,1 bias={} relu={} engine=auto plan={} seed={}"
    lines = [
        problem.format(type) + other.format(bias, relu, plan, seed)
        for bias, relu in [(0, 1), (1, 0)]
        for plan in range(8)
        for seed in [1, 2]
    ]
    (tmp_path / "problems.txt").write_text("\n".join(lines), encoding="utf-8")
    output = run(emulate, "--verbose", "--problems", str(tmp_path / "problems.txt"))
    ways = set(re.findall(r"(?:copied=\w+ rounds=\d+|beside=)", output))
    copied = {f"copied={what} rounds={rounds}" for what in ("grad_output", "both") for rounds in (1, 2)}
    assert ways == copied | {"beside="}


@pytest.mark.parametrize("type", ["tf32", "fp16"])
def test_input_gradients_that_leave_copies(emulate: Path, type: str, tmp_path: Path) -> None:
    """By matmul, from grad_output as it lies, where the weight gradient reads copies."""
    problem = "op=backward type={} layout=NCDHW n=2 cin=32 cout=32 size=3,5,8 kernel=2,2,2 stride=2,2,2 "
    other = "bias={} relu={} engine=auto plan={} seed=1"
    lines = [problem.format(type) + other.format(plan % 2, plan // 2 % 2, plan) for plan in range(25)]
    (tmp_path / "problems.txt").write_text("\n".join(lines), encoding="utf-8")
    output = run(emulate, "--verbose", "--problems", str(tmp_path / "problems.txt"))
    assert "for=weight_grad" in output


@pytest.mark.parametrize("type", ["fp32", "fp16"])
def test_backwards_of_a_view(emulate: Path, type: str, tmp_path: Path) -> None:
    """Taps that meet every second output, one tap at a stride, and taps that are channels: every way, as it lies."""
    layers = (
        "cin=32 cout=16 size=4,5,6 kernel=3,1,2 stride=2,2,1 padding=1,0,1 output_padding=1,0,0 dilation=2,1,1",
        "cin=32 cout=16 size=3,4,5 kernel=1,1,1 stride=2,2,2 padding=0,0,0 output_padding=0,1,0 dilation=1,1,1",
        "cin=24 cout=8 size=3,4,5 kernel=2,3,2 stride=2,4,2 padding=2,1,0 output_padding=1,0,0 dilation=2,2,4",
        "cin=24 cout=1 size=3,2,5 kernel=4,2,8 stride=4,2,8 padding=0,0,0 output_padding=0,0,0 dilation=1,1,1",
        "cin=32 cout=1 size=4,2,3 kernel=2,2,2 stride=2,2,4 padding=2,0,0 output_padding=1,1,0 dilation=2,2,2",
        "cin=48 cout=4 size=5,6,24 kernel=2,2,2 stride=2,2,2 padding=0,0,0 output_padding=0,0,0 dilation=1,1,1",
        "cin=40 cout=3 size=5,6,16 kernel=1,2,4 stride=2,2,4 padding=0,0,0 output_padding=1,0,0 dilation=1,1,1",
    )
    arranged = ("layout=NCDHW first=dense", "layout=NDHWC first=dense", "layout=NCDHW first=expanded")
    problems = tmp_path / "problems.txt"
    problems.write_text(
        encoding="utf-8",
        data="".join(
            f"op=backward type={type} n=2 {layer} groups=1 bias=1 relu={plan % 2} {how} second=dense mask=dense "
            f"result=dense wgmma=1 engine=auto plan={plan} seed={plan + 1}\n"
            for layer, how, plan in itertools.product(layers, arranged, (0, 1, 3))
        ),
    )
    output = run(emulate, "--verbose", "--problems", str(problems))
    assert {"every=2x2x1", "every=2x2x2", "width_taps=channels"} <= set(
        re.findall(r"(?:every=\w+|width_taps=\w+)", output)
    )


def test_taps_beside_channels(emulate: Path, tmp_path: Path) -> None:
    """Taps of the width that are channels behind a position's own, also where the weight's lie otherwise."""
    layers = (
        "cin=48 cout=4 size=5,6,24 kernel=2,2,2 stride=2,2,2",
        "cin=48 cout=5 size=5,6,24 kernel=2,2,3 stride=2,2,3",
    )
    how = "padding=0,0,0 output_padding=0,0,0 dilation=1,1,1 groups=1 bias=0 layout=NDHWC first=dense mask=dense"
    lines = [
        f"op={operator} type={type} n=2 {layer} {how} relu={relu} second={second} result=dense wgmma=1 seed={relu + 1}"
        for operator, type, layer, relu, second in itertools.product(
            ("input_grad", "weight_grad"), ("tf32", "bf16"), layers, (0, 1), ("dense", "permuted_width")
        )
    ]
    (tmp_path / "problems.txt").write_text("\n".join(lines), encoding="utf-8")
    output = run(emulate, "--verbose", "--problems", str(tmp_path / "problems.txt"))
    assert output.count("width_taps=channels") > len(lines) / 2


def test_random_norms(emulate: Path) -> None:
    run_drawn(emulate, 250, "--norm")


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_norm(emulate: Path, direction: str, layout: str) -> None:
    """Several splits of a channel, rows whose first elements are not aligned."""
    line = (
        f"norm={direction} type=fp16 float32_result=1 layout={layout} n=2 c=6 d=5 h=37 w=91 groups=3 relu=1 slope=0.1"
    )
    output = run(emulate, "--norm", "--verbose", "--problem", line)
    assert re.search(r" splits=([2-9]|[1-9][0-9])", output)


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("type", ["fp64", "fp32", "tf32", "fp16", "bf16"])
def test_operators(emulate: Path, type: str, layout: str, tmp_path: Path) -> None:
    dense = [PROBLEM.format(operator, type, layout, *["dense"] * 3) for operator in OPERATORS]
    others = [
        PROBLEM.format(operator, type, layout, *words)
        for operator in OPERATORS
        for word in ARRANGEMENTS
        for words in ((word, "dense", "dense"), ("dense", word, "dense"), ("dense", "dense", word))
    ]
    lines = [*dense, *others, f"{dense[0]} result=offset", f"{dense[0]} wgmma=0"]
    problems = tmp_path / "problems.txt"
    problems.write_text("# a comment\n\n" + "\n".join(lines) + "\n", encoding="utf-8")
    assert f"{len(lines)} cases, 0 failed" in run(emulate, "--problems", str(problems))


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
def test_all_plans_of_a_problem(emulate: Path, layout: str) -> None:
    problem = (
        f"op=forward type=fp16 layout={layout} n=1 cin=16 cout=9 size=2,3,8 kernel=2,2,3 stride=2,2,1 padding=0,1,1 "
        "output_padding=1,0,0 dilation=1,1,1 groups=1 bias=1 relu=0"
    )
    output = run(emulate, "--plan", "all", "--problem", problem)
    assert int(output.split(" cases", maxsplit=1)[0].splitlines()[-1]) > 20


@pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
@pytest.mark.parametrize("type", ["fp32", "tf32", "fp16", "bf16"])
def test_blocks_that_share_sums(emulate: Path, type: str, layout: str, tmp_path: Path) -> None:
    """Small volumes of many channels; each problem is run twice, its blocks in another order the second time."""
    channels = {"forward": "cin=128 cout=24", "input_grad": "cin=20 cout=128"}
    line = (
        "op={} type={} layout={} n={} {} size=2,3,4 kernel=3,2,3 stride={} padding=1,1,1 output_padding=0,0,0 "
        "dilation=1,1,1 groups={} bias=1 relu={} engine=mma seed={}"
    )
    others = [(2, "1,1,1", 2, 1), (1, "2,1,2", 1, 0), (3, "1,2,1", 1, 1)]
    lines = [
        line.format(operator, type, layout, n, channels[operator], stride, groups, relu, seed)
        for operator in ("forward", "input_grad")
        for seed, (n, stride, groups, relu) in enumerate(others, 1)
    ]
    problems = tmp_path / "problems.txt"
    problems.write_text("\n".join(lines) + "\n", encoding="utf-8")
    output = run(emulate, "--problems", str(problems), "--verbose")
    assert f"{len(lines)} cases, 0 failed" in output
    assert len(re.findall(r" k_splits=\d+ ", output)) == len(lines), output


def test_rows_of_positions_begin_where_their_phase_does(emulate: Path) -> None:
    output = run(emulate, "--verbose", "--problem", ROWS_OF_POSITIONS)
    assert re.search(r" n_major=[1-9]", output)
    assert "phase_halos=1" in output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--problem", PROBLEM.format("forward", "fp8", "NCDHW", *["dense"] * 3)], "'fp8' is none of fp64, fp32"),
        (["--problem", "n=1 cin=2"], "at least 1"),
        (["--problem", "colour=1"], "unknown key 'colour'"),
        (["--problem", "size=1,2"], "fewer than three"),
        (["--problems", "/nowhere"], "cannot read /nowhere"),
        (["--seed"], "needs a value"),
        (["--colour", "1"], "unknown option"),
        (["--norm", "--problem", "c=3 groups=2"], "c is a multiple of groups"),
        (["--norm", "--problem", "norm=backward w=4 h=3 d=2 grad=slice_w"], "not equally far apart"),
        (["--norm", "--problem", "colour=1"], "unknown key 'colour'"),
    ],
)
def test_what_it_does_not_understand(emulate: Path, options: list[str], message: str) -> None:
    assert message in run(emulate, *options, expect=2)

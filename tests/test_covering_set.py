"""The covering set: cases whose plans have every value of every trait, and every pair of values, that were drawn."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import candidates
import pytest
import torch
from cases import ARRANGEMENTS, DTYPES, Case
from checking import WrongResultError, check
from drawing import MOST_ELEMENTS, MOST_PRODUCTS
from trait_coverage import WANTED, Coverage, checked_search, plans, read

import convt3d

if TYPE_CHECKING:
    from pathlib import Path

ops = torch.ops.convt3d
SHARDS = 64
ANEW = "draw the set anew: python tests/draw_covering_set.py"
# What takes more than the limits of the set: threads of the depthwise engine that walk along the width, and blocks of
# Hopper's matrix units whose sums join sums in memory.
WALKS = [
    (
        "op=forward type=fp16 layout=NDHWC n=2 cin=32 cout=32 size=40,40,48 kernel=3,4,3 stride=1,2,2 padding=1,1,1 "
        "output_padding=0,0,1 dilation=1,1,1 groups=32 bias=1 relu=1"
    ),
    (
        "op=forward type=fp32 layout=NDHWC n=3 cin=64 cout=64 size=24,40,48 kernel=2,2,2 stride=2,2,2 padding=0,0,0 "
        "output_padding=0,0,0 dilation=1,1,1 groups=64 bias=0 relu=0"
    ),
]
SEGMENTS = [
    f"op=weight_grad type={precision} layout=NDHWC n=1 cin=288 cout=320 size={size} kernel=3,3,3 padding=1,1,1"
    for precision, size in (("fp32", "10,14,16"), ("tf32", "24,32,24"), ("fp16", "24,32,24"))
]


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return read()


def test_cases_are_small_and_their_lines_are_what_they_say(cases: list[Case]) -> None:
    assert 1000 < len(cases) == len(set(cases))
    for case in cases:
        assert case.products <= MOST_PRODUCTS
        assert case.elements <= MOST_ELEMENTS
        assert Case.parse(str(case)) == case
    assert {case.first for case in cases} == set(ARRANGEMENTS)
    assert {case.type for case in cases} == set(DTYPES)


def test_walks_of_the_depthwise_engine() -> None:
    assert {Case.parse(line).traits()["walk"] for line in WALKS} == {"many"}


def test_sums_that_join_others_in_memory() -> None:
    for line in SEGMENTS:
        traits = Case.parse(line).traits()
        assert (traits["engine"], traits["segments"]) == ("halo_wgmma", "yes")


@pytest.mark.slow
@pytest.mark.torch_free
def test_plans_that_the_search_passed_over_have_traits(cases: list[Case], tmp_path: Path) -> None:
    """tests/candidates.py lists what only they have."""
    if candidates.build.compiler() is None:
        pytest.skip("needs g++")
    library = candidates.candidate_library(tmp_path)
    counts = []
    for case in islice((case for case in cases if case.traits()["engine"] == "halo_wgmma"), 20):
        found = list(case.candidate_traits(library))
        assert case.traits() in found
        counts.append(len(found))
    assert max(counts) > 10


@pytest.mark.slow
@pytest.mark.torch_free
def test_every_pair_that_a_search_finds_is_covered(cases: list[Case]) -> None:
    """A plan that is new, or that others join in a new way, is drawn here and missing in the set."""
    search = checked_search()
    covered = Coverage()
    for traits in plans(cases):
        covered.add(covered.numbers(traits))
    counts = {(min(a, b), max(a, b)): count for a, b, count in covered.pairs()}
    seldom = []
    for a, b, count in search.coverage.pairs():
        have = counts.get((min(a, b), max(a, b)), 0)
        if have < min(count, WANTED):
            seldom.append(f"{a}" if a == b else f"{a} with {b}")
    assert not seldom, f"{len(seldom)} values or pairs of plans are in too few cases, such as {seldom[:5]}; {ANEW}"


def test_operands_and_results_lie_as_the_plan_was_told(cases: list[Case]) -> None:
    """The traits are those of strides and addresses that are computed; tensors have these."""
    kinds = {name: [case for case in cases if case.first == name or case.second == name] for name in ARRANGEMENTS}
    for case in [case for some in kinds.values() for case in some[:: max(1, len(some) // 6)]]:
        tensors = {}
        for name, memory in case.operands.items():
            values = torch.arange(torch.Size(memory.shape).numel()).reshape(memory.shape).to(DTYPES[case.type])
            tensor = memory.tensor(values)
            assert tensor.shape == memory.shape
            assert tensor.stride() == memory.strides
            assert (tensor.data_ptr() - memory.offset * tensor.itemsize) % 16 == 0
            assert memory.expanded or torch.equal(tensor, values)
            tensors[name] = torch.empty_strided(memory.shape, memory.strides, dtype=tensor.dtype, device="meta")
        first, second, mask = (tensors.get(name) for name in ("first", "second", "mask"))
        if case.op == "forward":
            result = ops.conv_transpose3d(first, second, None, **case.parameters)
        elif case.op == "input_grad":
            result = ops.conv_transpose3d_input_grad(first, second, mask, **case.parameters)
        else:
            continue
        assert result.stride() == _dense(result.shape, case.output_layout)


def _dense(shape: torch.Size, layout: str) -> tuple[int, ...]:
    memory_format = torch.channels_last_3d if layout == "NDHWC" else torch.contiguous_format
    return torch.empty(shape, device="meta", memory_format=memory_format).stride()


def test_a_line_that_says_nonsense_is_refused(cases: list[Case]) -> None:
    line = str(cases[0])
    for wrong in (f"{line} speed=1", line.replace("size=", "sise="), f"{line} first=sideways"):
        with pytest.raises(ValueError, match="line"):
            Case.parse(wrong)


def _wrong(lines: list[Case], device: str) -> list[str]:
    found = []
    for case in lines:
        try:
            check(case, device)
        except WrongResultError as error:
            found.append(f"{error}: scripts/fuzz.py --device {device} --problem '{case}'")
    return found


def test_some_of_it_on_the_cpu(cases: list[Case]) -> None:
    small = [case for case in cases if case.products < 300_000 and case.op != "weight_grad"]
    assert not _wrong(small[:: max(1, len(small) // 60)], "cpu")


@pytest.mark.cuda
@pytest.mark.parametrize("shard", range(SHARDS))
def test_all_of_it(shard: int, cases: list[Case]) -> None:
    wrong = _wrong(cases[shard::SHARDS], "cuda")
    assert not wrong, "\n".join(wrong)


@pytest.mark.cuda
@pytest.mark.parametrize("line", [*WALKS, *SEGMENTS])
def test_larger_ones(line: str) -> None:
    assert not _wrong([Case.parse(line)], "cuda")


def test_a_wrong_result_is_found(cases: list[Case], monkeypatch: pytest.MonkeyPatch) -> None:
    """One element that lacks one of its products is told from what rounding may do."""
    case = next(case for case in cases if case.op == "forward" and case.type == "bf16" and not case.relu)
    right = convt3d.conv_transpose3d

    def without_one(input: torch.Tensor, *rest: object, **parameters: object) -> torch.Tensor:
        output = right(input, *rest, **parameters)  # type: ignore[arg-type]
        output[-1, -1, -1, -1, -1] += 1.5
        return output

    monkeypatch.setattr(convt3d, "conv_transpose3d", without_one)
    with pytest.raises(WrongResultError, match="1 of"):
        check(case, "cpu")

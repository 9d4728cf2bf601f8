"""Random cases (cases.py): fresh ones, changed ones, and two of them mixed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cases import ARRANGEMENTS, LAYOUTS, Case, Int3

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

MOST_PRODUCTS = 20_000_000
MOST_ELEMENTS = 1_500_000

_AWKWARD = tuple(kind for kind in ARRANGEMENTS if kind != "dense")


# Only whole numbers decide: the same seed draws the same cases everywhere.


def _log_uniform(rng: random.Random, low: int, high: int) -> int:
    """Every doubling of the low end is as likely."""
    least = low << rng.randrange((high // low).bit_length())
    return rng.randint(least, min(high, 2 * least - 1))


def _three(draw: Callable[[], int]) -> Int3:
    first, second, third = (draw() for _ in range(3))
    return first, second, third


def _op(rng: random.Random) -> str:
    return rng.choices(("forward", "input_grad", "weight_grad", "bias_grad", "backward"), (76, 8, 8, 2, 6))[0]


def _type(rng: random.Random) -> str:
    return rng.choices(("fp16", "bf16", "tf32", "fp32", "fp64"), (25, 25, 22, 22, 6))[0]


def _batch(rng: random.Random) -> int:
    return rng.choices(
        (1, rng.randint(2, 4), rng.randint(8, 20), 8 * rng.randint(1, 6), _log_uniform(rng, 1, 700)),
        (30, 30, 20, 10, 10),
    )[0]


def _extent(rng: random.Random) -> int:
    return rng.choices(
        (1, rng.randint(1, 9), _log_uniform(rng, 1, 40), 8 * rng.randint(1, 8), _log_uniform(rng, 8, 600)),
        (6, 36, 36, 18, 4),
    )[0]


def _channels(rng: random.Random) -> int:
    """Of a group."""
    return rng.choices(
        (
            rng.randint(1, 9),
            _log_uniform(rng, 1, 80),
            8 * rng.randint(1, 16),
            16 * rng.randint(1, 12),
            _log_uniform(rng, 40, 800),
        ),
        (25, 25, 22, 22, 6),
    )[0]


def _groups(rng: random.Random) -> int:
    return rng.choices((1, 2, rng.randint(3, 9), 4 * rng.randint(1, 8)), (60, 15, 10, 15))[0]


def _stride(rng: random.Random) -> int:
    return rng.choices((1, 2, rng.randint(3, 4), rng.randint(5, 9)), (35, 54, 8, 3))[0]


def _kernel(rng: random.Random, stride: int) -> int:
    return rng.choices((stride, rng.randint(1, stride), rng.randint(2, 5), rng.randint(1, 8)), (30, 10, 45, 15))[0]


def _dilation(rng: random.Random) -> int:
    return rng.choices((1, 2, rng.randint(3, 5)), (82, 13, 5))[0]


def _padding(rng: random.Random, kernel: int, dilation: int) -> int:
    reach = dilation * (kernel - 1)
    return rng.choices((0, reach // 2, rng.randint(0, reach), reach + rng.randint(0, 2)), (40, 25, 25, 10))[0]


def _output_padding(rng: random.Random, stride: int, dilation: int) -> int:
    return rng.randrange(max(stride, dilation)) if rng.random() < 0.45 else 0


def _kind(rng: random.Random, awkward: float) -> str:
    return rng.choice(_AWKWARD) if rng.random() < awkward else "dense"


def _shrink(rng: random.Random, case: Case) -> Case | None:
    """The same within the limits: what is large is made smaller; None where nothing is left that could be."""
    while not case.invalid() and (case.products > MOST_PRODUCTS or case.elements > MOST_ELEMENTS):
        sizes = list(case.size)
        parts: dict[str | int, int] = {"n": case.n, "cin": case.cin // case.groups, "cout": case.cout // case.groups}
        parts |= {axis: sizes[axis] for axis in range(3)}
        if max(parts.values()) == 1:
            return None
        part = rng.choices(list(parts), [2 * size.bit_length() - 2 + (size > 1) for size in parts.values()])[0]
        smaller = max(1, parts[part] * rng.randint(4, 7) // 8)
        if isinstance(part, int):
            sizes[part] = smaller
            case = case.with_(size=tuple(sizes))
        else:
            case = case.with_(**{part: smaller * (1 if part == "n" else case.groups)})
    return case


def _one(rng: random.Random) -> Case:
    groups = _groups(rng)
    cin, cout = _channels(rng), _channels(rng)
    if rng.random() < 0.16:  # depthwise
        groups = rng.choice((rng.randint(1, 40), 4 * rng.randint(1, 20), 32 * rng.randint(1, 4)))
        cin, cout = rng.choice(((1, 1), (1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (1, 4), (4, 1), (3, 1)))
    size = _three(lambda: _extent(rng))
    if rng.random() < 0.15:  # small planes, which images may share
        size = (rng.randint(1, 6), rng.randint(1, 6), rng.choice((2, 4, 4, 8, rng.randint(1, 8))))
    stride = _three(lambda: _stride(rng))
    if rng.random() < 0.35:
        stride = (stride[2],) * 3
    if rng.random() < 0.45:
        stride = tuple(min(2, value) for value in stride)  # type: ignore[assignment]
    kernel = tuple(_kernel(rng, value) for value in stride)
    if rng.random() < 0.3:
        kernel = (kernel[2],) * 3
    dilation = _three(lambda: _dilation(rng)) if rng.random() < 0.5 else (1, 1, 1)
    padding = tuple(_padding(rng, *pair) for pair in zip(kernel, dilation, strict=True))
    if rng.random() < 0.25 and len(set(kernel)) == 1:
        padding = (padding[2],) * 3
    awkward = rng.choice((0.0, 0.0, 0.0, 0.6))
    return Case(
        _op(rng),
        _type(rng),
        rng.choice(LAYOUTS),
        _batch(rng),
        cin * groups,
        cout * groups,
        size,
        kernel,  # type: ignore[arg-type]
        stride,
        padding,  # type: ignore[arg-type]
        tuple(_output_padding(rng, *pair) for pair in zip(stride, dilation, strict=True)),  # type: ignore[arg-type]
        dilation,
        groups,
        rng.randint(0, 1),
        rng.randint(0, 1),
        _kind(rng, awkward),
        _kind(rng, awkward / 2),
        _kind(rng, awkward / 2),
        int(rng.random() < 0.96),
    )


def _whole_strides(rng: random.Random, case: Case) -> Case:
    """Where no tap meets another, most often: what a backward has a plan of its own for."""
    if case.op != "backward" or rng.random() < 0.2:
        return case
    return case.with_(kernel=case.stride, output_padding=(0, 0, 0), dilation=(1, 1, 1))


def fresh(rng: random.Random) -> Case:
    """Any valid case within the limits."""
    while True:
        case = _shrink(rng, _whole_strides(rng, _one(rng)))
        if case is not None and not case.invalid():
            return case


def _with_axis(rng: random.Random, case: Case, other: Case) -> Case:
    """One axis of the other."""
    axis = rng.randrange(3)
    names = ("size", "kernel", "stride", "padding", "output_padding", "dilation")
    chosen = names if rng.random() < 0.4 else rng.sample(names, rng.randint(1, 2))
    changes = {}
    for name in chosen:
        values = list(getattr(case, name))
        values[axis] = getattr(other, name)[axis]
        changes[name] = tuple(values)
    return case.with_(**changes)


def _with_channels(rng: random.Random, case: Case, other: Case) -> Case:
    chosen = rng.sample(("groups", "cin", "cout"), rng.randint(1, 3))
    parts = {"groups": case.groups, "cin": case.cin // case.groups, "cout": case.cout // case.groups}
    of_other = {"groups": other.groups, "cin": other.cin // other.groups, "cout": other.cout // other.groups}
    parts |= {name: of_other[name] for name in chosen}
    return case.with_(groups=parts["groups"], cin=parts["cin"] * parts["groups"], cout=parts["cout"] * parts["groups"])


def _with_some(rng: random.Random, case: Case, other: Case) -> Case:
    name = rng.choice((*("type", "n", "first") * 2, "op", "layout", "bias", "relu", "second", "mask", "wgmma"))
    return case.with_(**{name: getattr(other, name)})


def _nudged(rng: random.Random, case: Case) -> Case:
    """One size a little larger or smaller."""
    name = rng.choice(("size", "size", "kernel", "padding", "padding", "n", "cin", "cout"))
    step = rng.choice((-8, -4, -2, -1, -1, -1, 1, 1, 1, 2, 4, 8)) if name not in ("kernel", "padding") else None
    step = step or rng.choice((-1, 1))
    if name in ("size", "kernel", "padding"):
        values = list(getattr(case, name))
        axis = rng.randrange(3)
        values[axis] = max(0 if name == "padding" else 1, values[axis] + step)
        return case.with_(**{name: tuple(values)})
    unit = 1 if name == "n" else case.groups
    return case.with_(**{name: max(1, getattr(case, name) // unit + step) * unit})


def changed(rng: random.Random, case: Case, other: Case | None = None) -> Case:
    """A valid case that has one to four things of the other, or of a fresh one."""
    for _ in range(40):
        result = case
        for _ in range(rng.randint(1, 4)):
            way = rng.choices((_with_axis, _with_channels, _with_some, None), (35, 15, 30, 20))[0]
            result = _nudged(rng, result) if way is None else way(rng, result, other or fresh(rng))
        shrunk = _shrink(rng, result)
        if shrunk is not None and not shrunk.invalid() and shrunk != case:
            return shrunk
    return fresh(rng)

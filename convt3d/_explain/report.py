"""What `convt3d.explain` says about a model, call by call."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convt3d._explain.call import Explanation


@dataclass(frozen=True)
class ExplainedCall:
    """One call of a transposed 3D convolution.

    Attributes:
        name: of the module whose `forward` makes the call, as in `model.named_modules()`; empty for the model itself.
        computed_by: ``"torch"``, or ``"convt3d"`` where the model calls it already.
        relu: whether the call includes a ReLU; only convt3d's does.
        input_shape: of the call, with the batch.
        weight_shape: of the call; a folded BatchNorm is in the weight's values.
        explanation: what convt3d runs, or would run, for this call; None where it cannot.
        convt3d_ms: measured time of convt3d, None where it was not measured.
        cudnn_ms: measured time of cuDNN's transposed convolution, and of PyTorch's ReLU, norm and activation where the
            call includes them.
        note: why there is no explanation, or no time where times were wanted; else empty.
        norm_groups: of the group norm that the call includes, None where it has none; only convt3d's does. The
            explanation is that of the convolution, and says how the norm is computed.
        backward: of the gradients that a training step would compute, of input, weight and, where there is one, bias;
            None where convt3d cannot.
    """

    name: str
    computed_by: Literal["torch", "convt3d"]
    relu: bool
    input_shape: tuple[int, ...]
    weight_shape: tuple[int, ...]
    explanation: Explanation | None
    convt3d_ms: float | None = None
    cudnn_ms: float | None = None
    note: str = ""
    backward: Explanation | None = None
    norm_groups: int | None = None

    @property
    def backward_ms(self) -> float | None:
        """Expected time of all gradients together; None where convt3d cannot."""
        return None if self.backward is None else self.backward.expected_ms


@dataclass(frozen=True)
class ModelExplanation:
    """What :func:`convt3d.explain` says about a model; printing it shows a table, a line for each call.

    Attributes:
        calls: in the order in which the model makes them.
    """

    calls: tuple[ExplainedCall, ...]

    def __str__(self) -> str:
        if not self.calls:
            return "the model called no transposed 3D convolution"
        header = ("layer", "computed by", "input", "weight", "output", "precision", "layout", "engine", "tile")
        numbers = ("MB", "GFLOP", "limit ms", "expected ms", "convt3d ms", "cuDNN ms")
        backward = ("backward ms", "by")
        rows = [(*header, *numbers, *backward), *(_row(call) for call in self.calls)]
        explained = [call.explanation for call in self.calls if call.explanation is not None]
        sums = (
            _sum([one.bytes / 1e6 for one in explained]),
            _sum([one.flops / 1e9 for one in explained]),
            _sum([one.limit_ms for one in explained]),
            _sum([one.expected_ms for one in explained]),
            _sum([call.convt3d_ms for call in self.calls]),
            _sum([call.cudnn_ms for call in self.calls]),
            _sum([call.backward_ms for call in self.calls if call.explanation is not None]),
        )
        rows.append(("sum", *("" for _ in header[1:]), *map(_number, sums), ""))
        lines = _aligned(rows, left=len(header))
        lines += [f"device: {device}" for device in dict.fromkeys(one.device for one in explained)]
        of_a_model = [
            f"{one.operator} ({_engines(one)})"
            for call in self.calls
            for one in (call.explanation, call.backward)
            if one is not None and not one.measured
        ]
        if of_a_model:
            lines.append(f"expected by a model, not measured on this GPU: {', '.join(dict.fromkeys(of_a_model))}")
        for way, words in _NORM_WAYS.items():
            norms = [one.norm_ms for one in explained if one.norm_way == way]
            if norms:
                expected = f"{_number(_sum(norms))} ms expected, in no number above but the measured times"
                lines.append(f"group norm: {words}: {expected}")
        lines += [f"{_shown(call.name)}: {call.note}" for call in dict.fromkeys(self.calls) if call.note]
        if unconverted := sum(call.computed_by == "torch" for call in self.calls):
            lines.append(f"{unconverted} of {len(self.calls)} calls computed by torch; see convt3d.convert")
        return "\n".join(lines)


_NORM_WAYS = {
    "passes": "a pass of its own gathers the statistics, another normalises",
    "epilogue": "the convolution gathers the statistics, a pass normalises",
    "twice": "the convolution runs twice, for the statistics alone and then with the norm",
}


def _row(call: ExplainedCall) -> tuple[str, ...]:
    explained = call.explanation
    by = call.computed_by + (" + ReLU" if call.relu else "")
    by += "" if call.norm_groups is None else " + group norm"
    start = (_shown(call.name), by, _shape(call.input_shape), _shape(call.weight_shape))
    if explained is None:
        return (*start, *("-" for _ in range(13)))
    return (
        *start,
        _shape(explained.output_shape),
        explained.precision,
        explained.layout,
        explained.engine,
        _tile(explained.plan),
        _number(explained.bytes / 1e6),
        _number(explained.flops / 1e9),
        _number(explained.limit_ms),
        _number(explained.expected_ms),
        _number(call.convt3d_ms),
        _number(call.cudnn_ms),
        _number(call.backward_ms),
        "" if call.backward is None else _engines(call.backward),
    )


def _engines(explained: Explanation) -> str:
    """Who computes it: of gradients that are computed one by one, each engine once."""
    return " + ".join(dict.fromkeys(re.findall(r"_grad=(\S+)", explained.plan))) or explained.engine


def _tile(plan: str) -> str:
    """The tile in the text of a plan; the depthwise engine has kernels for certain widths of the kernel instead."""
    if tile := re.search(r"\btile=(\S+)", plan):
        return tile[1]
    width = re.search(r"\bwidth=(\S+)", plan)
    return f"{plan.split()[0]} {width[1]}" if width else "-"


def _shown(name: str) -> str:
    return name or "(the model)"


def _shape(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _sum(values: Sequence[float | None]) -> float | None:
    """None where a value is missing: sums of different calls do not compare."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _aligned(rows: Sequence[tuple[str, ...]], *, left: int) -> list[str]:
    """Rows as lines; the first `left` columns begin at the same place, the others end there."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines

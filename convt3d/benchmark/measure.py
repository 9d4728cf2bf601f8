"""Measures one layer, pass and precision: convt3d in each layout beside every peer, in one process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from .calls import (
    ENGINE,
    Operands,
    Reference,
    convt3d_call,
    exhaustive_cudnn,
    peers,
    precision_switches,
    random_operands,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .layers import Layer
    from .records import Record
    from .timing import Timer

# No precision rounds this badly: a peer beyond it computes something else and has no time worth comparing with.
_WRONG = 0.02


class WrongResultError(RuntimeError):
    """convt3d's operator returned values that are not the reference's."""


def measure(
    layer: Layer, pass_: str, precision: str, layouts: Sequence[str], timer: Timer, *, with_peers: bool = True
) -> list[Record]:
    """Records of convt3d in each of ``layouts``, all with the same peers.

    A peer that fails is recorded as absent with its reason. Raises what convt3d's operator raises, and
    :class:`WrongResultError` where its result is wrong.
    """
    operands = random_operands(layer, precision, torch.device("cuda"))
    reference = Reference(layer, pass_, operands)
    peers_ms: dict[str, float] = {}
    peers_absent: dict[str, str] = {}
    peers_error: dict[str, float] = {}
    records: list[Record] = []
    with precision_switches(precision), torch.no_grad():
        if with_peers:
            with exhaustive_cudnn():
                _measure_peers(layer, pass_, operands, reference, timer, peers_ms, peers_absent, peers_error)
        for layout in layouts:
            milliseconds, result = timer.time(convt3d_call(layer, pass_, operands.in_layout(layout)))
            error = reference.error(result)
            if not error < _WRONG:
                raise WrongResultError(f"{layer.name} {pass_} {precision} {layout}: relative error {error:.3g}")
            records.append(
                {
                    "layer": layer.name,
                    "pass": pass_,
                    "precision": precision,
                    "layout": layout,
                    "convt3d_ms": _round(milliseconds),
                    "peers_ms": peers_ms,
                    "peers_absent": peers_absent,
                    "limit_ms": _round(layer.limit_ms(precision)),
                    "error": _round(error, 3),
                    "cudnn_error": peers_error.get(f"cudnn_{layout}"),
                    "engine": ENGINE,
                }
            )
    return records


def _measure_peers(
    layer: Layer,
    pass_: str,
    operands: Operands,
    reference: Reference,
    timer: Timer,
    peers_ms: dict[str, float],
    peers_absent: dict[str, str],
    peers_error: dict[str, float],
) -> None:
    for peer in peers(layer, pass_):
        try:
            milliseconds, result = timer.time(peer.prepare(operands.in_layout(peer.layout)))
            error = reference.error(result)
        except Exception as failure:  # any library may be the one that gives up; the reason is recorded
            peers_absent[peer.name] = _reason(failure)
            continue
        if error < _WRONG:
            peers_ms[peer.name] = _round(milliseconds)
            peers_error[peer.name] = _round(error, 3)
        else:
            peers_absent[peer.name] = f"wrong result: relative error {error:.3g}"


def _reason(failure: Exception) -> str:
    first_line = (str(failure).strip().splitlines() or [""])[0]
    return f"{type(failure).__name__}: {first_line}"[:200]


def _round(value: float, digits: int = 4) -> float:
    """Four significant digits carry more than a measurement repeats."""
    return (
        value
        if value == 0 or not math.isfinite(value)
        else round(value, digits - 1 - math.floor(math.log10(abs(value))))
    )

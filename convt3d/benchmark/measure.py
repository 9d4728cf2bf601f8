"""Measures one layer, pass and precision: convt3d in each layout beside every peer, in one process."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch

from convt3d._explain.asking import only_engine

from .calls import (
    Operands,
    Reference,
    convt3d_call,
    exhaustive_cudnn,
    precision_switches,
    random_operands,
)
from .engine import Kernels, candidates, engine
from .layers import LAYOUTS
from .passes import BACKWARD_PASSES, DENSE_GRADIENTS, limit_ms
from .peers import peers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from convt3d._layer import Layer

    from .calls import Call, Exact, Result
    from .peers import Peer
    from .records import Compared, MeasuredPlan, Record

# No precision rounds this badly: a peer beyond it computes something else and has no time worth comparing with.
_WRONG = 0.02


class Stopwatch(Protocol):
    """What :class:`~convt3d.benchmark.timing.Timer` is to this module."""

    device: torch.device

    def time(self, call: Call) -> tuple[float, Result]:
        """Milliseconds of one call, and its result or results."""

    def workspace_bytes(self, call: Call) -> int | None:
        """What a call that was timed allocates beside its results, at its peak; None where that cannot be told."""


class WrongResultError(RuntimeError):
    """convt3d's operator returned values that are not the reference's."""


@dataclass(frozen=True)
class Options:
    """How a case is measured.

    Attributes:
        peers: whether peers are.
        slow_peers: whether those are that take seconds to prepare.
        engine: convt3d's only one that is asked; None: all are.
        plans: how many of an engine's plans are, the chosen one first; of the chosen engine where ``engine`` is None.
    """

    peers: bool = True
    slow_peers: bool = True
    engine: str | None = None
    plans: int = 0


@dataclass
class Gradients:
    """What the passes of one layer's gradients, in one precision and one run, have in common.

    Single gradients and all at once have the same operands, results and peers: each is computed and timed once.
    """

    exact: dict[str, Exact] = field(default_factory=dict)
    peers: dict[str, _Peers] = field(default_factory=dict)


def measure(
    layer: Layer,
    pass_: str,
    precision: str,
    layouts: Sequence[str],
    timer: Stopwatch,
    options: Options = Options(),
    kernels: Kernels | None = None,
    gradients: Gradients | None = None,
) -> list[Record]:
    """Records of convt3d in each of ``layouts``, all with the same peers, and with the fingerprints of ``kernels``.

    A peer that fails is recorded as absent with its reason. ``gradients``: of the same layer, precision and options,
    what is known from passes before; what this pass finds is added.

    Raises:
        NoPlanError: the only engine that is asked computes no such case.
        WrongResultError: the result is wrong. Whatever convt3d's operator raises passes through, too.
    """
    engines = {layout: engine(layer, pass_, precision, layout, only=options.engine) for layout in layouts}
    operands = random_operands(layer, precision, timer.device, pass_)
    known = gradients if gradients is not None and pass_ in DENSE_GRADIENTS else Gradients()
    reference = Reference(layer, pass_, operands, known.exact)
    compared = _Peers()
    records: list[Record] = []
    with precision_switches(precision), torch.no_grad():
        if options.peers:
            with exhaustive_cudnn():
                compared = _measure_peers(layer, pass_, operands, reference, timer, options, known.peers)
        for layout, runs in engines.items():
            call = convt3d_call(layer, pass_, operands.in_layout(layout))
            with _asking(options.engine):
                milliseconds, error = _timed(timer, call, reference, layout)
                workspace_bytes = timer.workspace_bytes(call)
            record: Record = {
                "layer": layer.name,
                "pass": pass_,
                "precision": precision,
                "layout": layout,
                "convt3d_ms": _round(milliseconds),
                "peers_ms": compared.milliseconds,
                "peers_absent": compared.absent,
                "limit_ms": _round(limit_ms(layer, pass_, precision)),
                "error": _round(error, 3),
                "cudnn_error": compared.error.get(f"cudnn_{layout}"),
                "engine": runs.name,
                "kernels": kernels.fingerprint(runs.name, pass_, precision) if kernels else None,
                "plan": runs.plan,
                "peers_workspace_bytes": compared.workspace_bytes,
            }
            if workspace_bytes is not None:
                record["workspace_bytes"] = workspace_bytes
            if compared.single:
                record["single_peers"] = compared.single
            if options.plans > 0:
                plans: list[MeasuredPlan] = []
                for candidate in candidates(layer, pass_, precision, layout, runs.name, options.plans):
                    with _asking(runs.name, candidate.number):
                        milliseconds, _ = _timed(timer, call, reference, f"{layout}, plan {candidate.number}")
                    plans.append(
                        {
                            "ms": _round(milliseconds),
                            "expected_ms": _round(candidate.expected_ms),
                            "plan": candidate.plan,
                        }
                    )
                record["plans"] = plans
            records.append(record)
    return records


def _asking(engine: str | None, candidate: int = 0) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if engine is None else only_engine(engine, candidate)


def _timed(timer: Stopwatch, call: Call, reference: Reference, what: str) -> tuple[float, float]:
    """Milliseconds of a call of convt3d, and its error."""
    milliseconds, result = timer.time(call)
    error = reference.error(result)
    if not error < _WRONG:
        raise WrongResultError(f"{what}: wrong result, relative error {error:.3g}")
    return milliseconds, error


@dataclass
class _Peers:
    """By name: times, errors and workspaces of the peers that computed the result, and why the others did not.

    ``single``: of a backward, by single pass, what `single_gradients` adds up.
    """

    milliseconds: dict[str, float] = field(default_factory=dict)
    error: dict[str, float] = field(default_factory=dict)
    workspace_bytes: dict[str, int] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    single: dict[str, Compared] = field(default_factory=dict)


def _measure_peers(
    layer: Layer,
    pass_: str,
    operands: Operands,
    reference: Reference,
    timer: Stopwatch,
    options: Options,
    known: dict[str, _Peers],
) -> _Peers:
    def of_pass(asked: str, exact: Reference | Exact) -> _Peers:
        if asked not in known:
            known[asked] = _compare(peers(layer, asked), operands, exact, timer, options)
        return known[asked]

    if pass_ not in BACKWARD_PASSES:
        return of_pass(pass_, reference)
    found = _compare(peers(layer, pass_), operands, reference, timer, options)
    of_part = {part: of_pass(part, exact) for part, exact in reference.of.items()}
    found.single = {part: {"peers_ms": of.milliseconds, "peers_absent": of.absent} for part, of in of_part.items()}
    for layout in LAYOUTS:
        name = f"single_gradients_{layout}"
        strongest = {part: _strongest(of, layout) for part, of in of_part.items()}
        if missing := [part for part, peer in strongest.items() if peer is None]:
            found.absent[name] = f"no peer of {', '.join(missing)}"
        else:
            found.milliseconds[name] = _round(sum(peer[0] for peer in strongest.values() if peer))
            found.error[name] = max(peer[1] for peer in strongest.values() if peer)
    return found


def _strongest(of: _Peers, layout: str) -> tuple[float, float] | None:
    """Milliseconds and error of the fastest peer in a layout."""
    found = [(ms, of.error[name]) for name, ms in of.milliseconds.items() if name.endswith(f"_{layout}")]
    return min(found, default=None)


def _compare(
    asked: Sequence[Peer], operands: Operands, reference: Reference | Exact, timer: Stopwatch, options: Options
) -> _Peers:
    found = _Peers()
    for peer in asked:
        if peer.slow and not options.slow_peers:
            found.absent[peer.name] = "left out by --no-slow-peers"
            continue
        try:
            call = peer.prepare(operands.in_layout(peer.layout))
            milliseconds, result = timer.time(call)
            error = reference.error(result)
            workspace_bytes = timer.workspace_bytes(call)
        except Exception as failure:  # any library may be the one that gives up; the reason is recorded
            found.absent[peer.name] = _reason(failure)
            continue
        if error < _WRONG:
            found.milliseconds[peer.name] = _round(milliseconds)
            found.error[peer.name] = _round(error, 3)
            if workspace_bytes is not None:
                found.workspace_bytes[peer.name] = workspace_bytes
        else:
            found.absent[peer.name] = f"wrong result: relative error {error:.3g}"
    return found


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

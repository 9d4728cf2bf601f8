"""Which kernels convt3d runs for a case, as the records have it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from convt3d._explain import layer_plan
from convt3d._explain.operands import dense, dense_operands
from convt3d._explain.plan import NoPlanError, cuda_device, known_device, operator_plan
from convt3d._library import image_for

from .calls import DTYPES
from .fingerprint import NORM_ENGINE, FingerprintError, fingerprint, fingerprints, kernel_hashes
from .passes import JOINT_PASSES, NORM_PASSES, NORM_TRAINING_STEP, OF_SLICE, runs

if TYPE_CHECKING:
    from convt3d._explain.plan import Device, OperatorPlan
    from convt3d._layer import Layer
    from convt3d._library import BuildInfo

    from .fingerprint import Hashes
    from .records import Record


@dataclass(frozen=True)
class Engine:
    """An engine and its plan.

    Attributes:
        name: as :class:`convt3d._explain.OperatorPlan` has it; of a joint pass, those of its parts, joined by ``+``, of
            which one that computes all gradients at once is named with ``_together``; a norm's kernels are
            `NORM_ENGINE`.
        plan: a hash of the plans in words, without its cost and without how operands are read and written.
    """

    name: str
    plan: str


_TOGETHER = "_together"  # all gradients, by the engine that is named
_OPERATORS = {
    "forward": "forward",
    "backward_input": "input_grad",
    "backward_weight": "weight_grad",
    "backward_bias": "bias_grad",
}


@dataclass(frozen=True)
class Candidate:
    """One of an engine's plans for a call.

    Attributes:
        number: for `convt3d._explain.asking.only_engine`; 0 is the plan that the engine chooses.
        plan: in words.
        expected_ms: by the engine's costs.
    """

    number: int
    plan: str
    expected_ms: float


def candidates(layer: Layer, pass_: str, precision: str, layout: str, engine: str, count: int) -> list[Candidate]:
    """The first plans of an engine on the current device: the one it chooses, then the others by their costs.

    Raises:
        NoPlanError: it has none.
    """
    found: list[Candidate] = []
    try:
        for number in range(count):
            plan = layer_plan(
                layer, _OPERATORS[pass_], precision, layout, _current_device(), engine=engine, candidate=number
            )
            found.append(Candidate(number, plan.plan, plan.expected_ms))
    except NoPlanError:
        if not found:
            raise
    return found


def engine(
    layer: Layer, pass_: str, precision: str, layout: str, *, device: Device | None = None, only: str | None = None
) -> Engine:
    """What computes a pass of a layer.

    Args:
        layer: the problem.
        pass_: one of `PASSES`.
        precision: of the benchmark.
        layout: of the output.
        device: the GPU that the plans are for; None: the current one.
        only: the engine that is asked alone; None: all are.

    Raises:
        NoPlanError: the engine that is asked alone has no plan.
    """
    found = _plans(layer, pass_, precision, layout, _current_device() if device is None else device, only)
    # A norm's plan follows from sizes alone.
    words = "\n".join(re.sub(r" (clocks|load|store)=\S+", "", plan.plan) for plan in found if plan is not None)
    names = (NORM_ENGINE if plan is None else plan.engine for plan in found)
    return Engine("+".join(names), hashlib.sha256(words.encode()).hexdigest()[:12])


def _plans(
    layer: Layer, pass_: str, precision: str, layout: str, device: Device, only: str | None
) -> list[OperatorPlan | None]:
    """Of the parts of a pass, None for a norm's; one for all gradients where they are computed at once."""

    def plan(operator: str) -> OperatorPlan:
        operands = dense_operands(layer, operator, layout)
        if pass_ == OF_SLICE:
            batch, channels, *size = layer.output_shape
            operands = replace(operands, first=dense((batch, 2 * channels, *size), layout))
        # A forward is chosen for itself and the norm behind it.
        norm_result_bytes = DTYPES[precision].itemsize if operator == "forward" and pass_ in NORM_PASSES else 0
        return operator_plan(layer, operator, precision, operands, device, only, norm_result_bytes=norm_result_bytes)

    together: OperatorPlan | None = None
    if pass_ in (*JOINT_PASSES, NORM_TRAINING_STEP):
        together = plan("backward_and_bias" if layer.bias else "backward")
    found: list[OperatorPlan | None] = []
    for part, of_norm in runs(layer, pass_):
        if of_norm:
            found.append(None)
        elif together is None or part == "forward":
            found.append(plan(_OPERATORS[part]))
        elif together.gradients:
            # The weight gradient's plan may have the bias's, too.
            for one in together.gradients:
                if one.operator == _OPERATORS[part]:
                    found.append(replace(together, engine=one.engine, plan=f"{together.plan} {one.plan}"))
        elif part == "backward_input":
            found.append(replace(together, engine=together.engine + _TOGETHER))
    return found


def _current_device() -> Device:
    """The GPU or, without one, that for which plans are then made."""
    if torch.cuda.is_available():
        return cuda_device(torch.device("cuda", torch.cuda.current_device()))
    return known_device((8, 0))


class Kernels:
    """The machine code of one architecture of a library; nothing where it cannot be read."""

    def __init__(self, hashes: Hashes | None) -> None:
        self._hashes = hashes

    @staticmethod
    def of_current_device(build: BuildInfo) -> Kernels:
        """Those that the loaded library runs on the current device, and a word where they cannot be read."""
        image = image_for(torch.cuda.get_device_capability(), build.architectures)
        try:
            return Kernels(None if image is None else kernel_hashes(image))
        except FingerprintError as error:
            print(f"the records get no fingerprint of the kernels: {error}", flush=True)
            return Kernels(None)

    def fingerprint(self, engine: str, pass_: str, precision: str) -> str | None:
        """Of what an engine runs for a pass and a precision."""
        return None if self._hashes is None else fingerprint(self._hashes, engine, pass_, precision)

    def fingerprints(self) -> dict[str, str] | None:
        """Of every engine, pass and precision."""
        return None if self._hashes is None else fingerprints(self._hashes)

    def measured_by(self, record: Record) -> bool:
        """Whether a record is of these kernels."""
        now = self.fingerprint(record["engine"], record["pass"], record["precision"])
        return now is not None and record.get("kernels") == now

"""What convt3d.convert does to the time of whole networks: each unconverted beside converted, in one process.

    pip install 'convt3d[bench,clients]'
    python benchmarks/end_to_end.py --json end_to_end.json

The networks are those of networks.py: MONAI's DynUNet as nnU-Net plans it, for patches of 64 and 128 voxels a side, its
UNet, MedNeXt-S, VNet and SwinUNETR, the generator of 3D-GAN, and the decoder of SurroundOcc's occupancy head (also its
three transposed convolutions by themselves). A measurement is an
inference or a whole training step (forward, loss, backward, clipping, optimizer), eager or compiled by torch.compile in
its default mode. Precisions: fp16 is autocast, with a GradScaler in training; tf32 is PyTorch's default for float32.

Times are medians of device events around calls in blocks that nothing synchronizes, so that the host may run ahead as
in a loop; blocks of the original and of the converted network take turns. Memory is what a call allocates at its peak.
Errors are relative in the norm, of the outputs or of all gradients together, against the original, eager, in float32
without TF32.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import gc
import statistics
import sys
import time
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from network_records import HEADER, VARIANTS, Meta, Record, RecordFile, format_row, merge
from networks import workloads
from torch import Tensor, nn

import convt3d
from convt3d._library import build_info
from convt3d.benchmark import environment, records
from convt3d.benchmark.engine import Kernels
from convt3d.benchmark.layers import chosen
from convt3d.benchmark.progress import progress
from convt3d.benchmark.timing import warm_up

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from workload import Workload

    Call = Callable[[], object]

PASSES = ("inference", "training")
RUNS = ("eager", "compiled")
PRECISIONS = ("tf32", "fp16")
LAYOUTS = {"NCDHW": torch.contiguous_format, "NDHWC": torch.channels_last_3d}

CALLS_BEFOREHAND = 3  # the search for algorithms, the optimizer's state and the GradScaler's scale settle here
BLOCK_SECONDS = 0.1
FEWEST_BLOCKS = 3
# The converted network may be this much further from float32 than the original; compiled ones round in other places.
ERROR_FACTOR, ERROR_MARGIN = 1.5, 1e-3


@dataclass(frozen=True)
class Case:
    """One measurement."""

    network: str
    pass_: str
    run: str
    precision: str
    layout: str

    def __str__(self) -> str:
        return " ".join((self.network, self.pass_, self.run, self.precision, self.layout))


class Subject:
    """A network that can be called for inference or for a training step."""

    def __init__(self, workload: Workload, network: nn.Module, case: Case, device: torch.device) -> None:
        self._workload, self._training, self._device = workload, case.pass_ == "training", device
        memory_format = LAYOUTS[case.layout]
        self.network = network.to(device).train(self._training)
        for parameter in network.parameters():
            if parameter.dim() == 5:
                parameter.data = parameter.data.contiguous(memory_format=memory_format)
        random = torch.Generator(device).manual_seed(1)
        needs_gradients = self._training and workload.inputs_need_gradients
        self._inputs = tuple(
            input.contiguous(memory_format=memory_format).requires_grad_(needs_gradients)
            for input in workload.inputs(random)
        )
        self._targets = workload.targets(random)
        self._half = case.precision == "fp16"
        self._run = torch.compile(self.network, dynamic=False) if case.run == "compiled" else self.network
        self._optimizer = workload.optimizer(self.network)
        self._scaler = torch.amp.grad_scaler.GradScaler(device.type, enabled=self._half)

    def call(self) -> object:
        """One pass, as it is timed."""
        return self._step() if self._training else self._infer()

    def result(self) -> Tensor:
        """All outputs of an inference, or all gradients of the parameters, as one vector in float32."""
        if not self._training:
            return torch.cat([output.float().flatten() for output in self._infer()])
        for power in range(16, 0, -1):  # the largest scale that keeps the gradients finite, as a GradScaler finds it
            scale = 2.0**power if self._half else 1.0
            self.forget_gradients()
            (self._loss() * scale).backward()
            gradients = [p.grad.flatten() / scale for p in self.network.parameters() if p.grad is not None]
            result = torch.cat(gradients)
            if result.isfinite().all():
                break
        self.forget_gradients()
        return result

    def _infer(self) -> tuple[Tensor, ...]:
        with torch.no_grad(), self._autocast():
            return _tensors(self._run(*self._inputs))

    def _loss(self) -> Tensor:
        with self._autocast():
            return self._workload.loss(_tensors(self._run(*self._inputs)), self._targets)

    def _step(self) -> Tensor:
        self.forget_gradients()
        loss = self._loss()
        self._scaler.scale(loss).backward()
        self._scaler.unscale_(self._optimizer)
        nn.utils.clip_grad_norm_(self.network.parameters(), self._workload.max_gradient_norm)
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return loss.detach()

    def forget_gradients(self) -> None:
        """Free them, as a step does first."""
        self._optimizer.zero_grad(set_to_none=True)
        for input in self._inputs:
            input.grad = None

    def _autocast(self) -> contextlib.AbstractContextManager[None]:
        return torch.autocast(self._device.type, torch.float16, enabled=self._half)


def _tensors(outputs: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    return (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)


def measure(case: Case, workload: Workload, device: torch.device, seconds: float) -> Record:
    """Times, memory and errors of the original and the converted network; ``seconds`` bounds the timed calls."""
    torch.compiler.reset()
    torch.manual_seed(0)
    original = workload.make(training=case.pass_ == "training")
    converted = copy.deepcopy(original)
    report = convt3d.convert(converted)
    reference = _reference(case, workload, copy.deepcopy(original), device)
    errors = {}
    subjects = {}
    for variant, network in zip(VARIANTS, (original, converted), strict=True):
        subjects[variant] = Subject(workload, network, case, device)
        result = subjects[variant].result()
        errors[variant] = float((result - reference).norm() / reference.norm())
    del reference, result
    peaks = {}
    for variant, subject in subjects.items():
        for _ in range(CALLS_BEFOREHAND):
            subject.call()
        peaks[variant] = _peak_mib(subject, device)
    times = time_in_turns({variant: subject.call for variant, subject in subjects.items()}, device, seconds)
    return {
        "network": case.network,
        "pass": case.pass_,
        "run": case.run,
        "precision": case.precision,
        "layout": case.layout,
        "converted_layers": len(report.names("converted", "fused")),
        "ms": {variant: round(statistics.median(of_variant), 4) for variant, of_variant in times.items()},
        "calls": {variant: len(of_variant) for variant, of_variant in times.items()},
        "peak_mib": peaks,
        "error": {variant: float(f"{error:.3g}") for variant, error in errors.items()},
    }


def compile_only(case: Case, workload: Workload, device: torch.device) -> None:
    """Leave the code of a case in inductor's cache."""
    torch.compiler.reset()
    torch.manual_seed(0)
    original = workload.make(training=case.pass_ == "training")
    converted = copy.deepcopy(original)
    convt3d.convert(converted)
    for network in (original, converted):
        Subject(workload, network, case, device).result()


def is_wrong(record: Record) -> bool:
    """Whether the converted network is further from float32 than the original's precision explains."""
    error = record["error"]
    return not error["converted"] <= ERROR_FACTOR * error["original"] + ERROR_MARGIN  # also for NaN


def _reference(case: Case, workload: Workload, network: nn.Module, device: torch.device) -> Tensor:
    in_float32 = Case(case.network, case.pass_, "eager", "fp32", "NCDHW")
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, allow_tf32=False):
        return Subject(workload, network, in_float32, device).result()


def _peak_mib(subject: Subject, device: torch.device) -> float:
    if device.type != "cuda":
        return 0.0
    subject.forget_gradients()
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    subject.call()
    return round((torch.cuda.max_memory_allocated(device) - before) / 2**20, 1)


def time_in_turns(calls: Mapping[str, Call], device: torch.device, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of every timed call, in blocks that take turns, for about ``seconds``."""
    count = {}
    for name, call in calls.items():
        once = statistics.median(_time_block(call, 2, device)) / 1e3
        count[name] = max(1, min(20, int(BLOCK_SECONDS / max(once, 1e-6))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.monotonic() + seconds
    blocks = 0
    while blocks < FEWEST_BLOCKS or time.monotonic() < end:
        for name, call in calls.items():
            times[name] += _time_block(call, count[name], device)
        blocks += 1
    return times


def _time_block(call: Call, count: int, device: torch.device) -> list[float]:
    if device.type != "cuda":
        moments = [time.perf_counter()]
        for _ in range(count):
            call()
            moments.append(time.perf_counter())
        return [1e3 * (after - before) for before, after in pairwise(moments)]
    torch.cuda.synchronize(device)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    torch.cuda.synchronize(device)
    return [before.elapsed_time(after) for before, after in pairwise(events)]


def current_meta(device: torch.device) -> Meta:
    """Where records measured now come from."""
    if device.type == "cuda":
        kernels = Kernels.of_current_device(build_info())
        return {**environment.current_meta(), "kernels": kernels.fingerprints()}
    return {
        "gpu": "none",
        "torch": torch.__version__,
        "cudnn": "none",
        "date": dt.datetime.now(dt.timezone.utc).date().isoformat(),
        "csrc_tree": environment.source_tree("csrc", "CONVT3D_CSRC_TREE"),
        "python_tree": environment.source_tree("convt3d", "CONVT3D_PYTHON_TREE"),
    }


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """What is asked for: everything eager before anything compiled, which takes longest."""
    known = workloads(tiny=options.tiny)
    on_cuda = torch.device(options.device).type == "cuda"
    precisions = PRECISIONS if on_cuda else ("fp32",)
    for run, network in product(chosen(options.run, RUNS), chosen(options.only, list(known))):
        for pass_, precision, layout in product(chosen(options.pass_, PASSES), precisions, options.layout or ["NCDHW"]):
            if precision in (options.precision or precisions):
                yield Case(network, pass_, run, precision, layout)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns 1 if a case failed or is wrong, else 0."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.from_record:
        content: RecordFile | None = records.read(options.from_record)
        if content is None:
            parser.error(f"--from-record: there is no file {options.from_record}")
        print(records.in_words(content["meta"]), HEADER, *map(format_row, content["records"]), sep="\n")
        return 0
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device; --device cpu --tiny tries the program without one")
    torch.backends.cudnn.benchmark = not options.compile_only
    known, wanted = workloads(tiny=options.tiny), list(cases(options))
    if not wanted:
        parser.error("no case has what is asked for")
    meta = current_meta(device)
    print(records.in_words(meta), flush=True)
    if device.type == "cuda" and not options.compile_only:
        warm_up()
    if not options.compile_only:
        print(HEADER, flush=True)
    failures: list[str] = []
    for case in progress(wanted, "end to end", str):
        try:
            if options.compile_only:
                compile_only(case, known[case.network], device)
                continue
            record = measure(case, known[case.network], device, options.seconds)
        except (ImportError, RuntimeError) as error:
            failures.append(f"{case}: {error}")
            continue
        finally:
            gc.collect()
            torch.cuda.empty_cache()
        if is_wrong(record):
            failures.append(f"{case}: wrong, relative errors {record['error']}")
        print(format_row(record), flush=True)
        if options.json:
            records.save(options.json, merge(records.read(options.json), meta, [record]))
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=list(workloads()), help="repeatable; default: all networks")
    parser.add_argument("--pass", dest="pass_", action="append", choices=PASSES, help="repeatable; default: both")
    parser.add_argument("--run", action="append", choices=RUNS, help="repeatable; default: both")
    parser.add_argument("--precision", action="append", help="tf32, fp16; repeatable; default: both")
    parser.add_argument("--layout", action="append", choices=list(LAYOUTS), help="repeatable; default: NCDHW")
    parser.add_argument("--seconds", type=float, default=2.0, help="of timed calls for each case (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="merge the records into FILE, case by case")
    parser.add_argument("--from-record", type=Path, metavar="FILE", help="measure nothing, show the records in FILE")
    parser.add_argument("--device", default="cuda", help="default: cuda; on the CPU, precision is fp32")
    parser.add_argument("--tiny", action="store_true", help="networks and inputs in a size for tests")
    parser.add_argument(
        "--compile-only",
        action="store_true",
        help="time nothing, only fill inductor's cache; processes with a network each may do that side by side",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

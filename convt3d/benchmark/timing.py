"""Device time of one call: a CUDA graph replayed with a cold L2, the median of device events around each replay."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from .calls import tensors_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from .calls import Result


@dataclass(frozen=True)
class Repetitions:
    """How often to replay: ``budget_ms`` worth of calls, within [at_least, at_most]; ``slow_replays`` of slow calls."""

    budget_ms: float = 400.0
    at_least: int = 5
    at_most: int = 60
    slow_ms: float = 50.0
    slow_replays: int = 3

    def count(self, call_ms: float) -> int:
        """Replays for a call that takes about ``call_ms``."""
        if call_ms > self.slow_ms:
            return self.slow_replays
        return max(self.at_least, min(self.at_most, int(self.budget_ms / max(call_ms, 1e-3))))


QUICK = Repetitions(budget_ms=60.0, at_least=3, at_most=10, slow_replays=1)


class Timer:
    """Times calls on the current CUDA device. Holds the buffer whose writing evicts everything else from the L2."""

    def __init__(self, repetitions: Repetitions) -> None:
        self.device = torch.device("cuda", torch.cuda.current_device())
        self._repetitions = repetitions
        l2_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
        # Four times the L2: the write also takes long enough for the host to queue the replay behind it, so that no
        # launch latency falls between the events.
        self._flush = torch.empty(4 * max(l2_bytes, 32 << 20), dtype=torch.int8, device=self.device)

    def time(self, call: Callable[[], Result]) -> tuple[float, tuple[Tensor, ...]]:
        """Milliseconds of one call, and what its last replay wrote into outputs that held NaN beforehand.

        Whatever the call or its capture raises passes through.
        """
        graph, result = _capture(call)
        outputs = tensors_of(result)
        estimate = self._replay(graph, outputs, 1)[0]
        times = self._replay(graph, outputs, self._repetitions.count(estimate))
        # The graph's memory pool goes with the graph; the caller keeps copies of the outputs only.
        return statistics.median(times), tuple(output.clone(memory_format=torch.preserve_format) for output in outputs)

    def workspace_bytes(self, call: Callable[[], Result]) -> int | None:
        """What a call that was timed allocates beside its results, at its peak, by PyTorch's allocator.

        None where the results have their memory from before: so has whatever else such a call uses. Whatever the call
        raises passes through.
        """
        device = self.device
        call()  # what is allocated once and kept belongs to no call
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = self._requested_bytes("current")
        result = call()
        peak, kept = self._requested_bytes("peak"), self._requested_bytes("current")
        of_results = sum(output.numel() * output.element_size() for output in tensors_of(result))
        return peak - kept if kept - before >= of_results else None

    def _requested_bytes(self, when: str) -> int:
        """Without what the allocator adds to a request."""
        found: int = torch.cuda.memory_stats(self.device)[f"requested_bytes.all.{when}"]
        return found

    def _replay(self, graph: torch.cuda.CUDAGraph, outputs: tuple[Tensor, ...], count: int) -> list[float]:
        events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(count)]
        for start, stop in events:
            for output in outputs:
                output.fill_(float("nan"))
            self._flush.zero_()
            start.record()
            graph.replay()
            stop.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(stop) for start, stop in events]


def warm_up(seconds: float = 0.5) -> None:
    """Keep the device busy until its clocks have risen from idle."""
    matrix = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    elapsed_ms = 0.0
    while elapsed_ms < 1e3 * seconds:
        start.record()
        for _ in range(50):
            torch.mm(matrix, matrix)
        stop.record()
        stop.synchronize()
        elapsed_ms += start.elapsed_time(stop)


def _capture(call: Callable[[], Result]) -> tuple[torch.cuda.CUDAGraph, Result]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # also puts the current stream back where a capture fails
        for _ in range(2):  # algorithm search, compilation and lazy loading happen here, outside the capture
            call()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            result = call()
    torch.cuda.current_stream().wait_stream(stream)
    return graph, result

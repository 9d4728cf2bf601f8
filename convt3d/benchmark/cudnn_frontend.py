"""Plans of cuDNN as its frontend for Python (``pip install nvidia-cudnn-frontend``) gives them, where installed."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .calls import Operands, aten_call, tensors_of

if TYPE_CHECKING:
    from convt3d._layer import Layer

    from .calls import Call

_REPETITIONS = 3  # of a plan, in the search


def fastest_plan_call(layer: Layer, pass_: str, operands: Operands) -> Call:
    """A pass by the fastest of all plans that the frontend's heuristics name; a bias is added in a pass of its own.

    Raises:
        RuntimeError: the frontend is not installed, or none of its plans runs.
    """
    if importlib.util.find_spec("cudnn") is None:
        raise RuntimeError("nvidia-cudnn-frontend is not installed")
    return _Search(importlib.import_module("cudnn"), layer, pass_, operands).fastest()


class _Search:
    def __init__(self, cudnn: Any, layer: Layer, pass_: str, operands: Operands) -> None:
        self._cudnn = cudnn
        self._handle = _handle(operands.input.device)
        self._bias = operands.bias if pass_ == "forward" else None
        # Of the shape and the strides that PyTorch's own operator gives.
        (self._like,) = tensors_of(aten_call(layer, pass_, operands)())
        io = {torch.float32: "FLOAT", torch.float16: "HALF", torch.bfloat16: "BFLOAT16"}[operands.input.dtype]
        data_type, single = getattr(cudnn.data_type, io), cudnn.data_type.FLOAT
        self._graph = graph = cudnn.pygraph(
            io_data_type=data_type, intermediate_data_type=single, compute_data_type=single, handle=self._handle
        )
        self._tensors: dict[Any, Tensor] = {}

        def described(name: str, tensor: Tensor) -> Any:
            node = graph.tensor(name=name, dim=list(tensor.shape), stride=list(tensor.stride()), data_type=data_type)
            self._tensors[node] = tensor
            return node

        # A transposed convolution is a convolution's gradient of the input: what is the output here is its input.
        x, w, gy = operands.input, operands.weight, operands.grad_output
        sizes = {
            "padding": list(layer.padding),
            "stride": list(layer.stride),
            "dilation": list(layer.dilation),
        }
        if pass_ == "forward":
            output = graph.conv_dgrad(loss=described("input", x), filter=described("weight", w), **sizes)
        elif pass_ == "backward_input":
            output = graph.conv_fprop(image=described("grad", gy), weight=described("weight", w), **sizes)
        else:
            output = graph.conv_wgrad(image=described("grad", gy), loss=described("input", x), **sizes)
        output.set_output(True).set_data_type(data_type)
        self._output = output.set_dim(list(self._like.shape)).set_stride(list(self._like.stride()))
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        graph.deselect_numeric_notes(self._other_precisions(operands.input.dtype))
        graph.check_support()

    def fastest(self) -> Call:
        best: tuple[float, Call] | None = None
        reason = "no plan"
        for index in range(self._graph.get_execution_plan_count()):
            try:
                self._graph.build_plan_at_index(index)
                call = self._call(index)
                call()
                milliseconds = median(_milliseconds(call) for _ in range(_REPETITIONS))
            except Exception as failure:  # a plan that does not run; the frontend has errors of several kinds
                reason = str(failure)
                continue
            if best is None or milliseconds < best[0]:
                best = milliseconds, call
        if best is None:
            raise RuntimeError(f"no plan of the cuDNN frontend runs: {reason}")
        return best[1]

    def _other_precisions(self, dtype: torch.dtype) -> list[Any]:
        """Notes of plans that round float32's operands where PyTorch's switch does not allow it."""
        if dtype != torch.float32:
            return []
        notes = self._cudnn.numerical_note
        allowed = torch.backends.cudnn.allow_tf32
        return [notes.DOWN_CONVERT_INPUTS] if allowed else [notes.DOWN_CONVERT_INPUTS, notes.TENSOR_CORE]

    def _call(self, index: int) -> Call:
        workspace = torch.empty(
            max(1, self._graph.get_workspace_size_plan_at_index(index)), dtype=torch.uint8, device=self._like.device
        )

        def call() -> Tensor:
            result = torch.empty_like(self._like)
            stream = torch.cuda.current_stream(result.device).cuda_stream
            self._cudnn.set_stream(handle=self._handle, stream=stream)
            tensors = {**self._tensors, self._output: result}
            self._graph.execute_plan_at_index(tensors, workspace, index=index, handle=self._handle)
            return result if self._bias is None else result.add_(self._bias.view(1, -1, 1, 1, 1))

        return call


@functools.cache
def _handle(device: torch.device) -> Any:
    with torch.cuda.device(device):
        return importlib.import_module("cudnn").create_handle()


def _milliseconds(call: Call) -> float:
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop))

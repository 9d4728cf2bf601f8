"""The public function: a model or one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from torch import Tensor, nn

from convt3d._explain.call import Explanation, explain_call
from convt3d._explain.model import explain_model

if TYPE_CHECKING:
    from convt3d._arguments import Ints
    from convt3d._explain.report import ModelExplanation

Operator = Literal["forward", "input_grad", "weight_grad", "bias_grad", "backward"]


@overload
def explain(
    model: nn.Module,
    example_input: Tensor | tuple[Any, ...],
    /,
    *,
    device_capability: tuple[int, int] | None = None,
    measure: bool | None = None,
) -> ModelExplanation: ...
@overload
def explain(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    device_capability: tuple[int, int] | None = None,
    operator: Operator = "forward",
    relu: bool = False,
    grad_output: Tensor | None = None,
) -> Explanation: ...
def explain(
    input: Tensor | nn.Module,
    weight: Any,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
    *,
    device_capability: tuple[int, int] | None = None,
    measure: bool | None = None,
    operator: Operator = "forward",
    relu: bool = False,
    grad_output: Tensor | None = None,
) -> Explanation | ModelExplanation:
    """Which engine and plan a call, or every transposed 3D convolution of a model, gets, its limit and expected time.

    `explain(input, weight, ...)` is about one call of :func:`convt3d.conv_transpose3d`, or about one of its gradients.
    Nothing is computed and no GPU is needed: only shapes, strides, alignment and dtypes count, so meta tensors do.
    float32 follows PyTorch's TF32 switches as a call would. The limit is that of one NVIDIA H200 (4.25 TB/s; 133, 400,
    743 and 771 TFLOP/s in fp32, tf32, fp16 and bf16), whatever the device. The expected time is the device's; it was
    compared with measured times on an H200 only, and on any other GPU the explanation says that it is a model's. Both
    leave out the launch.

    `explain(model, example_input)` runs the model once on the example and explains each call that it makes, whether
    PyTorch or convt3d computes it at present. The run is without gradients and in eval mode, so that no BatchNorm
    updates its statistics; each module's mode, hooks and the random number generators are as before afterwards.
    What a `forward` changes in eval mode too stays changed. Under `torch.autocast`, the calls are those in its
    precision. On a GPU each forward is also measured: convt3d beside cuDNN (with the algorithm that is fastest
    there, and with PyTorch's ReLU and norm where convt3d's are fused), on random values in the same strides. The
    table has a column for the backward: the gradients that a training step would compute after the call, with a
    gradient in the output's strides.

    Args:
        input: as in :func:`convt3d.conv_transpose3d`, as all but the last two arguments, on any device; or the model.
        weight: of the same dtype and device as input; for a model, the example: a tensor, or a tuple of the
            positional arguments.
        bias: or None. For a model, this and the next five arguments are not accepted.
        stride: one int, or three for (depth, height, width); so `padding`, `output_padding` and `dilation`.
        padding: voxels cut off on either side of the output.
        output_padding: voxels added at its far side.
        groups: number of blocks that the channels are split into.
        dilation: voxels between the elements of the kernel.
        device_capability: compute capability, such as (9, 0) or (8, 0), of the GPU to choose an engine for, at least
            (7, 5); (9, 0) stands for an H200, (8, 0) for an A100. The answer is that of a build for it; where this
            one (or a release, where this one is for the CPU only) has no kernels for it, `device` says so. Default: the
            tensors' CUDA device, or an H200 for tensors elsewhere.
        measure: only for a model: whether to measure its calls. Default: where they run on a GPU and
            `device_capability` is not given.
        operator: of a call: ``"forward"``, ``"input_grad"``, ``"weight_grad"`` or ``"bias_grad"`` for a gradient, or
            ``"backward"`` for all of them, of the bias where there is one.
        relu: of a call: whether it is one of :func:`convt3d.conv_transpose3d_relu`, so that its gradients are masked.
        grad_output: of a gradient: the output's gradient, of which shape, strides and alignment count. Default: as the
            output.

    Returns:
        An :class:`Explanation`; of a model, a :class:`ModelExplanation`, which prints as a table.

    Raises:
        RuntimeError: an argument is invalid, as for the call itself; no build has kernels for the GPU; or the model has
            parameters that its first call has yet to make. Whatever the model raises passes through.
        TypeError: an argument has another type, or does not go with a model, or with a call.
    """
    if not isinstance(input, (nn.Module, Tensor)):
        raise TypeError(
            "convt3d.explain: the first argument must be a torch.nn.Module or, for one call, a Tensor, got "
            f"{type(input).__name__}"
        )
    if isinstance(input, Tensor):
        if measure is not None:
            raise TypeError("convt3d.explain: measure goes with a model; a single call is explained without running it")
        return explain_call(
            input,
            weight,
            bias,
            stride,
            padding,
            output_padding,
            groups,
            dilation,
            device_capability=device_capability,
            operator=operator,
            relu=relu,
            grad_output=grad_output,
        )
    of_a_call = (bias, stride, padding, output_padding, groups, dilation, operator, relu, grad_output)
    if of_a_call != (None, 1, 0, 0, 1, 1, "forward", False, None):
        raise TypeError(
            "convt3d.explain: with a model, only the example, device_capability and measure are arguments; several "
            "inputs of the model go into a tuple: explain(model, (x, y))"
        )
    return explain_model(input, weight, device_capability=device_capability, measure=measure)

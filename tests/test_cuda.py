"""What only a GPU shows: streams, graphs, a second device, memory, sizes past 32 bits."""

import copy
import gc
import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.nn.functional as F
from reference import LAYOUTS, PROBLEMS, Problem, assert_accurate, forward, gradients, poison
from torch import Tensor

import convt3d
from convt3d._explain.asking import only_engine

pytestmark = pytest.mark.cuda
ops = torch.ops.convt3d

PROBLEM = PROBLEMS[-1]


def _train_step(problem: Problem, *tensors: Tensor, relu: bool = True) -> list[Tensor]:
    """Output and gradients."""
    operator = convt3d.conv_transpose3d_relu if relu else convt3d.conv_transpose3d
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    output = operator(*leaves, **problem.parameters)
    return [output.detach(), *torch.autograd.grad(output.sum(), leaves)]


def test_work_is_ordered_on_the_current_stream() -> None:
    """Each stream makes its input late, so that work on any other stream would read what is there before."""
    problem = PROBLEM
    streams = [torch.cuda.Stream() for _ in range(4)]
    tensors = problem.tensors(torch.float32, "cuda", integers=True)
    inputs = [tensors[0] + index for index in range(len(streams))]
    expected = [_train_step(problem, input, *tensors[1:]) for input in inputs]
    torch.cuda.synchronize()
    actual = []
    for stream, input in zip(streams, inputs, strict=True):
        with torch.cuda.stream(stream):
            late = torch.full_like(input, float("nan"))
            torch.cuda._sleep(20_000_000)
            late.copy_(input)
            actual.append(_train_step(problem, late, *tensors[1:]))
    torch.cuda.synchronize()
    for mine, other in zip(actual, expected, strict=True):
        for result, wanted in zip(mine, other, strict=True):
            assert torch.equal(result, wanted)


@pytest.mark.parametrize("problem", [PROBLEMS[0], PROBLEMS[3], PROBLEMS[7], PROBLEMS[-1]], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_graph_of_a_training_step(problem: Problem, dtype: torch.dtype) -> None:
    static = problem.tensors(dtype, "cuda", integers=True)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        _train_step(problem, *static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = _train_step(problem, *static)
    for _ in range(3):
        fresh = problem.tensors(dtype, "cuda", integers=True)
        for old, new in zip(static, fresh, strict=True):
            old.copy_(new)
        for result in results:
            result.fill_(float("nan"))
        graph.replay()
        for result, wanted in zip(results, _train_step(problem, *fresh), strict=True):
            assert torch.equal(result, wanted)


def test_graphed_module() -> None:
    module = convt3d.nn.ConvTranspose3dReLU(8, 6, (3, 2, 4), stride=2, groups=2, device="cuda")
    # A copy: a backward on the default stream ties the accumulation to it, and a capture may not wait there.
    eager = copy.deepcopy(module)
    sample = torch.randn(2, 8, 5, 4, 6, device="cuda", requires_grad=True)
    input = torch.randn_like(sample).requires_grad_()
    expected = eager(input)
    expected.backward(torch.ones_like(expected))  # dense as the graph's: expanded ones have a plan of their own
    graphed = torch.cuda.make_graphed_callables(module, (sample,))
    output = graphed(input)
    output.backward(torch.ones_like(output))
    assert torch.equal(output, expected)
    for parameter, wanted in zip(module.parameters(), eager.parameters(), strict=True):
        assert parameter.grad is not None
        assert wanted.grad is not None
        assert torch.equal(parameter.grad, wanted.grad)


def test_a_thread_that_has_launched_nothing() -> None:
    """It has no context yet: what a driver refuses there has to work all the same. Autograd's thread can be such."""
    problem = Problem("", 2, 64, 48, (5, 6, 16), (3, 3, 3), padding=(1, 1, 1))
    input, weight, bias = problem.tensors(torch.float16, "cuda", "NDHWC")

    def result() -> Tensor:
        with torch.no_grad():
            return convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)

    expected = result()
    result()  # leaves memory that the thread need not ask the device for
    with ThreadPoolExecutor(1) as pool:
        assert torch.equal(pool.submit(result).result(), expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second CUDA device")
def test_second_device() -> None:
    """The tensors' device counts, not the current one, which stays as it was."""
    problem = PROBLEM
    tensors = problem.tensors(torch.float32, "cuda:1", integers=True)
    assert torch.cuda.current_device() == 0
    results = _train_step(problem, *tensors)
    assert torch.cuda.current_device() == 0
    expected = _train_step(problem, *(tensor.to("cuda:0") for tensor in tensors))
    for result, wanted in zip(results, expected, strict=True):
        assert result.device == torch.device("cuda:1")
        assert torch.equal(result.cpu(), wanted.cpu())


@pytest.mark.parametrize("way", ["function", "operator", "inference"])
def test_out_of_memory(way: str) -> None:
    """The process goes on, and nothing of the attempt stays allocated."""
    input = torch.randn(1, 1, 64, 64, 64, device="cuda")
    weight = torch.randn(1, 64, 1, 1, 1, device="cuda")
    gc.collect()  # what other tests left
    before = torch.cuda.memory_allocated()
    operator = ops.conv_transpose3d if way == "operator" else convt3d.conv_transpose3d
    with torch.inference_mode(way == "inference"), pytest.raises(torch.OutOfMemoryError, match="out of memory"):
        operator(input, weight, None, 16)  # 263 GB
    assert torch.cuda.memory_allocated() == before
    small = convt3d.conv_transpose3d(input[..., :3, :3, :3], weight, None, 2)
    torch.testing.assert_close(small, F.conv_transpose3d(input[..., :3, :3, :3], weight, None, 2))


@pytest.mark.parametrize("allowed", [False, True], ids=["ieee", "tf32"])
def test_tf32_switch_is_read_at_every_call(allowed: bool) -> None:
    """float32 is never less accurate than what the switch allows: TF32 rounds operands to 11 bits."""
    problem = Problem("", 2, 64, 48, (5, 6, 17), (3, 3, 3), (2, 1, 2), (1, 1, 0))
    input, weight, bias = problem.tensors(torch.float32, "cuda")
    torch.backends.cudnn.allow_tf32 = allowed
    output = convt3d.conv_transpose3d(input, weight, bias, **problem.parameters)
    torch.backends.cudnn.allow_tf32 = False
    expected = forward(problem, input, weight, bias)
    error = ((output - expected).norm() / expected.norm()).item()
    assert error <= 1.2 * (3.5e-4 if allowed else 3e-7)


@pytest.mark.slow
@pytest.mark.device_memory
def test_more_than_two_billion_elements() -> None:
    """Input, output and their gradients past 2**31 elements; a kernel of depth 1 lets the reference go by slabs."""
    problem = Problem("", 2, 3, 3, (560, 800, 810), (1, 2, 3), padding=(0, 1, 1))
    input, weight, bias = problem.tensors(torch.bfloat16, "cuda", integers=True)
    assert input.numel() > 2**31
    output = convt3d.conv_transpose3d_relu(input, weight, bias, **problem.parameters)
    assert output.numel() > 2**31

    def slab(tensor: Tensor, image: int, depth: int) -> Tensor:
        return tensor[image : image + 1, :, depth : depth + 2]

    def rounded(exact: Tensor) -> Tensor:
        """Sums of integers, whatever algorithm PyTorch took to get near them."""
        return exact.round().bfloat16()

    places = [(0, 0), (0, 557), (1, 0), (1, 200), (1, 558)]
    for image, depth in places:
        part = slab(input, image, depth)
        expected = F.conv_transpose3d(part.double(), weight.double(), bias.double(), **problem.parameters).relu()
        assert torch.equal(slab(output, image, depth), rounded(expected))

    grad_input = ops.conv_transpose3d_input_grad(output, weight, output, **problem.parameters)
    for image, depth in places:
        parts = (slab(tensor, image, depth) for tensor in (output, input))
        wanted = gradients(problem, *parts, weight, slab(output, image, depth))[0]
        assert torch.equal(slab(grad_input, image, depth), rounded(wanted))
    del grad_input

    grad_weight = ops.conv_transpose3d_weight_grad(output, input, problem.kernel_size, output, **problem.parameters)
    grad_bias = ops.conv_transpose3d_bias_grad(output, output)
    sums = [torch.zeros_like(weight, dtype=torch.float64), torch.zeros_like(bias, dtype=torch.float64)]
    magnitude = torch.zeros_like(sums[0])
    for image in range(problem.batch):
        for depth in range(0, 560, 28):
            here = (slice(image, image + 1), slice(None), slice(depth, depth + 28))
            parts = gradients(problem, output[here], input[here], weight)
            sums[0] += parts[1]
            sums[1] += parts[2]
            magnitude += gradients(problem, output[here], input[here].abs(), weight)[1]
    assert_accurate(grad_weight, sums[0], magnitude, problem.weight_grad_terms)
    assert_accurate(grad_bias, sums[1], sums[1], output[:, 0].numel())


# Each slab of the depth by itself: their kernels have a depth of 1.
_LARGE = {
    "mma": Problem("stride_1", 2, 8, 8, (240, 760, 740), (1, 2, 3), padding=(0, 1, 1)),
    "mma, strided": Problem("kernel_is_stride", 2, 8, 8, (240, 380, 370), (1, 2, 2), (1, 2, 2)),
    "depthwise": Problem("depthwise", 2, 8, 8, (240, 380, 370), (1, 3, 3), (1, 2, 2), (0, 1, 1), (0, 1, 1), groups=8),
    "simt": Problem("grouped", 1, 6, 4, (600, 480, 470), (1, 2, 2), (1, 2, 2), groups=2),
}


@pytest.mark.slow
@pytest.mark.device_memory
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", _LARGE)
def test_gradients_of_more_than_two_billion_elements(name: str, layout: str) -> None:
    """grad_output is half of a concatenation's, which has twice as many. A mask where the layout is NDHWC."""
    problem = _LARGE[name]
    assert math.prod(problem.output_shape) > 2**31
    input, weight, _ = problem.tensors(torch.bfloat16, "cuda", layout, integers=True)
    grad_output = _half_of_a_concatenation(problem.grad_output(torch.bfloat16, "cuda", layout, integers=True), layout)
    relu_output = grad_output if layout == "NDHWC" else None
    with only_engine(name.split(",")[0]):
        by_input, by_weight, _ = ops.conv_transpose3d_backward(
            grad_output, input, weight, relu_output, **problem.parameters, output_mask=[True, True, False]
        )
    expected = torch.zeros_like(weight, dtype=torch.float64)
    magnitude = torch.zeros_like(expected)
    for image in range(problem.batch):
        for depth in range(0, problem.input_size[0], 20):
            here = (slice(image, image + 1), slice(None), slice(depth, depth + 20))
            mask = None if relu_output is None else relu_output[here]
            part = gradients(problem, grad_output[here], input[here], weight, mask)
            assert torch.equal(by_input[here], part[0].round().bfloat16())
            expected += part[1]
            magnitude += gradients(problem, grad_output[here].abs(), input[here].abs(), weight, mask)[1]
    assert_accurate(by_weight, expected, magnitude, problem.weight_grad_terms)


def _half_of_a_concatenation(dense: Tensor, layout: str) -> Tensor:
    """The same values as a slice of twice as many channels, all NaN around it."""
    batch, channels, *size = dense.shape
    shape = (batch, 2 * channels, *size)
    larger = torch.empty(shape, dtype=dense.dtype, device=dense.device, memory_format=LAYOUTS[layout]).fill_(math.nan)
    half = larger[:, channels // 2 : channels // 2 + channels]
    half.copy_(dense)
    return half


def test_results_do_not_depend_on_what_memory_holds() -> None:
    """NaN in the memory that results and workspaces get must not show."""
    problem = Problem("", 2, 16, 24, (4, 5, 33), (3, 3, 2), (2, 1, 2), (1, 0, 0), (1, 0, 1), groups=2)
    tensors = problem.tensors(torch.float32, "cuda", integers=True)
    first = _train_step(problem, *tensors)
    for _ in range(3):
        poison(problem.output_shape, problem.input_shape, problem.weight_shape)
        for result, wanted in zip(_train_step(problem, *tensors), first, strict=True):
            assert torch.equal(result, wanted)

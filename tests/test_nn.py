"""The modules: drop-in replacements of torch.nn's."""

import copy
import inspect
import io
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import convt3d

ARGUMENTS = [
    ((4, 6, 3), {}),
    ((4, 6, (3, 2, 4), (2, 1, 3), (1, 0, 2), (1, 0, 2), 2, False, (1, 2, 1)), {}),
    ((4, 6), {"kernel_size": 2, "stride": 2, "bias": False}),
    ((2, 4, (2, 3, 1)), {"dtype": torch.float64, "groups": 2, "padding_mode": "zeros"}),
]
PAIRS = [
    (convt3d.nn.ConvTranspose3d, lambda *args, **kwargs: nn.ConvTranspose3d(*args, **kwargs)),
    (
        convt3d.nn.ConvTranspose3dReLU,
        lambda *args, **kwargs: nn.Sequential(nn.ConvTranspose3d(*args, **kwargs), nn.ReLU()),
    ),
]
MODULES = [ours for ours, _ in PAIRS]


def _pair(index: int, *args: object, **kwargs: object) -> tuple[nn.Module, nn.Module]:
    """Our module and PyTorch's, from the same seed."""
    modules = []
    for make in PAIRS[index]:
        torch.manual_seed(7)
        modules.append(make(*args, **kwargs))
    return modules[0], modules[1]


def test_constructor_is_that_of_pytorch() -> None:
    expected = inspect.signature(nn.ConvTranspose3d.__init__)
    lazy = inspect.signature(nn.LazyConvTranspose3d.__init__)
    for module_type in MODULES:
        assert issubclass(module_type, nn.ConvTranspose3d)
        assert inspect.signature(module_type.__init__) == expected
    for module_type in (convt3d.nn.LazyConvTranspose3d, convt3d.nn.LazyConvTranspose3dReLU):
        assert inspect.signature(module_type.__init__) == lazy


@pytest.mark.parametrize(("args", "kwargs"), ARGUMENTS)
@pytest.mark.parametrize("index", [0, 1], ids=["linear", "relu"])
def test_same_as_pytorch(index: int, args: tuple[object, ...], kwargs: dict[str, object], device: str) -> None:
    ours, theirs = (module.to(device) for module in _pair(index, *args, **kwargs))
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
    dtype = next(ours.parameters()).dtype
    input = torch.randn(2, args[0], 3, 4, 5, device=device, dtype=dtype)  # type: ignore[call-overload]
    for mode in (True, False):
        results = []
        for module in (ours.train(mode), theirs.train(mode)):
            module.zero_grad()
            leaf = input.clone().requires_grad_()
            output = module(leaf)
            output.sin().sum().backward()
            results.append([output, leaf.grad, *(parameter.grad for parameter in module.parameters())])
        torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_state_dict_is_that_of_pytorch(device: str) -> None:
    theirs = nn.ConvTranspose3d(4, 6, (3, 2, 4), 2, groups=2, device=device)
    for module_type in MODULES:
        ours = module_type(4, 6, (3, 2, 4), 2, groups=2, device=device)
        ours.load_state_dict(theirs.state_dict())
        assert list(ours.state_dict()) == list(theirs.state_dict())
        nn.ConvTranspose3d(4, 6, (3, 2, 4), 2, groups=2, device=device).load_state_dict(ours.state_dict())
        input = torch.randn(1, 4, 2, 3, 4, device=device)
        expected = theirs(input).relu() if module_type is convt3d.nn.ConvTranspose3dReLU else theirs(input)
        torch.testing.assert_close(ours(input), expected, rtol=1e-4, atol=1e-5)


def test_repr_and_attributes() -> None:
    module = convt3d.nn.ConvTranspose3dReLU(4, 6, (3, 2, 4), stride=(2, 1, 3), groups=2)
    assert repr(module) == "ConvTranspose3dReLU(4, 6, kernel_size=(3, 2, 4), stride=(2, 1, 3), groups=2)"
    assert module.kernel_size == (3, 2, 4)
    assert module.transposed


@pytest.mark.parametrize("module_type", MODULES)
def test_unbatched_input_and_output_size(module_type: type[nn.Module], device: str) -> None:
    module = module_type(3, 2, 3, stride=2, device=device)
    input = torch.randn(2, 3, 4, 5, 6, device=device)
    torch.testing.assert_close(module(input[1]), module(input)[1])
    for output_size in ([9, 12, 14], [2, 2, 9, 12, 14]):
        assert module(input, output_size).shape == (2, 2, 9, 12, 14)
    torch.testing.assert_close(module(input[1], output_size=[9, 12, 14]), module(input, [9, 12, 14])[1])
    with pytest.raises(ValueError, match="requested an output size"):
        module(input, [9, 12, 15])


@pytest.mark.parametrize("module_type", MODULES)
def test_padding_mode(module_type: type[nn.Module]) -> None:
    with pytest.raises(ValueError, match='Only "zeros" padding mode'):
        module_type(3, 2, 3, padding_mode="reflect")


@pytest.mark.parametrize(
    ("lazy_type", "module_type"),
    [
        (convt3d.nn.LazyConvTranspose3d, convt3d.nn.ConvTranspose3d),
        (convt3d.nn.LazyConvTranspose3dReLU, convt3d.nn.ConvTranspose3dReLU),
    ],
)
@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
def test_lazy(lazy_type: type[nn.Module], module_type: type[nn.Module], batched: bool, device: str) -> None:
    torch.manual_seed(7)
    lazy = lazy_type(6, (3, 2, 4), stride=2, groups=2, device=device)
    input = torch.randn(*([2] if batched else []), 4, 2, 3, 4, device=device)
    torch.manual_seed(7)
    first = lazy(input)
    assert type(lazy) is module_type
    assert lazy.in_channels == 4
    torch.manual_seed(7)
    whole = module_type(4, 6, (3, 2, 4), stride=2, groups=2, device=device)
    assert torch.equal(first, whole(input))
    assert torch.equal(lazy(input), first)


def test_lazy_first_call_runs_our_operator() -> None:
    """torch.nn's would give negative numbers."""
    lazy = convt3d.nn.LazyConvTranspose3dReLU(2, 3)
    assert (lazy(torch.randn(1, 4, 2, 2, 2)) >= 0).all()


@pytest.mark.parametrize("module_type", MODULES)
def test_deepcopy_and_pickle(module_type: type[nn.Module], device: str) -> None:
    module = module_type(4, 6, (3, 2, 4), stride=2, groups=2, device=device)
    input = torch.randn(1, 4, 2, 3, 4, device=device)
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(buffer, weights_only=False)):
        assert type(other) is module_type
        assert torch.equal(other(input), module(input))
        with torch.no_grad():
            other.weight.add_(1)
        assert not torch.equal(other.weight, module.weight)


@pytest.mark.parametrize("parametrization", [parametrizations.spectral_norm, parametrizations.weight_norm])
@pytest.mark.parametrize("index", [0, 1], ids=["linear", "relu"])
def test_parametrizations(parametrization: object, index: int, device: str) -> None:
    ours, theirs = (module.to(device) for module in _pair(index, 4, 6, (3, 2, 4), stride=2, groups=2))
    input = torch.randn(2, 4, 2, 3, 4, device=device)
    results: list[list[Tensor | None]] = []
    for module in (ours, theirs):
        target = module[0] if isinstance(module, nn.Sequential) else module
        torch.manual_seed(3)
        parametrization(target)  # type: ignore[operator]
        output = module(input)
        output.sin().sum().backward()
        results.append([output, *(parameter.grad for parameter in target.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_symbolic_trace() -> None:
    """torch.fx sees the layer as one call of the package's function."""
    module = nn.Sequential(convt3d.nn.ConvTranspose3dReLU(4, 6, (3, 2, 4), stride=2, groups=2))
    traced = torch.fx.symbolic_trace(module)
    assert convt3d.conv_transpose3d_relu in [node.target for node in traced.graph.nodes]
    input = torch.randn(2, 4, 3, 4, 5)
    assert torch.equal(traced(input), module(input))


def test_on_the_meta_device() -> None:
    module = convt3d.nn.ConvTranspose3dReLU(4, 6, (3, 2, 4), stride=2, groups=2, device="meta")
    assert module(torch.empty(2, 4, 3, 4, 5, device="meta")).shape == (2, 6, 7, 8, 12)


def test_channels_last_module(device: str) -> None:
    module = convt3d.nn.ConvTranspose3d(4, 6, (3, 2, 4), stride=2).to(device, memory_format=torch.channels_last_3d)
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    assert module(input).is_contiguous(memory_format=torch.channels_last_3d)

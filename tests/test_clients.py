"""Networks of other packages, converted: the same numbers, checkpoints and tools as before."""

import copy
import functools
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

pytest.importorskip("monai", reason="the extra `clients` is not installed")

from client_networks import CLIENTS, Client, nnunet
from monai.networks import nets

import convt3d

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[1]
BY_NAME = {client.name: client for client in CLIENTS}

# Networks that torch.jit.script refuses before the conversion as well.
UNSCRIPTABLE = {
    *("MONAI DynUNet", "MONAI MedNeXt-S", "MONAI SwinUNETR"),
    *("nnU-Net PlainConvUNet", "nnU-Net ResidualEncoderUNet"),
}


@functools.cache
def _why_no_nnunet() -> str:
    try:
        nnunet("PlainConvUNet")
    except (ImportError, RuntimeError) as error:  # the second: torchvision is for another build of torch
        return f"dynamic-network-architectures cannot be imported: {error}"
    return ""


def _skip_without_nnunet() -> None:
    if reason := _why_no_nnunet():
        pytest.skip(reason)


@functools.cache
def _small(name: str) -> nn.Module:
    if "nnU-Net" in name:
        _skip_without_nnunet()
    torch.manual_seed(1)
    return BY_NAME[name].small()


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    value: Client = request.param
    return value


@pytest.fixture
def original(client: Client) -> nn.Module:
    return copy.deepcopy(_small(client.name))


@pytest.fixture
def model(original: nn.Module) -> nn.Module:
    model = copy.deepcopy(original)
    convt3d.convert(model)
    return model


def _tensors(output: Tensor | list[Tensor] | tuple[Tensor, ...]) -> list[Tensor]:
    return [output] if isinstance(output, Tensor) else list(output)


def _results(model: nn.Module, input: Tensor) -> tuple[list[Tensor], dict[str, Tensor | None]]:
    """Outputs and gradients of a training step, with the same dropout each time."""
    torch.manual_seed(2)
    model.train().zero_grad()
    leaf = input.clone().requires_grad_()
    outputs = _tensors(model(leaf))
    sum(output.square().mean() for output in outputs).backward()  # type: ignore[union-attr]
    return outputs, {"input": leaf.grad, **{name: p.grad for name, p in model.named_parameters()}}


def _assert_same(model: nn.Module, original: nn.Module, input: Tensor) -> None:
    (outputs, gradients), (expected, expected_gradients) = _results(model, input), _results(original, input)
    torch.testing.assert_close(outputs, expected, rtol=1e-3, atol=1e-4)
    assert gradients.keys() == expected_gradients.keys()
    largest = max(float(g.abs().max()) for g in expected_gradients.values() if g is not None)
    for name, gradient in gradients.items():
        wanted = expected_gradients[name]
        assert (gradient is None) == (wanted is None), name
        if wanted is not None:
            error = float((gradient - wanted).abs().max())
            assert error <= 1e-3 * float(wanted.abs().max()) + 1e-5 * largest, f"{name}: {error}"


def _classes(model: nn.Module) -> list[type[nn.Module]]:
    return [type(module) for module in model.modules()]


def test_training_step(client: Client, original: nn.Module, model: nn.Module) -> None:
    layers = [m for m in model.modules() if isinstance(m, nn.ConvTranspose3d)]
    assert layers
    assert all(isinstance(layer, convt3d.nn.ConvTranspose3d) for layer in layers)
    assert list(model.state_dict()) == list(original.state_dict())
    _assert_same(model, original, client.input())
    convt3d.revert(model)
    assert _classes(model) == _classes(original)


def test_inference_and_state_dict(client: Client, original: nn.Module, model: nn.Module) -> None:
    """A checkpoint of the original goes into the converted model and back, and folding keeps the numbers."""
    torch.manual_seed(5)
    with torch.no_grad():
        for module in original.modules():
            if isinstance(module, nn.BatchNorm3d):
                module.running_mean.uniform_(-0.2, 0.2)  # type: ignore[union-attr, operator]
                module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr, operator]
        for parameter in original.parameters():
            parameter.mul_(1.1)
        model.load_state_dict(original.state_dict())
        input = client.input()[:1]
        expected = _tensors(original.eval()(input))
        torch.testing.assert_close(_tensors(model.eval()(input)), expected, rtol=1e-3, atol=1e-4)
        report = convt3d.convert(model, fold_batchnorm=True)
        assert bool(report.names("folded")) == any(name in client.name for name in ("VNet", "BatchNorm", "3D-GAN"))
        torch.testing.assert_close(_tensors(model(input)), expected, rtol=1e-3, atol=1e-4)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    back = copy.deepcopy(_small(client.name))
    back.load_state_dict(torch.load(buffer))
    for name, value in original.state_dict().items():
        assert torch.equal(back.state_dict()[name], value)


def test_compiled(client: Client, model: nn.Module, fresh_compiler: None) -> None:
    input = client.input()[:1]
    with torch.no_grad():
        compiled = torch.compile(model.eval(), backend="eager")
        torch.testing.assert_close(_tensors(compiled(input)), _tensors(model(input)), rtol=1e-3, atol=1e-4)


def test_scripted(client: Client, original: nn.Module, model: nn.Module) -> None:
    if client.name in UNSCRIPTABLE:
        with pytest.raises((RuntimeError, torch.jit.frontend.FrontendError)):
            torch.jit.script(original)
        pytest.skip("torch.jit.script refuses the original as well")
    input = client.input()[:1]
    with torch.no_grad():
        scripted = torch.jit.script(model.eval())
        torch.testing.assert_close(_tensors(scripted(input)), _tensors(original.eval()(input)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["nnU-Net PlainConvUNet", "nnU-Net ResidualEncoderUNet"])
def test_deep_supervision_switched_off_after_the_conversion(name: str) -> None:
    """As nnU-Net does for inference."""
    original = copy.deepcopy(_small(name)).eval()
    model = copy.deepcopy(original)
    convt3d.convert(model)
    input = BY_NAME[name].input()
    with torch.no_grad():
        assert len(model(input)) == 2
        for network in (model, original):
            network.decoder.deep_supervision = False
        torch.testing.assert_close(model(input), original(input), rtol=1e-3, atol=1e-4)


# A reentrant checkpoint gives no gradients to a list of outputs, as nnU-Net's networks return.
@pytest.mark.parametrize(
    ("name", "use_reentrant"), [("MONAI DynUNet", False), ("MONAI DynUNet", True), ("nnU-Net PlainConvUNet", False)]
)
def test_checkpointed(name: str, use_reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = copy.deepcopy(_small(name))

        def forward(self, x: Tensor) -> list[Tensor]:
            outputs: list[Tensor] = checkpoint(self.network, x, use_reentrant=use_reentrant)
            return outputs

    original = Checkpointed()
    model = copy.deepcopy(original)
    convt3d.convert(model)
    _assert_same(model, original, BY_NAME[name].input()[:1])


def test_networks_that_checkpoint_themselves() -> None:
    torch.manual_seed(1)
    original = nets.SwinUNETR(1, 2, feature_size=12, depths=(1,) * 4, num_heads=(1,) * 4, use_checkpoint=True)
    model = copy.deepcopy(original)
    convt3d.convert(model)
    _assert_same(model, original, BY_NAME["MONAI SwinUNETR"].input())


def test_nnunet_with_relu_and_without_norm() -> None:
    """A ReLU follows every layer only after the concatenation, so none is fused."""
    _skip_without_nnunet()
    network = nnunet("PlainConvUNet")(1, 3, (4, 8, 8), nn.Conv3d, 3, (1, 2, 2), 1, 2, 1, nonlin=nn.ReLU)
    report = convt3d.convert(network)
    assert [layer.action for layer in report.layers] == ["converted", "converted"]


@pytest.fixture
def scripts_on_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    yield
    sys.modules.pop("clients_table", None)


def test_table_of_the_documentation(scripts_on_path: None) -> None:
    """docs/clients.md is what scripts/clients_table.py prints."""
    _skip_without_nnunet()
    import clients_table

    assert clients_table.table() in (ROOT / "docs" / "clients.md").read_text()

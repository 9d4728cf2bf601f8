"""torch.export and AOTInductor packages."""

import shutil
from pathlib import Path

import pytest
import torch
from reference import run_python
from torch import Tensor, nn

import convt3d


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = convt3d.nn.ConvTranspose3d(4, 6, (3, 2, 4), (2, 1, 3), (1, 0, 2), (1, 0, 2), 2, True, (1, 2, 1))
        self.up_relu = convt3d.nn.ConvTranspose3dReLU(6, 3, 2, stride=2)

    def forward(self, input: Tensor) -> Tensor:
        output: Tensor = self.up_relu(self.up(input))
        return output


@pytest.fixture
def network(device: str) -> nn.Module:
    return _Network().eval().to(device)


LOADED_EXPORT = """
import sys
import torch
import convt3d

program, cases = sys.argv[1:]
module = torch.export.load(program).module()
for input, expected in torch.load(cases):
    assert torch.equal(module(input), expected)
print("equal")
"""


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_export_saved_and_loaded_in_a_new_process(
    network: nn.Module, dynamic: bool, device: str, tmp_path: Path
) -> None:
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    dims = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 4: torch.export.Dim.DYNAMIC}
    program = torch.export.export(network, (input,), dynamic_shapes=(dims,) if dynamic else None)
    targets = {str(node.target) for node in program.graph.nodes}
    assert {"convt3d.conv_transpose3d.default", "convt3d.conv_transpose3d_relu.default"} <= targets
    torch.export.save(program, tmp_path / "program.pt2")
    inputs = [input, torch.randn(3, 4, 5, 4, 2, device=device)] if dynamic else [input]
    with torch.no_grad():
        torch.save([(case, network(case)) for case in inputs], tmp_path / "cases.pt")
    assert run_python(LOADED_EXPORT, str(tmp_path / "program.pt2"), str(tmp_path / "cases.pt")) == "equal"


def test_exported_program_trains(network: nn.Module, device: str) -> None:
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    network(input).sum().backward()
    expected = [parameter.grad for parameter in network.parameters()]
    network.zero_grad()
    module = torch.export.export(network, (input,)).module()
    module(input).sum().backward()
    torch.testing.assert_close([parameter.grad for parameter in module.parameters()], expected)


def test_run_decompositions_keeps_the_operators(network: nn.Module, device: str) -> None:
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    program = torch.export.export(network, (input,)).run_decompositions()
    with torch.no_grad():
        assert torch.equal(program.module()(input), network(input))


LOADED_PACKAGE = """
import sys
import torch
import torch._inductor.codecache  # torch 2.10 uses it while loading, but does not import it
import convt3d

package, cases = sys.argv[1:]
model = torch._inductor.aoti_load_package(package)
for input, expected in torch.load(cases):
    torch.testing.assert_close(model(input), expected)
print("close")
"""


# A package brings its own std::regex code; without -Bsymbolic the loader may join it with libtorch's, built by another
# compiler, and the package, of any model, then crashes while it is loaded (seen with torch 2.11 and GCC 13).
COMPILER = """#!/bin/sh
case " $* " in
  *" -shared "*) exec {compiler} "$@" -Wl,-Bsymbolic ;;
  *) exec {compiler} "$@" ;;
esac
"""


@pytest.mark.slow
def test_aot_inductor_package_loaded_in_a_new_process(network: nn.Module, device: str, tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("AOTInductor needs a C++ compiler")
    wrapper = tmp_path / "c++"
    wrapper.write_text(COMPILER.format(compiler=compiler))
    wrapper.chmod(0o755)
    input = torch.randn(2, 4, 3, 4, 5, device=device)
    with torch.no_grad(), torch._inductor.config.patch({"cpp.cxx": (None, str(wrapper))}):
        program = torch.export.export(network, (input,), dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=8)},))
        package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "network.pt2"))
        cases = [torch.randn(batch, 4, 3, 4, 5, device=device) for batch in (2, 5)]
        torch.save([(case, network(case)) for case in cases], tmp_path / "cases.pt")
    assert run_python(LOADED_PACKAGE, package, str(tmp_path / "cases.pt")) == "close"

"""Converts the transposed convolutions of a model, and back."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

import convt3d.nn
from convt3d._convert import folded, normed
from convt3d._convert.graph import ModelGraph, NotProvedError
from convt3d._convert.layers import (
    OURS,
    OWN_ATTRIBUTES,
    PARTNERS,
    PLAIN,
    WITH_RELU,
    WITHOUT_RELU,
    FusedReLU,
    carry,
    core_class,
    separate,
    set_core_class,
    unsupported,
)
from convt3d._convert.measured import LayerTimes, measure_layers
from convt3d._convert.report import Layer, Report, check_model
from convt3d._wrappers import unwrapped


def convert(
    model: nn.Module,
    *,
    fuse: bool = True,
    fold_batchnorm: bool = False,
    example: Tensor | tuple[Any, ...] | None = None,
) -> Report:
    """Let convt3d compute every `torch.nn.ConvTranspose3d` of a model, in place.

    The modules stay the same objects with another class: parameters, their names, the state_dict, hooks, tied
    weights, parametrizations and the state of optimizers stay valid. A lazy module gets the package's class at its
    first call. Subclasses with their own `forward` are left alone. :func:`revert` is the way back.

    Modules that directly follow are fused: a ReLU; a GroupNorm or an InstanceNorm3d without running statistics, with a
    ReLU between convolution and norm and a ReLU or LeakyReLU behind the norm, where these are there. That is done where
    the structure of the model and the source of its `forward` methods prove, for every branch, that nothing else reads
    the values in between; the fused modules keep their parameters and pass on what they get. Code that calls parts of
    the model other than through its `forward` is not seen: use ``fuse=False`` where there is such code. A hook added to
    a fused module later separates them again, with a warning.

    Args:
        model: the model, or one layer.
        fuse: whether to fuse activations and norms.
        fold_batchnorm: whether to fold, in eval mode, a BatchNorm3d that directly follows, and a ReLU after it. A
            folded layer refuses to train. The state_dict stays as it was, names and values. Changed parameters are
            folded again at the next call, but for what is written through `parameter.data`: convert again after that.
        example: an input of the model, or a tuple of its positional arguments, on the model's device. The model runs
            once on it, in eval mode and without gradients, and each layer's calls are measured with PyTorch's and with
            convt3d's kernels: the forward, or forward and all gradients where the layer is in training mode. On a GPU
            only layers where convt3d is faster are converted; on the CPU, where convt3d calls PyTorch's kernels, all
            are. The report has both times.

    Returns:
        What was done with each layer; `print` shows it as a table.
    """
    check_model(model, "convt3d.convert")
    times = None if example is None else measure_layers(model, example)
    model, prefix = unwrapped(model)
    layers = {}
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            if module.original_name.endswith("ConvTranspose3d"):
                layers[name] = Layer(prefix + name, "left", note="it is TorchScript; convert before torch.jit.script")
        elif isinstance(module, folded.FoldedConvTranspose3d):
            module.fold()
            layers[name] = Layer(prefix + name, "kept", note="folded again from its present parameters")
        elif isinstance(module, nn.ConvTranspose3d):
            layers[name] = _convert_layer(prefix + name, module, times)
    if fuse or fold_batchnorm:
        modules = dict(model.named_modules())
        graph, names = ModelGraph(model, OWN_ATTRIBUTES), {module: prefix + name for name, module in modules.items()}
        for name, layer in layers.items():
            module = modules[name]
            if layer.action in ("converted", "kept") and core_class(module) in WITH_RELU:
                layers[name] = _fuse(layer, module, graph, names, fuse=fuse, fold_batchnorm=fold_batchnorm)
    return Report(tuple(layers.values()))


def revert(model: nn.Module) -> Report:
    """Undo :func:`convert`, in place: all modules are PyTorch's again, and every fused module works again.

    A :class:`convt3d.nn.ConvTranspose3dReLU` that was not made by `convert` has no ReLU module to give the ReLU back
    to; it becomes a module that calls PyTorch's two functions, with the same state_dict. So do those with a norm.
    """
    check_model(model, "convt3d.revert")
    model, prefix = unwrapped(model)
    layers = []
    for name, module in list(model.named_modules()):
        if not isinstance(module, nn.ConvTranspose3d):
            continue
        if PARTNERS in vars(module):
            separate(module)
        core = core_class(module)
        if core is None and isinstance(module, convt3d.nn.ConvTranspose3d):
            layers.append(_with_own_forward(prefix + name, module))
        if core in PLAIN:
            set_core_class(module, PLAIN[core])
            layers.append(Layer(prefix + name, "reverted"))
    return Report(tuple(layers))


def _convert_layer(name: str, module: nn.ConvTranspose3d, times: dict[str, LayerTimes] | None) -> Layer:
    core = core_class(module)
    if isinstance(module, normed.NormedConvTranspose3d):
        return Layer(name, "kept", note="it is a module of convt3d already")
    if core is None:
        return _with_own_forward(name, module)
    if core in PLAIN or core in WITHOUT_RELU:
        return Layer(name, "kept", note="it is a module of convt3d already")
    if note := unsupported(module):
        return Layer(name, "left", note=note)
    layer = Layer(name, "converted")
    if times is not None:
        measured = times.get(name, LayerTimes(reason="not measured: the example does not reach it"))
        layer = dataclasses.replace(layer, torch_ms=measured.torch_ms, convt3d_ms=measured.convt3d_ms)
        if measured.reason:
            return dataclasses.replace(layer, action="left", note=measured.reason)
    set_core_class(module, OURS[core])
    return layer


def _with_own_forward(name: str, module: nn.Module) -> Layer:
    return Layer(name, "left", note=f"{type(module).__name__} has a forward of its own")


def _fuse(
    layer: Layer,
    module: nn.Module,
    graph: ModelGraph,
    names: dict[nn.Module, str],
    *,
    fuse: bool,
    fold_batchnorm: bool,
) -> Layer:
    """Fuse one converted layer with what follows it, as far as that is proved."""
    wanted: tuple[type[nn.Module], ...] = (nn.ReLU, *normed.NORMS) if fuse else ()
    try:
        follower = graph.follower(module, wanted + ((nn.BatchNorm3d,) if fold_batchnorm else ()))
    except NotProvedError as error:
        return dataclasses.replace(layer, note=f"not fused: {error}")
    if follower is None:
        return dataclasses.replace(layer, note=_why_not_leaky(module, graph) if fuse else layer.note)
    if type(follower) is nn.BatchNorm3d:
        return _fold(layer, module, follower, graph, names, fuse=fuse)
    return _fuse_chain(layer, module, follower, graph, names)


def _fuse_chain(
    layer: Layer, module: nn.Module, follower: nn.Module, graph: ModelGraph, names: dict[nn.Module, str]
) -> Layer:
    """Fuse a layer with a ReLU, with a norm and an activation behind it, or with all three."""
    relu = norm = activation = None
    note = ""
    if type(follower) is not nn.ReLU:
        norm = follower
    else:
        relu = follower
        # Behind a dropout the convolution may compute the ReLU, but not what comes after the two.
        if graph.follower(module, (nn.ReLU,), past_dropout=False) is relu:
            norm, note = _proved(graph, relu, normed.NORMS, "norm")
    if norm is not None and (reason := normed.why_not(module, norm)):
        norm, note = None, f"{type(norm).__name__} not fused: {reason}"
    core = core_class(module)
    assert core is not None
    partners: dict[nn.Module, type[nn.Module]] = {} if relu is None else {relu: FusedReLU}
    if norm is None:
        if relu is None:
            return dataclasses.replace(layer, note=note)
        core = WITH_RELU[core]
    else:
        activation, note = _proved(graph, norm, normed.ACTIVATIONS, "activation")
        partners.update(normed.partners_of(norm, activation))
        core = normed.NormedConvTranspose3d if relu is None else normed.NormedConvTranspose3dReLU
    carry(module, core, partners)
    return dataclasses.replace(layer, action="fused", partners=tuple(names[partner] for partner in partners), note=note)


def _proved(
    graph: ModelGraph, module: nn.Module, wanted: tuple[type[nn.Module], ...], what: str
) -> tuple[nn.Module | None, str]:
    """What follows, and for the report why it cannot be fused."""
    try:
        return graph.follower(module, wanted), ""
    except NotProvedError as error:
        return None, f"{what} not fused: {error}"


def _why_not_leaky(module: nn.Module, graph: ModelGraph) -> str:
    """The note on a chain that the operators do not have."""
    leaky, _ = _proved(graph, module, (nn.LeakyReLU,), "activation")
    norm = None if leaky is None else _proved(graph, leaky, normed.NORMS, "norm")[0]
    if norm is None:
        return ""
    return f"{type(norm).__name__} not fused: convt3d has no LeakyReLU before a norm"


def _fold(
    layer: Layer,
    module: nn.Module,
    norm: nn.Module,
    graph: ModelGraph,
    names: dict[nn.Module, str],
    *,
    fuse: bool,
) -> Layer:
    """Fold the BatchNorm that follows a layer into it, with a ReLU behind that."""
    if reason := folded.why_not(module, norm):
        return dataclasses.replace(layer, note=f"not folded: {reason}")
    relu, note = _proved(graph, norm, (nn.ReLU,), "ReLU") if fuse else (None, "")
    partners: dict[nn.Module, type[nn.Module]] = {norm: folded.FoldedBatchNorm3d}
    if relu is not None:
        partners[relu] = FusedReLU
    carry(module, folded.FoldedConvTranspose3d if relu is None else folded.FoldedConvTranspose3dReLU, partners)
    assert isinstance(module, folded.FoldedConvTranspose3d)
    module.fold()
    return dataclasses.replace(
        layer, action="folded", partners=tuple(names[partner] for partner in partners), note=note
    )

"""What a conversion did, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from torch import nn

Action = Literal["converted", "fused", "folded", "kept", "left", "reverted"]

_HINT = (
    "convt3d.convert and convt3d.revert change the model in place and return a report; write "
    "`report = convt3d.convert(model)` and go on with `model`"
)


@dataclass(frozen=True)
class Layer:
    """One transposed convolution of the model.

    Attributes:
        name: its name in the model, as in `model.named_modules()`; empty where the model is the layer itself.
        action: ``"converted"`` (computed by convt3d now), ``"fused"`` (so, with the activation or norm that follows
            it, or a chain of them),
            ``"folded"`` (so, with the BatchNorm that follows it and the ReLU after that, if any), ``"kept"`` (it was a
            module of convt3d already), ``"left"`` (as it was) or ``"reverted"`` (plain PyTorch now).
        partners: the names of the modules that it was fused with.
        torch_ms: measured time of its calls with PyTorch's kernels; None where `convert` got no example.
        convt3d_ms: the same with convt3d's.
        note: why it was left, or not fused; empty where there is nothing to say.
    """

    name: str
    action: Action
    partners: tuple[str, ...] = ()
    note: str = ""
    torch_ms: float | None = None
    convt3d_ms: float | None = None


@dataclass(frozen=True)
class Report:
    """What :func:`convt3d.convert` or :func:`convt3d.revert` did; `print(report)` shows it as a table.

    It is no module: using it as one is an error that says what to write.
    """

    layers: tuple[Layer, ...]

    if not TYPE_CHECKING:  # type checkers say by themselves what a report has not

        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            """Raises TypeError, as `model = convert(model)` gives no model."""
            raise TypeError(f"a report cannot be called: {_HINT}")

        def __getattr__(self, name: str) -> NoReturn:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            # `training` is no attribute of the class, but of every module.
            of_a_module = hasattr(nn.Module, name) or name == "training"
            raise AttributeError(f"{text}: {_HINT}" if of_a_module else text, name=name, obj=self)

        def __getitem__(self, index: Any) -> NoReturn:
            raise TypeError(f"a report has no items, see its `layers`: {_HINT}")

    def names(self, *actions: Action) -> tuple[str, ...]:
        """The layers with one of these actions."""
        return tuple(layer.name for layer in self.layers if layer.action in actions)

    def __str__(self) -> str:
        if not self.layers:
            return "no transposed 3D convolution in the model"
        measured = any(layer.torch_ms is not None for layer in self.layers)
        rows = [["layer", "action", "with", *(("torch ms", "convt3d ms") if measured else ()), "note"]]
        for layer in self.layers:
            times = [_milliseconds(layer.torch_ms), _milliseconds(layer.convt3d_ms)] if measured else []
            rows.append(
                [layer.name or "(the model)", layer.action, ", ".join(layer.partners) or "-", *times, layer.note]
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        counts = {action: len(self.names(action)) for action in dict.fromkeys(layer.action for layer in self.layers)}
        lines.append(", ".join(f"{count} {action}" for action, count in counts.items()))
        return "\n".join(line.rstrip() for line in lines)


def check_model(model: object, function: str) -> None:
    """Refuse what is no module, such as a report that has taken the model's name."""
    if not isinstance(model, nn.Module):
        hint = f": {_HINT}" if isinstance(model, Report) else ""
        raise TypeError(f"{function}: model must be a torch.nn.Module, got {type(model).__name__}{hint}")


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

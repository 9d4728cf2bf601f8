"""Which of convt3d's operators reach a kernel."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Calls(TorchDispatchMode):
    """Names of the operators of convt3d that reach a kernel, in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "convt3d":
            self.names.append(func._schema.name.removeprefix("convt3d::conv_transpose3d"))
        return func(*args, **(kwargs or {}))

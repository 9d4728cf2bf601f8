"""Which module directly follows another, proved on the graphs of the model's own `forward` methods.

torch.fx traces every `forward` by itself, with the modules that it calls as leaves, on a copy of the model: in both
modes, and with every optional argument absent and present. A module B follows A where each call of A has one reader, a
call of B, and each call of B reads a call of A. Nobody above may call A or B by reaching into their containers, so all
`forward` methods from there up to the model's own must be traceable.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx._symbolic_trace import PH

_RELUS: dict[str, set[Any]] = {
    "call_function": {nn.functional.relu, nn.functional.relu_, torch.relu, torch.relu_},
    "call_method": {"relu", "relu_"},
}


# relu(f(x)) is f(relu(x)) for these.
_PASSING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)


class NotProvedError(Exception):
    """Why one module cannot be fused with the next; the text is for the report."""


class _OwnForwardTracer(fx.Tracer):
    """Traces one `forward`; the modules it calls stay calls."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


class ModelGraph:
    """The calls between the modules of one model."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {module: name for name, module in model.named_modules()}
        self._homes: dict[nn.Module, list[nn.Module]] = {module: [] for module in self._names}
        for module in self._names:
            for child in module._modules.values():
                if child is not None:
                    self._homes[child].append(module)
        self._model = model
        self._copies: dict[nn.Module, nn.Module] | None = None
        self._graphs: dict[nn.Module, list[fx.Graph] | NotProvedError] = {}

    def follower(self, module: nn.Module, wanted: tuple[type[nn.Module], ...]) -> nn.Module | None:
        """The module of one of the `wanted` types that directly follows `module`; None where another thing follows.

        A ReLU may also follow after a dropout: what is dropped is zero and the rest keeps its sign, in whatever order.

        Raises:
            NotProvedError: it cannot be proved, or something else reads what is between the two.
        """
        found = self._next(module, wanted)
        while found is not None and type(found) not in wanted:
            if type(found) is not nn.Identity:
                wanted = tuple(cls for cls in wanted if cls is nn.ReLU)
            found = self._next(found, wanted)
        return found

    def _next(self, module: nn.Module, wanted: tuple[type[nn.Module], ...]) -> nn.Module | None:
        """The module of one of the `wanted` types, or one that a ReLU can be moved past, that directly follows."""
        inside = [module]  # the modules whose output is that of `module`, inwards to outwards
        while True:
            producer = inside[-1]
            caller = self._caller(producer, inside)
            if caller is None:
                return None
            graphs = self._own_graphs(caller)
            calls = [node for graph in graphs for node in self._calls(caller, graph, producer)]
            if not calls:
                raise NotProvedError(f"forward of {self._title(caller)} does not call {self._title(producer)}")
            if not all(self._returned(graph) in calls for graph in graphs) or any(
                len(call.users) != 1 for call in calls
            ):
                break
            inside.append(caller)
        consumer = self._reader(caller, calls, wanted)
        if consumer is None:
            return None
        uses = [node for graph in graphs for node in self._calls(caller, graph, consumer)]
        if len(uses) != len(calls):  # each call has one reader, so that others would read something else
            raise NotProvedError(f"{self._title(consumer)} is called in another place too")
        home = caller
        while True:
            inside.append(consumer)
            if self._caller(consumer, inside) is not home:
                raise NotProvedError(
                    f"forward of {self._title(home)} reaches into another module for {self._title(consumer)}"
                )
            if type(consumer) in (*wanted, *_PASSING):
                break
            first = self._first(consumer)
            if first is None:
                return None
            home, consumer = consumer, first
        self._check_hooks(module, inside)
        self._check_outside(caller, inside)
        return consumer

    def _title(self, module: nn.Module) -> str:
        name = self._names[module]
        return f"{name} ({type(module).__name__})" if name else f"the model ({type(module).__name__})"

    def _caller(self, module: nn.Module, inside: list[nn.Module]) -> nn.Module | None:
        """The module whose `forward` calls this one: its home, past lists, which are added to `inside`."""
        while True:
            homes = self._homes[module]
            if len(homes) > 1:
                raise NotProvedError(f"{self._title(module)} is registered in more than one place")
            if not homes:
                return None
            home = homes[0]
            if type(home).forward is not nn.Module.forward:
                return home
            inside.insert(0, home)
            module = home

    def _calls(self, caller: nn.Module, graph: fx.Graph, module: nn.Module) -> list[fx.Node]:
        return [node for node in graph.nodes if self._callee(caller, node) is module]

    def _callee(self, caller: nn.Module, node: Any) -> nn.Module | None:
        if not isinstance(node, fx.Node) or node.op != "call_module":
            return None
        return caller.get_submodule(str(node.target))

    @staticmethod
    def _returned(graph: fx.Graph) -> Any:
        return next(node for node in graph.nodes if node.op == "output").args[0]

    def _reader(self, caller: nn.Module, calls: list[fx.Node], wanted: tuple[type[nn.Module], ...]) -> nn.Module | None:
        """The one module that reads all the calls, and nothing but them."""
        readers = {self._callee(caller, user) for call in calls for user in call.users}
        if nn.ReLU in wanted and any(
            user.target in _RELUS.get(user.op, set()) for call in calls for user in call.users
        ):
            raise NotProvedError(
                f"forward of {self._title(caller)} calls ReLU as a function, which is not a module to replace"
            )
        if len(readers) == 1:
            (reader,) = readers
            if reader is not None and all(
                user.args == (call,) and not user.kwargs for call in calls for user in call.users
            ):
                return reader
        if any(type(reader) in wanted for reader in readers):
            raise NotProvedError(f"forward of {self._title(caller)} reads the values in between in more than one place")
        return None

    def _first(self, module: nn.Module) -> nn.Module | None:
        """The module that alone reads the first argument of `forward`."""
        if not module._modules or (
            type(module).__module__.startswith("torch.nn.modules.") and not isinstance(module, nn.Sequential)
        ):
            return None
        found: set[nn.Module | None] = set()
        for graph in self._own_graphs(module):
            argument = next((node for node in graph.nodes if node.op == "placeholder"), None)
            users = list(argument.users) if argument is not None else []
            if len(users) != 1 or users[0].args != (argument,) or users[0].kwargs:
                return None
            first = self._callee(module, users[0])
            if first is None:
                return None
            found.add(first)
            if len(self._calls(module, graph, first)) != 1:
                raise NotProvedError(f"{self._title(first)} is called in another place too")
        return found.pop() if len(found) == 1 else None

    def _check_hooks(self, module: nn.Module, inside: list[nn.Module]) -> None:
        for other in inside:
            hooks = [other._forward_hooks, other._backward_hooks, other._backward_pre_hooks]
            if other is not module:  # what goes into the first one stays as it is
                hooks.append(other._forward_pre_hooks)
            if any(hooks):
                raise NotProvedError(f"a hook on {self._title(other)} may read the values in between")

    def _check_outside(self, caller: nn.Module, inside: list[nn.Module]) -> None:
        """Nobody above `caller` reaches into it."""
        above: nn.Module | None = caller
        while above is not None:
            holders: list[nn.Module] = []
            above = self._caller(above, holders)
            if above is None:
                return
            for graph in self._own_graphs(above):
                for node in graph.nodes:
                    if self._callee(above, node) in inside:
                        raise NotProvedError(f"forward of {self._title(above)} calls {node.target} directly")

    def _own_graphs(self, module: nn.Module) -> list[fx.Graph]:
        if module not in self._graphs:
            try:
                self._graphs[module] = self._trace(module)
            except NotProvedError as error:
                self._graphs[module] = error
        graphs = self._graphs[module]
        if isinstance(graphs, NotProvedError):
            raise graphs
        return graphs

    def _trace(self, module: nn.Module) -> list[fx.Graph]:
        if "forward" in vars(module):
            raise NotProvedError(f"forward of {self._title(module)} was replaced on the object")
        if self._copies is None:
            self._copies = self._copy()
        traced = self._copies[module]
        graphs = []
        failure = None
        try:
            with torch.random.fork_rng(devices=[]):
                for training, choice in itertools.product((True, False), _choices(traced)):
                    nn.Module.train(traced, training)
                    graphs.append(_OwnForwardTracer().trace(traced, choice))
        except Exception as error:  # the model's own code runs here
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            failure = NotProvedError(f"forward of {self._title(module)} cannot be traced: {reason}")
        if any(_holds_proxy(value) for part in traced.modules() for value in vars(part).values()):
            self._copies = None  # other modules could find these values there
            failure = failure or NotProvedError(f"forward of {self._title(module)} keeps tensors on a module")
        if failure is not None:
            raise failure
        return graphs

    def _copy(self) -> dict[nn.Module, nn.Module]:
        """A copy of every module, so that tracing changes nothing; parameters are shared, as they are large."""
        shared = [value for module in self._names for value in (*module._parameters.values(), *vars(module).values())]
        memo: dict[int, Any] = {id(value): value for value in shared if isinstance(value, Tensor)}
        try:
            model = copy.deepcopy(self._model, memo)
        except Exception as error:
            raise NotProvedError(
                f"the model cannot be copied for tracing: {str(error).partition(chr(10))[0]}"
            ) from error
        return dict(zip(self._names, model.modules(), strict=True))


def _choices(module: nn.Module) -> list[dict[str, Any]]:
    """What to trace with: every combination of the optional arguments, absent (their default) and present."""
    values: dict[str, list[Any]] = {}
    for name, parameter in inspect.signature(type(module).forward).parameters.items():
        optional = any(word in str(parameter.annotation) for word in ("None", "Optional"))
        if isinstance(parameter.default, bool):
            values[name] = [True, False]
        elif parameter.default is None or optional:
            values[name] = [None, PH]
    if len(values) > 6:
        raise NotProvedError(f"it has {len(values)} optional arguments")
    return [dict(zip(values, choice, strict=True)) for choice in itertools.product(*values.values())]


def _holds_proxy(value: Any, depth: int = 4) -> bool:
    if depth and isinstance(value, dict):
        return any(_holds_proxy(item, depth - 1) for item in value.values())
    if depth and isinstance(value, (list, tuple, set)):
        return any(_holds_proxy(item, depth - 1) for item in value)
    return isinstance(value, fx.Proxy)

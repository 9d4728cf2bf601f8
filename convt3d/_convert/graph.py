"""Which module directly follows another, proved by the structure of the model.

In an `nn.Sequential`, each child follows the one before it, and nothing else sees the values in between. In another
`forward`, `calls` reads from its source which calls follow each other, whatever branch is taken. Whoever holds a module
could call it by itself: so all code from there up to the model's own `forward` must be seen to call what it holds, and
nothing more, and nothing else in the model may refer to the two (`references`).
"""

from __future__ import annotations

import re
import types
from typing import Any, TypeGuard

from torch import nn
from torch.nn.modules import module as module_globals

from convt3d._convert.calls import Calls, changed_call, has_forward, read_calls
from convt3d._convert.references import TooManyError, held_elsewhere
from convt3d._convert.source import UnreadableError

_PAST_DROPOUT = (nn.ReLU, nn.LeakyReLU)
# relu(f(x)) is f(relu(x)) for these.
_PASSING = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
_GLOBAL_HOOKS = re.compile(r"_global_(forward|backward)_\w*hooks$")


class NotProvedError(Exception):
    """Why one module cannot be fused with the next; the text is for the report."""


class ModelGraph:
    """The calls between the modules of one model; attributes named in `ignored` are convt3d's own."""

    def __init__(self, model: nn.Module, ignored: tuple[str, ...]) -> None:
        self._names = {module: name for name, module in model.named_modules()}
        self._homes: dict[nn.Module, list[nn.Module]] = {module: [] for module in self._names}
        for module in self._names:
            for child in module._modules.values():
                if child is not None:
                    self._homes[child].append(module)
        self._model, self._ignored = model, ignored
        self._calls: dict[nn.Module, Calls | NotProvedError] = {}
        self._held: dict[nn.Module, str] | NotProvedError | None = None

    def follower(
        self, module: nn.Module, wanted: tuple[type[nn.Module], ...], *, past_dropout: bool = True
    ) -> nn.Module | None:
        """The module of one of the `wanted` types that directly follows `module`; None where another thing follows.

        A ReLU or LeakyReLU may also follow after a dropout: what is dropped is zero and the rest keeps its sign, in
        whatever order.

        Raises:
            NotProvedError: it cannot be proved, or something else reads what is between the two.
        """
        inside = [module]  # all modules whose input or output is a value in between, and the two
        found: nn.Module | None = module
        while True:
            assert found is not None
            found = self._next(found, wanted, inside)
            if found is None:
                return None
            if type(found) in wanted:
                break
            if type(found) is not nn.Identity:
                if not past_dropout:
                    return None
                wanted = tuple(cls for cls in wanted if cls in _PAST_DROPOUT)
        for other in dict.fromkeys(inside):
            self._check_module(other)
        for other in dict.fromkeys(inside):
            self._check_above(other)
        return found

    def _next(
        self, module: nn.Module, wanted: tuple[type[nn.Module], ...], inside: list[nn.Module]
    ) -> nn.Module | None:
        """What follows: of one of the `wanted` types, or one that an activation can be moved past."""
        producer, consumer = module, None
        while consumer is None:
            caller = self._caller(producer)
            if caller is None:
                return None
            if not _is_sequential(caller):
                consumer = self._following_call(caller, producer, wanted)
                if consumer is None:
                    return None
                break
            children = list(caller._modules.values())
            position = children.index(producer) + 1
            if position < len(children):
                consumer = children[position]
            else:
                inside.append(caller)
                producer = caller
        while _is_sequential(consumer) and consumer._modules:
            inside.append(consumer)
            consumer = next(iter(consumer._modules.values()))
            assert consumer is not None
        if type(consumer) not in (*wanted, *_PASSING):
            return None
        inside.append(consumer)
        return consumer

    def _title(self, module: nn.Module) -> str:
        name = self._names[module]
        return f"{name} ({type(module).__name__})" if name else f"the model ({type(module).__name__})"

    def _home(self, module: nn.Module) -> nn.Module | None:
        homes = self._homes[module]
        if len(homes) > 1:
            raise NotProvedError(f"{self._title(module)} is registered in more than one place")
        return homes[0] if homes else None

    def _caller(self, module: nn.Module) -> nn.Module | None:
        """The module whose `forward` calls this one: its home, past lists."""
        home = self._home(module)
        while home is not None and not has_forward(home):
            home = self._home(home)
        return home

    def _following_call(
        self, caller: nn.Module, producer: nn.Module, wanted: tuple[type[nn.Module], ...]
    ) -> nn.Module | None:
        """The one module that reads the output of each call of `producer`, and reads nothing else."""
        calls = self._own_calls(caller)
        title, name = self._title(caller), self._title(producer)
        if producer in calls.escaped:
            raise NotProvedError(f"forward of {title} {calls.escaped[producer]}")
        followers = calls.followers.get(producer, set())
        modules = [follower for follower in followers if follower is not None]
        if len(followers) == 1 and modules:
            if calls.leaders[modules[0]] == {producer}:
                return modules[0]
            if self._leads_to(modules[0], wanted):
                raise NotProvedError(f"forward of {title} calls {self._title(modules[0])} in another place too")
            return None
        if nn.ReLU in wanted and producer in calls.relu_functions:
            raise NotProvedError(f"forward of {title} calls ReLU as a function, which is not a module to replace")
        for reader in (*modules, *calls.read_by.get(producer, ())):
            if self._leads_to(reader, wanted):
                raise NotProvedError(
                    f"forward of {title} is not seen to pass the output of {name} to {self._title(reader)} alone"
                )
        return None

    @staticmethod
    def _leads_to(module: nn.Module, wanted: tuple[type[nn.Module], ...]) -> bool:
        first: nn.Module | None = module
        while first is not None and _is_sequential(first) and first._modules:
            first = next(iter(first._modules.values()))
        return type(first) in wanted

    def _own_calls(self, module: nn.Module) -> Calls:
        if module not in self._calls:
            try:
                if reason := changed_call(module):
                    raise UnreadableError(reason)
                self._calls[module] = read_calls(module)
            except UnreadableError as error:
                self._calls[module] = NotProvedError(f"forward of {self._title(module)} cannot be followed: {error}")
        calls = self._calls[module]
        if isinstance(calls, NotProvedError):
            raise calls
        return calls

    def _check_module(self, module: nn.Module) -> None:
        """Calling it runs the `forward` of its class and nothing else, and only its home holds it."""
        title = self._title(module)
        self._home(module)
        if reason := changed_call(module):
            raise NotProvedError(f"{title}: {reason}")
        if _is_patched(type(module)):
            raise NotProvedError(f"{title}: forward of the class was replaced")
        if any(_GLOBAL_HOOKS.match(name) and hooks for name, hooks in vars(module_globals).items()):
            raise NotProvedError("a global hook on all modules may read the values in between")
        if _has_hooks(module):
            raise NotProvedError(f"a hook on {title} may read the values in between")
        if module in self._held_elsewhere():
            raise NotProvedError(f"{title} is also held by {self._held_elsewhere()[module]}")

    def _held_elsewhere(self) -> dict[nn.Module, str]:
        if self._held is None:
            try:
                self._held = held_elsewhere(self._model, self._ignored)
            except TooManyError as error:
                self._held = NotProvedError(str(error))
        if isinstance(self._held, NotProvedError):
            raise self._held
        return self._held

    def _check_above(self, module: nn.Module) -> None:
        """All that holds it, up to the model, calls it and does nothing else with it."""
        while (caller := self._caller(module)) is not None:
            between, other = [], module
            while (home := self._home(other)) is not caller:
                assert home is not None
                between.append(home)
                other = home
            for container in between:
                self._check_module(container)
            self._check_module(caller)
            if not _is_sequential(caller):
                calls = self._own_calls(caller)
                for held in (module, *between):
                    if held in calls.escaped:
                        raise NotProvedError(f"forward of {self._title(caller)} {calls.escaped[held]}")
            module = caller


def _is_sequential(module: nn.Module | None) -> TypeGuard[nn.Sequential]:
    """Whether it calls its children one after the other, each with the output of the one before it."""
    return (
        isinstance(module, nn.Sequential)
        and not changed_call(module)
        and type(module).forward is nn.Sequential.forward
        and type(module).__iter__ is nn.Sequential.__iter__
        and "_modules" in vars(module)
        and None not in module._modules.values()
    )


def _has_hooks(module: nn.Module) -> bool:
    """Hooks of any kind, but for those of lazy modules and of PyTorch's norms of weights, which see no values."""
    lazy = [getattr(vars(module).get(name), "id", None) for name in ("_load_hook", "_initialize_hook")]
    for name, hooks in vars(module).items():
        if "hooks" in name and isinstance(hooks, dict):
            for key, hook in hooks.items():
                called = getattr(hook, "hook", hook)  # load_state_dict's are wrapped
                owner = called if isinstance(called, types.FunctionType) else type(called)
                if key not in lazy and not str(owner.__module__).startswith("torch.nn.utils."):
                    return True
    return False


def _is_patched(cls: type[nn.Module]) -> bool:
    """Whether a class of PyTorch's has a `forward` from elsewhere."""
    owner: Any = next(base for base in cls.__mro__ if "forward" in vars(base))
    return bool(owner.__module__.startswith("torch.nn.modules.")) and bool(owner.forward.__module__ != owner.__module__)

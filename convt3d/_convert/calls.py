"""How the `forward` of a module calls its children, read from its source.

No branch is followed and no value is known: what is found here holds for every way through the code. A child is called
as `self.child(...)`; where one call's output is the whole input of another, and no variable keeps it, the two follow
each other. Whatever else is done with a child makes it `escape`: nothing is known of it then.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
import torch.utils.checkpoint
from torch import Tensor, nn

from convt3d._convert.source import UnreadableError, definition, parents_of, statement_after

if TYPE_CHECKING:
    from collections.abc import Iterator

_RELU_FUNCTIONS = ("relu", "relu_")
_SCOPES = (ast.Lambda, ast.FunctionDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Between a statement and an operand of it, these may leave the operand out or evaluate it more than once.
_CONDITIONAL = (*_SCOPES, ast.IfExp, ast.BoolOp, ast.Compare, ast.NamedExpr)
_CONTEXTS = (ast.Try, ast.With, *((ast.TryStar,) if hasattr(ast, "TryStar") else ()))
_FORBIDDEN = (
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.AsyncFunctionDef,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.Nonlocal,
)
# Of which another variable, or a pattern, could become the module.
_BINDING = ("MatchAs", "MatchStar", "MatchMapping")
_INTERNAL = set(vars(nn.Module())) - {"training"}
_FORBIDDEN_NAMES = {
    "eval",
    "exec",
    "compile",
    "locals",
    "vars",
    "globals",
    "super",
    "__class__",
    "gc",
    "inspect",
    "sys",
}
_ITERATORS = ((enumerate, ("start",)), (zip, ("strict",)), (reversed, ()))  # and keywords that do not matter
_PARAMETERS_ONLY = {"parameters", "named_parameters", "buffers", "named_buffers"}
_CALLS = ("forward", "__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward")
_PLAIN_VALUES = (bool, int, float, complex, str, type(None), Tensor, torch.dtype, torch.device, torch.memory_format)

Modules = tuple[nn.Module, ...]


@dataclass
class Calls:
    """What one module's `forward` does with the modules below it.

    Attributes:
        followers: for each module called, what follows it at each of its calls; None stands for anything else.
        leaders: for each module called, what leads to it at each of its calls, likewise.
        escaped: the modules that are used in another way than by calling them, and how.
        read_by: for the report: the modules that a variable with a module's output goes into.
        relu_functions: for the report: the modules whose output goes into a function or a method called relu.
    """

    followers: dict[nn.Module, set[nn.Module | None]] = field(default_factory=dict)
    leaders: dict[nn.Module, set[nn.Module | None]] = field(default_factory=dict)
    escaped: dict[nn.Module, str] = field(default_factory=dict)
    read_by: dict[nn.Module, set[nn.Module]] = field(default_factory=dict)
    relu_functions: set[nn.Module] = field(default_factory=set)


def changed_call(module: nn.Module) -> str:
    """What makes calling the module another thing than running the `forward` of its class; empty where nothing does."""
    for name in _CALLS:
        if name in vars(module):
            return f"{name} was replaced on the object"
    for name in ("__call__", "_call_impl", "_wrapped_call_impl", "_slow_forward", "__getattr__", "__getattribute__"):
        if getattr(type(module), name) is not getattr(nn.Module, name):
            return f"its class has a {name} of its own"
    return ""


def has_forward(module: nn.Module) -> bool:
    """Whether it can be called; lists and dicts of modules cannot."""
    return type(module).forward is not nn.Module.forward or "forward" in vars(module)


def read_calls(module: nn.Module) -> Calls:
    """Raises UnreadableError where the code could do what is not seen."""
    calls = Calls()
    pending: list[Any] = [type(module).forward]
    seen: set[Any] = set()
    while pending:
        function = pending.pop()
        if function not in seen:
            seen.add(function)
            pending += _Function(module, function, calls).methods
    return calls


class _Function:
    """Adds what one method does to `calls`; `methods` are those it calls."""

    def __init__(self, module: nn.Module, function: Any, calls: Calls) -> None:
        self.methods: list[Any] = []
        self._module, self._calls = module, calls
        node = definition(function)
        self._body, self._code, self._globals = node.body, function.__code__, function.__globals__
        arguments = [*node.args.posonlyargs, *node.args.args]
        if not arguments:
            raise UnreadableError("it takes no self")
        self._self = arguments[0].arg
        self._parents = parents_of(node.body)
        self._nodes = [node for statement in node.body for node in ast.walk(statement)]
        self._sites: dict[ast.AST, nn.Module] = {}  # calls of one known module
        self._aliases: dict[str, Modules] = {}
        self._check()
        for name in self._names(self._self):
            self._read_attribute(self._parents[name])
        self._read_aliases()
        self._link_sites()

    def _check(self) -> None:
        for node in self._nodes:
            if isinstance(node, _FORBIDDEN) or type(node).__name__ in _BINDING:
                raise UnreadableError(f"it has {type(node).__name__}, which is not followed")
            if isinstance(node, ast.Name) and node.id in _FORBIDDEN_NAMES:
                raise UnreadableError(f"it uses {node.id}")
            bound = getattr(node, "arg", None) if isinstance(node, ast.arg) else getattr(node, "name", None)
            if bound == self._self:
                raise UnreadableError(f"it has another variable called {self._self}")
        for name in self._names(self._self):
            if not (isinstance(self._parents.get(name), ast.Attribute) and isinstance(name.ctx, ast.Load)):
                raise UnreadableError(f"it uses {self._self} other than by its attributes")

    def _names(self, wanted: str) -> list[ast.Name]:
        return [node for node in self._nodes if isinstance(node, ast.Name) and node.id == wanted]

    def _global(self, node: ast.AST) -> Any:
        """The value of a name, or of an attribute of a Python module, that no local variable hides."""
        if isinstance(node, ast.Attribute):
            value = self._global(node.value)
            return getattr(value, node.attr, None) if isinstance(value, types.ModuleType) else None
        if not isinstance(node, ast.Name) or any(isinstance(other.ctx, ast.Store) for other in self._names(node.id)):
            return None
        if node.id in (*self._code.co_varnames, *self._code.co_cellvars, *self._code.co_freevars):
            return None
        return self._globals.get(node.id, getattr(builtins, node.id, None))

    def _read_attribute(self, node: ast.AST) -> None:
        assert isinstance(node, ast.Attribute)
        name, text, own = node.attr, f"{self._self}.{node.attr}", vars(self._module)
        static = inspect.getattr_static(type(self._module), name, None)
        child = self._module._modules.get(name) if name not in own else None
        if name in (*_INTERNAL, *_CALLS) or name.startswith("__"):
            raise UnreadableError(f"it uses {text}")
        if not isinstance(node.ctx, ast.Load):
            if callable(static) or hasattr(type(static), "__set__") or child is not None:
                raise UnreadableError(f"it assigns {text}")
        elif isinstance(static, property):
            self.methods.append(static.fget)
        elif isinstance(static, (staticmethod, classmethod)):
            return
        elif callable(static):
            self._read_method(node, static)
        elif hasattr(type(static), "__get__"):
            raise UnreadableError(f"it uses {text}, which its class computes")
        elif child is not None:
            self._follow(node, (child,), known=True)

    def _read_method(self, node: ast.Attribute, method: Any) -> None:
        text, parent = f"{self._self}.{node.attr}", self._parents[node]
        called = (isinstance(parent, ast.Call) and parent.func is node) or self._is_checkpointed(node)
        if node.attr in vars(self._module) or not called:
            raise UnreadableError(f"it uses {text} other than by calling it")
        if method is not getattr(nn.Module, node.attr, None):
            self.methods.append(method)
        elif node.attr not in _PARAMETERS_ONLY:
            raise UnreadableError(f"it calls {text}")

    def _read_aliases(self) -> None:
        """Variables of loops over lists of modules; a loop over lists of lists adds others."""
        done: set[str] = set()
        while new := set(self._aliases) - done:
            for alias in new:
                for name in self._names(alias):
                    if isinstance(name.ctx, ast.Load):
                        self._follow(name, self._aliases[alias], known=False)
            done |= new

    def _follow(self, node: ast.AST, modules: Modules, *, known: bool) -> None:
        """What is done with an expression whose value is one of `modules`; `known`: is it this one each time."""
        parent = self._parents[node]
        callable_ = all(has_forward(module) for module in modules)
        if isinstance(parent, ast.Call) and parent.func is node and callable_:
            if known:
                self._sites[parent] = modules[0]
            else:
                self._called_somehow(modules)
        elif callable_ and self._is_checkpointed(node):
            self._called_somehow(modules)
        elif isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Load):
            for module in modules:
                self._follow_attribute(parent, module, known=known)
        elif isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load) and parent.value is node:
            for module in modules:
                self._follow_item(parent, module, known=known)
        elif not (self._is_test(node, parent) or self._is_loop(node, parent, modules)):
            self._escape(modules, f"uses {ast.unparse(node)} other than by calling it")

    def _called_somehow(self, modules: Modules) -> None:
        for module in modules:
            self._calls.followers.setdefault(module, set()).add(None)
            self._calls.leaders.setdefault(module, set()).add(None)

    def _follow_attribute(self, node: ast.Attribute, module: nn.Module, *, known: bool) -> None:
        child = module._modules.get(node.attr)
        if child is None:
            tensors = {**module._parameters, **module._buffers}
            if not _is_plain(inspect.getattr_static(module, node.attr, tensors.get(node.attr, module))):
                self._escape((module,), f"uses {ast.unparse(node)}")
        elif has_forward(module) or changed_call(module) or hasattr(type(module), node.attr):
            self._escape((module,), f"reaches into a module for {ast.unparse(node)}")
        else:
            self._follow(node, (child,), known=known)

    def _follow_item(self, node: ast.Subscript, module: nn.Module, *, known: bool) -> None:
        elements = _elements(module)
        if not elements or isinstance(node.slice, ast.Slice):
            self._escape((module,), f"reaches into a module for {ast.unparse(node)}")
            return
        try:
            item: Any = cast("Any", module)[ast.literal_eval(node.slice)]
        except (ValueError, TypeError, KeyError, IndexError):
            item = None
        if any(item is element for element in elements):
            self._follow(node, (item,), known=known)
        else:
            self._follow(node, elements, known=False)

    def _is_test(self, node: ast.AST, parent: ast.AST) -> bool:
        """Code that asks only whether the module is there, or how many there are."""
        if isinstance(parent, ast.Compare):
            other = parent.comparators[0]
            none = isinstance(other, ast.Constant) and other.value is None
            return (
                parent.left is node and len(parent.ops) == 1 and isinstance(parent.ops[0], (ast.Is, ast.IsNot)) and none
            )
        if isinstance(parent, ast.Call):
            return self._global(parent.func) is len and parent.args == [node]
        return isinstance(parent, (ast.If, ast.IfExp, ast.While)) and parent.test is node

    def _is_loop(self, node: ast.AST, parent: ast.AST, modules: Modules) -> bool:
        """A loop over lists of modules, whose variable then stands for their elements."""
        if any(type(module) is not nn.ModuleList for module in modules):
            return False
        path: list[tuple[Any, int]] = []
        while isinstance(parent, ast.Call):
            function = self._global(parent.func)
            keywords = next((names for known, names in _ITERATORS if function is known), None)
            if keywords is None or node not in parent.args or any(word.arg not in keywords for word in parent.keywords):
                return False
            path.append((function, parent.args.index(node)))
            node, parent = parent, self._parents[parent]
        if not (isinstance(parent, (ast.For, ast.comprehension)) and parent.iter is node):
            return False
        target: ast.expr | None = parent.target
        for function, index in reversed(path):
            if function is not reversed:
                index = 1 if function is enumerate else index
                target = target.elts[index] if isinstance(target, ast.Tuple) and index < len(target.elts) else None
        if not isinstance(target, ast.Name):
            return False
        elements = tuple(element for module in modules for element in _elements(module))
        if self._aliases.setdefault(target.id, elements) != elements:
            raise UnreadableError(f"it loops over two lists of modules with one variable, {target.id}")
        return True

    def _is_checkpointed(self, node: ast.AST) -> bool:
        """Whether it is called by `torch.utils.checkpoint.checkpoint`, which calls it as written."""
        parent = self._parents[node]
        return (
            isinstance(parent, ast.Call)
            and parent.args[:1] == [node]
            and self._global(parent.func) is torch.utils.checkpoint.checkpoint
        )

    def _escape(self, modules: Modules, how: str) -> None:
        for module in modules:
            self._calls.escaped.setdefault(module, how)

    def _link_sites(self) -> None:
        readers = {site: self._reader(site) for site in self._sites}
        led = {reader: site for site, reader in readers.items()}
        for site, callee in self._sites.items():
            reader, leader = readers[site], led.get(site)
            self._calls.followers.setdefault(callee, set()).add(None if reader is None else self._sites[reader])
            self._calls.leaders.setdefault(callee, set()).add(None if leader is None else self._sites[leader])

    def _reader(self, site: ast.AST) -> ast.AST | None:
        """The call of a child whose whole input is the output of this one, and that alone sees it."""
        callee, parent = self._sites[site], self._parents.get(site)
        if parent is None:
            return None
        if self._is_whole_input(site):
            return parent
        name = _target(parent)
        values = self._names(name) if name else [site]
        for value in values:
            above = self._parents.get(value)
            if above not in self._sites and _is_relu_function(above, value):
                self._calls.relu_functions.add(callee)
            if name and self._is_whole_input(value):
                self._calls.read_by.setdefault(callee, set()).add(self._sites[self._parents[value]])
        return self._next_reader(parent, name) if name else None

    def _is_whole_input(self, value: ast.AST) -> bool:
        parent = self._parents.get(value)
        return parent in self._sites and isinstance(parent, ast.Call) and parent.args == [value] and not parent.keywords

    def _next_reader(self, statement: ast.AST, name: str) -> ast.AST | None:
        """The same through a variable, which the very next statement reads once and then overwrites or gives up."""
        following = statement_after(statement, self._parents, self._body)
        if following is None or not (isinstance(following, ast.Return) or _target(following) == name):
            return None
        loads = [node for node in ast.walk(following) if node in self._loads(name)]
        if len(loads) != 1 or not self._is_whole_input(loads[0]):
            return None
        below = self._above(loads[0], following)
        above = self._above(following, None)
        # A context may go on after an exception, with the variable as it is; a function inside may keep it.
        if any(isinstance(node, _CONDITIONAL) for node in below) or any(isinstance(node, _CONTEXTS) for node in above):
            return None
        if any(isinstance(node, _SCOPES) for load in self._names(name) for node in self._above(load, None)):
            return None
        return self._parents[loads[0]]

    def _loads(self, name: str) -> set[ast.AST]:
        return {node for node in self._names(name) if isinstance(node.ctx, ast.Load)}

    def _above(self, node: ast.AST, end: ast.AST | None) -> Iterator[ast.AST]:
        while (parent := self._parents.get(node)) is not None and parent is not end:
            yield parent
            node = parent


def _target(statement: ast.AST) -> str:
    """The one local variable that is assigned; empty where it is another thing."""
    target: ast.AST | None = None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    return target.id if isinstance(target, ast.Name) else ""


def _is_relu_function(parent: ast.AST | None, value: ast.AST) -> bool:
    if isinstance(parent, ast.Call) and parent.args[:1] == [value]:
        return getattr(parent.func, "attr", getattr(parent.func, "id", "")) in _RELU_FUNCTIONS
    return isinstance(parent, ast.Attribute) and parent.attr in _RELU_FUNCTIONS


def _elements(module: nn.Module) -> Modules:
    """What an item of a list or dict of modules may be."""
    if type(module) not in (nn.ModuleList, nn.ModuleDict):
        return ()
    return tuple(child for child in module._modules.values() if child is not None)


def _is_plain(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(_is_plain(item) for item in value)
    return isinstance(value, _PLAIN_VALUES)

"""Methods of a model, as text, and what convt3d.convert must say of its layers; for tests/test_convert_proofs.py."""

PROGRAM = """
import functools
import weakref

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.r, self.tanh = nn.ConvTranspose3d(2, 2, 1), nn.ReLU(), nn.Tanh()

    def forward(self, x):
        return self.r(self.c(x))

    def sharp(self, x):
        return self.c(x)

def first(m, x):
    return m.c(x)

KEPT = []
FUNCTIONS = [F.relu]

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.r, self.d, self.tanh = nn.ConvTranspose3d(2, 2, 1), nn.ReLU(), nn.Dropout(0.3), nn.Tanh()
        self.wet = nn.ReLU(inplace=True)
        self.flag, self.none, self.kept = True, None, []
        self.block, self.pair = Block(), nn.Sequential(nn.ConvTranspose3d(2, 2, 1), nn.ReLU())
        self.list = nn.ModuleList([nn.Sequential(nn.ConvTranspose3d(2, 2, 1), nn.ReLU()), Block()])
        self.loose = nn.ModuleList([nn.ConvTranspose3d(2, 2, 1), nn.ReLU()])
        self.names = nn.ModuleDict({"c": nn.ConvTranspose3d(2, 2, 1), "r": nn.ReLU()})
        self.space = nn.Module()
        self.space.c, self.space.r = nn.ConvTranspose3d(2, 2, 1), nn.ReLU()
        self.setup()

    def setup(self):
        pass

"""


FUSED = {
    "call in call": "def forward(self, x): return self.r(self.c(x))",
    "variable": """
        def forward(self, x):
            x = self.c(x)
            x: torch.Tensor = self.r(x)
            return x""",
    "returned": """
        def forward(self, x):
            x = self.c(x)
            return self.tanh(self.r(x)) + 1""",
    "through a dropout": """
        def forward(self, x):
            y = self.d(self.c(x))
            y = self.r(y)
            return y""",
    "branches on values": "def forward(self, x): return self.r(self.c(x)) if x.sum() > 0 else x",
    "branches on attributes": """
        def forward(self, x):
            if self.training and self.flag and self.none is None and self.c is not None:
                return self.r(self.c(x))
            return self.r(self.c(-x)) * self.c.weight.mean() + next(self.parameters()).sum()""",
    "loop": """
        def forward(self, x):
            for _ in range(2):
                x = self.r(self.c(x))
            return x""",
    "comprehension": "def forward(self, x): return [self.r(self.c(y)) for y in (x, -x)]",
    "exception": """
        def forward(self, x):
            try:
                return self.r(self.c(x))
            except (TypeError, AttributeError):
                return x[0]""",
    "method": """
        def forward(self, x): return checkpoint(self.part, x, use_reentrant=False) + self.part(x)
        def part(self, x): return self.r(self.c(x))""",
    "output size": "def forward(self, x): return self.r(self.c(x, output_size=x.shape[2:]))",
}


# The code, the layer that is fused, its ReLU.
FUSED_BELOW = {
    "sequential": ("def forward(self, x): return self.pair(x) if x.sum() > 0 else -x", "pair.0", "pair.1"),
    "module": ("def forward(self, x): return checkpoint(self.block, x, use_reentrant=False)", "block.c", "block.r"),
    "list": ("def forward(self, x): return self.list[0](x) - self.list[-1](x)", "list.0.0", "list.0.1"),
    "unknown item": ("def forward(self, x): return self.list[int(x.sum() > 0)](x)", "list.0.0", "list.0.1"),
    "loop over a list": (
        """
        def forward(self, x):
            for i, (m, n) in enumerate(zip(self.list, reversed(self.list), strict=True), start=1):
                x = m(x) + n(x) * len(self.list) * i
            return x""",
        "list.1.c",
        "list.1.r",
    ),
    "items": ("def forward(self, x): return self.loose[1](self.loose[0](x))", "loose.0", "loose.1"),
    "keys": ('def forward(self, x): return self.names["r"](self.names["c"](x))', "names.c", "names.r"),
    "namespace": ("def forward(self, x): return self.space.r(self.space.c(x))", "space.c", "space.r"),
}


# The code, and what the note of the layer `c` says; empty where a ReLU is not in sight.
NOT_FUSED = {
    "optional skip": (
        """
        def forward(self, x, skip=None):
            y = self.c(x)
            return y if skip is None else self.r(y) + skip""",
        "is not seen to pass the output of c (ConvTranspose3d) to r (ReLU) alone",
    ),
    "required skip": (
        """
        def forward(self, x, skip):
            y = self.c(x)
            return y if skip is None else self.r(y) + x""",
        "to r (ReLU) alone",
    ),
    "isinstance": (
        """
        def forward(self, x):
            if isinstance(x, (list, tuple)):
                return self.c(x[0])
            return self.r(self.c(x))""",
        "to r (ReLU) alone",
    ),
    "is_grad_enabled": (
        """
        def forward(self, x):
            y = self.c(x)
            if torch.is_grad_enabled():
                y = self.r(y)
            return y""",
        "to r (ReLU) alone",
    ),
    "forward of the layer": (
        "def forward(self, x): return self.r(self.c(x)) + self.c.forward(-x)",
        "uses self.c.forward",
    ),
    "forward of the ReLU": (
        "def forward(self, x): return self.r(self.c(x)) + self.r.forward(x)",
        "uses self.r.forward",
    ),
    "kept in a list": (
        """
        def forward(self, x):
            kept = []
            y = self.c(x)
            kept.append(y)
            return [self.r(y), *kept]""",
        "to r (ReLU) alone",
    ),
    "appended": (
        """
        def forward(self, x):
            kept = []
            kept.append(self.c(x))
            return [self.r(kept[-1]), *kept]""",
        "",
    ),
    "by mode": ("def forward(self, x): return self.r(self.c(x)) if self.training else self.c(x)", "to r (ReLU) alone"),
    "in place": (
        """
        def forward(self, x):
            y = self.c(x)
            z = self.wet(y)
            return y + z""",
        "to wet (ReLU) alone",
    ),
    "ReLU of another, too": (
        "def forward(self, x): return self.r(self.c(x)) + self.r(x)",
        "r (ReLU) in another place too",
    ),
    "walrus": ("def forward(self, x): return self.r((y := self.c(x))) + y", ""),
    "keyword": ("def forward(self, x): return self.r(input=self.c(x))", ""),
    "more arguments": ("def forward(self, x): return self.r(self.c(x), **{})", ""),
    "starred": ("def forward(self, x): return self.r(*[self.c(x)])", ""),
    "variable in an exception": (
        """
        def forward(self, x):
            y = x
            try:
                y = self.c(x)
                y = self.r(y)
                y = {}[y]
            except KeyError:
                return y
            return y""",
        "to r (ReLU) alone",
    ),
    "variable of a function inside": (
        """
        def forward(self, x):
            y = x
            kept = lambda: y
            y = self.c(x)
            y = self.r(y) + kept()
            return y""",
        "to r (ReLU) alone",
    ),
    "variable read twice": (
        """
        def forward(self, x):
            y = self.c(x)
            y = self.r(y) + y
            return y""",
        "to r (ReLU) alone",
    ),
    "variable read twice, the other way round": (
        """
        def forward(self, x):
            y = self.c(x)
            y = self.r(y) + torch.cos(torch.cos(y))
            return y""",
        "to r (ReLU) alone",
    ),
    "variable read later": (
        """
        def forward(self, x):
            y = self.c(x)
            z = self.r(y)
            return z + y""",
        "to r (ReLU) alone",
    ),
    "variable read or not": (
        """
        def forward(self, x):
            y = self.c(x)
            y = self.r(y) if x.sum() > 0 else 1
            return y""",
        "to r (ReLU) alone",
    ),
    "generator": ("def forward(self, x): yield self.r(self.c(x))", "it has Yield"),
    "loop over loose modules": (
        """
        def forward(self, x):
            for m in (self.c, self.r):
                x = m(x)
            return x""",
        "uses self.c other than by calling it",
    ),
    "function of self": ("def forward(self, x): return self.r(self.c(x)) + first(self, x)", "uses self other than"),
    "getattr": ('def forward(self, x): return self.r(self.c(x)) + getattr(self, "c")(x)', "uses self other than"),
    "children": ("def forward(self, x): return self.r(self.c(x)) + next(self.children())(x)", "calls self.children"),
    "_modules": ('def forward(self, x): return self.r(self.c(x)) + self._modules["c"](x)', "uses self._modules"),
    "get_submodule": (
        'def forward(self, x): return self.r(self.c(x)) + self.get_submodule("c")(x)',
        "self.get_submodule",
    ),
    "super": ("def forward(self, x): return self.r(self.c(x)) + super().__getattr__('c')(x)", "it uses super"),
    "eval": ('def forward(self, x): return self.r(self.c(x)) + eval("self.c(x)")', "it uses eval"),
    "import": (
        """
        def forward(self, x):
            import gc
            return self.r(self.c(x))""",
        "it has Import",
    ),
    "another self": ("def forward(self, x): return self.r(self.c(x)) + (lambda self: self.sum())(x)", "called self"),
    "alias": (
        """
        def forward(self, x):
            c = self.c
            return self.r(self.c(x)) + c(x)""",
        "uses self.c other than by calling it",
    ),
    "assigned": (
        """
        def forward(self, x):
            self.r = self.tanh if x.sum() > 0 else nn.ReLU()
            return self.r(self.c(x))""",
        "it assigns self.r",
    ),
    "property": (
        """
        def forward(self, x): return self.r(self.c(x)) + self.layer(x)
        @property
        def layer(self): return self.c""",
        "uses self.c other than by calling it",
    ),
    "method": (
        """
        def forward(self, x): return self.r(self.c(x)) + self.layer()(x)
        def layer(self): return self.c""",
        "uses self.c other than by calling it",
    ),
    "cached property": (
        """
        @functools.cached_property
        def layer(self): return self.c
        def forward(self, x): return self.r(self.c(x)) + self.layer(x)""",
        "it uses self.layer, which its class computes",
    ),
    "held by a proxy": (
        """
        def setup(self): self.kept = [weakref.proxy(self.c)]
        def forward(self, x): return self.r(self.c(x)) + self.kept[0](x)""",
        "is also held by the attribute kept",
    ),
    "held by a tensor": (
        """
        def setup(self): self.block.c.weight.owner = self.c
        def forward(self, x): return self.r(self.c(x)) + self.block.c.weight.owner(x)""",
        "is also held by the attribute _parameters of block.c",
    ),
    "held by a default": (
        """
        def setup(self): self.kept = lambda x, c=functools.partial(self.c): c(x)
        def forward(self, x): return self.r(self.c(x)) + self.kept(x)""",
        "is also held by the attribute kept",
    ),
    "method as a value": (
        """
        def forward(self, x): return self.r(self.c(x)) + first(self.part.__self__, x)
        def part(self, x): return x""",
        "uses self.part other than by calling it",
    ),
    "decorated": (
        """
        @torch.no_grad()
        def forward(self, x): return self.r(self.c(x))""",
        "cannot be followed",
    ),
    "held in a list": (
        """
        def setup(self): self.kept = [self.c]
        def forward(self, x): return self.r(self.c(x)) + self.kept[0](x)""",
        "c (ConvTranspose3d) is also held by the attribute kept of the model",
    ),
    "held by another module": (
        """
        def setup(self): self.block.kept = (self,)
        def forward(self, x): return self.r(self.c(x))""",
        "the model (Model) is also held by the attribute kept of block",
    ),
    "held by a method": (
        """
        def setup(self): self.kept = {"c": self.c.forward}
        def forward(self, x): return self.r(self.c(x)) + self.kept["c"](x)""",
        "is also held by",
    ),
    "held by a closure": (
        """
        def setup(self):
            c = self.c
            self.kept = lambda x: c(x)
        def forward(self, x): return self.r(self.c(x)) + self.kept(x)""",
        "is also held by",
    ),
    "held by a global variable": (
        """
        def setup(self): KEPT[:] = [self.c]
        def forward(self, x): return self.r(self.c(x)) + self.block(x)
        def other(self, x): return KEPT[0](x)""",
        "is also held by what the code of Model refers to",
    ),
    "call of its own": (
        """
        def __call__(self, x): return self.c(x)
        def forward(self, x): return self.r(self.c(x))""",
        "its class has a __call__ of its own",
    ),
    "__getattr__ of its own": (
        """
        def __getattr__(self, name): return super().__getattr__("tanh" if name == "r" else name)
        def forward(self, x): return self.r(self.c(x))""",
        "its class has a __getattr__ of its own",
    ),
}


# The code, the layer that must not be fused with what follows it in its own container, the note.
NOT_FUSED_BELOW = {
    "item": ("self.pair(x) + self.pair[0](x)", "pair.0", "reaches into a module for self.pair[0]"),
    "slice": ("self.pair(x) + self.pair[:1](x)", "pair.0", "reaches into a module for self.pair[:1]"),
    "iterated": ("sum(m(x) for m in self.pair)", "pair.0", "uses self.pair other than by calling it"),
    "unpacked": ("self.pair(x) + [*self.pair][0](x)", "pair.0", "uses self.pair other than by calling it"),
    "method of Sequential": ("self.pair(x) + next(self.pair.children())(x)", "pair.0", "uses self.pair.children"),
    "argument": ("first(self.block, x) + self.block(x)", "block.c", "uses self.block other than by calling it"),
    "child of a child": ("self.block(x) + self.block.c(x)", "block.c", "reaches into a module for self.block.c"),
    "method of a child": ("self.block(x) + self.block.sharp(x)", "block.c", "uses self.block.sharp"),
    "slice of a list": ("self.list[:1][0][0](x)", "list.0.0", "reaches into a module for self.list[:1]"),
    "item of an item": (
        "self.list[0](x) + self.list[0][0](x)",
        "list.0.0",
        "reaches into a module for self.list[0][0]",
    ),
    "loop over a list": ("sum(m[0](x) for m in self.list[:1]) + self.list[0](x)", "list.0.0", "self.list[:1]"),
    "unknown items": ("self.loose[int(x.sum() > 9)](x) + self.loose[1](self.loose[0](x))", "loose.0", "to loose.1"),
}

"""What Python adds to the operators of the compiled library, registered when this package is imported.

`registry` holds the operators; each of `autocast`, `autograd`, `fake`, `flops`, `sharding` and `vmap` registers what
its name says, those of them that need a slow module of PyTorch's when somebody imports that (`at_import`). `fake_norm`
and `group_norm` do the same for the operators with a norm. `inductor` is what TorchInductor makes of them all.
`derivatives` and `norm_derivatives` hold the rules that `autograd` registers. `memory_format` and `symbolic` are rules
that they share, `torch_internals` is what they use of PyTorch's private helpers.
"""

from convt3d._registrations import autocast, autograd, fake, fake_norm, flops, group_norm, inductor, sharding, vmap

__all__ = ["autocast", "autograd", "fake", "fake_norm", "flops", "group_norm", "inductor", "sharding", "vmap"]

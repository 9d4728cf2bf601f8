"""What Python adds to the operators of the compiled library, registered when this package is imported.

`registry` holds the operators; each of `autocast`, `autograd`, `fake`, `flops` and `vmap` registers what its name says.
`memory_format` and `symbolic` are rules that they share, `torch_internals` what they use of PyTorch's private helpers.
"""

from convt3d._registrations import autocast, autograd, fake, flops, vmap

__all__ = ["autocast", "autograd", "fake", "flops", "vmap"]

"""Errors of the compiled library as Python's callers expect them."""

import torch


def raise_if_out_of_memory(error: RuntimeError) -> None:
    """Raises `torch.OutOfMemoryError` in place of `error` where that is what it reports.

    The compiled library can only throw RuntimeError: the stable ABI has no way to throw PyTorch's own types.
    """
    if not isinstance(error, torch.OutOfMemoryError) and "CUDA out of memory" in str(error):
        raise torch.OutOfMemoryError(str(error)) from error

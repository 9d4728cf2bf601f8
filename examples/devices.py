"""The device that an example runs on when none is named."""

import torch

from convt3d._library import build_info


def default_device() -> str:
    """Cuda where there is a GPU and convt3d was built with its CUDA kernels, else cpu."""
    if not torch.cuda.is_available():
        return "cpu"
    if build_info().cuda is None:
        print("There is a GPU, but convt3d was built without CUDA kernels (nvcc or a CUDA build of torch was missing).")
        return "cpu"
    return "cuda"

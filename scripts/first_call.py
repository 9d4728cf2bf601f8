"""Says which convt3d, torch and GPU are at hand and runs the operator once; fails where one is missing."""

from __future__ import annotations

import pathlib

import torch

import convt3d


def main() -> None:
    """Print the facts, then check one call against PyTorch."""
    package = pathlib.Path(convt3d.__file__).resolve().parent
    print(f"convt3d {convt3d.__version__} in {package}")
    print(f"torch {torch.__version__}, CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()}")
    if package == pathlib.Path(__file__).resolve().parents[1] / "convt3d":
        raise SystemExit("this is the source folder, not an installed package")
    if not torch.cuda.is_available():
        raise SystemExit("torch sees no CUDA device")
    print(f"GPU {torch.cuda.get_device_name()}, compute capability {torch.cuda.get_device_capability()}")
    x = torch.randn(2, 3, 4, 5, 6, device="cuda", dtype=torch.float64)
    w = torch.randn(3, 2, 1, 2, 3, device="cuda", dtype=torch.float64)
    torch.testing.assert_close(
        torch.ops.convt3d.conv_transpose3d(x, w), torch.nn.functional.conv_transpose3d(x.cpu(), w.cpu()).cuda()
    )
    print("the first call is right")


if __name__ == "__main__":
    main()

"""What PyTorch's own float32 convolutions get wrong on the CPU, and convt3d works around; needs PyTorch only.

Each case runs in a process of its own, which oneDNN may end. The first goes wrong on processors with AVX512.
"""

import subprocess
import sys

import torch

CASES = {
    "weight gradient, padding 3 of a kernel of 4": """
import torch

aten = torch.ops.aten
x, w = torch.randn(3, 8, 4, 8, 3), torch.randn(8, 1, 4, 4, 4)
parameters = [2, 2, 2], [3, 1, 2], [1, 1, 1], True, [0, 0, 0], 1
wanted = [False, True, False]
grad = torch.randn_like(aten.convolution(x.double(), w.double(), None, *parameters)).float()
for _ in range(100):
    actual = aten.convolution_backward(grad, x, w, None, *parameters, wanted)[1]
exact = aten.convolution_backward(grad.double(), x.double(), w.double(), None, *parameters, wanted)[1]
print("largest error:", (actual - exact).abs().max().item())
""",
    "forward, stride 24000 along the width": """
import torch

x, w = torch.randn(2, 3, 1, 1, 1), torch.randn(3, 4, 3, 3, 3)
y = torch.nn.functional.conv_transpose3d(x, w, stride=(1, 1, 24000))
exact = torch.nn.functional.conv_transpose3d(x.double(), w.double(), stride=(1, 1, 24000))
print("largest error:", (y - exact).abs().max().item())
""",
}


def main() -> None:
    """Print the result and the exit status of each case."""
    print("torch", torch.__version__, "on", torch.backends.cpu.get_cpu_capability())
    for name, program in CASES.items():
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        print(f"{name}: {done.stdout.strip() or 'nothing printed'}, exit status {done.returncode}")


if __name__ == "__main__":
    main()

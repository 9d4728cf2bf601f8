"""The network: trilinear interpolation plus a learned correction."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import convt3d.nn


class SuperResolution(nn.Module):
    """[N, 1, D, H, W] -> [N, 1, 2D, 2H, 2W].

    Interpolation is itself a transposed convolution with stride 2. Its weight starts as trilinear interpolation and the
    last layer of the correction starts at zero: an untrained network *is* trilinear interpolation.
    """

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        # Padding 3 = 1, for an output of twice the input, + 2 for the voxel that forward() repeats at every border.
        self.interpolation = convt3d.nn.ConvTranspose3d(1, 1, kernel_size=4, stride=2, padding=3, bias=False)
        self.features = nn.Sequential(
            nn.Conv3d(1, channels, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv3d(channels, channels, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.Conv3d(channels, channels, kernel_size=3, padding=1),
            nn.ReLU(),
        )
        self.upsampling = convt3d.nn.ConvTranspose3dReLU(channels, channels, kernel_size=4, stride=2, padding=1)
        self.correction = nn.Conv3d(channels, 1, kernel_size=3, padding=1)
        self._start_as_trilinear()

    def _start_as_trilinear(self) -> None:
        tap = torch.tensor([0.25, 0.75, 0.75, 0.25])
        with torch.no_grad():
            self.interpolation.weight.copy_(torch.einsum("d,h,w->dhw", tap, tap, tap))
            nn.init.zeros_(self.correction.weight)
            if self.correction.bias is not None:
                nn.init.zeros_(self.correction.bias)

    def forward(self, low: Tensor) -> Tensor:
        """Doubles the resolution of `low`."""
        bordered = F.pad(low, (1, 1, 1, 1, 1, 1), mode="replicate")
        return self.interpolation(bordered) + self.correction(self.upsampling(self.features(low)))

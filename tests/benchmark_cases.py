"""Small layers for the tests of the benchmark."""

from convt3d._layer import Layer

ASYMMETRIC = Layer(
    "asymmetric",
    batch=3,
    in_channels=4,
    out_channels=6,
    input_size=(2, 4, 3),
    kernel_size=(3, 2, 4),
    stride=(2, 3, 1),
    padding=(1, 0, 2),
    output_padding=(1, 2, 0),
    dilation=(2, 1, 3),
    groups=2,
    bias=True,
)
STRIDE_ONE = Layer(
    "stride_one", 2, 4, 6, (5, 4, 6), (3, 2, 4), padding=(1, 0, 2), dilation=(1, 2, 1), groups=2, bias=True
)
CROPPED = Layer(
    "cropped", 2, 3, 4, (3, 2, 4), (2, 3, 2), (1, 2, 1), (0, 1, 0), output_padding=(1, 2, 2), dilation=(2, 3, 3)
)
KERNEL_IS_STRIDE = Layer("kernel_is_stride", 2, 3, 4, (3, 2, 5), (4, 2, 3), stride=(4, 2, 3), bias=True)

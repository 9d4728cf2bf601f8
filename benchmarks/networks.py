"""The networks of end_to_end.py, with the losses and optimizers that their authors train them with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gan import GeneratorWorkload
from segmentation import DynUNetWorkload, MedNeXtWorkload, SwinUNETRWorkload, UNetWorkload, VNetWorkload
from surroundocc import SurroundOccUpsamplingWorkload, SurroundOccWorkload

if TYPE_CHECKING:
    from workload import Workload


def workloads(*, tiny: bool = False) -> dict[str, Workload]:
    """Every workload by its name in the tables."""
    return {
        "surroundocc": SurroundOccWorkload(tiny),
        "surroundocc-upsampling": SurroundOccUpsamplingWorkload(tiny),
        "dynunet-64": DynUNetWorkload(tiny, 64),
        "dynunet-128": DynUNetWorkload(tiny, 128),
        "unet-128": UNetWorkload(tiny, 128),
        "mednext-s-96": MedNeXtWorkload(tiny, 96),
        "vnet-96": VNetWorkload(tiny, 96),
        "swin-unetr-96": SwinUNETRWorkload(tiny, 96),
        "gan3d-generator": GeneratorWorkload(tiny),
    }

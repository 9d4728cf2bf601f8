"""The picture: one held-out slice at low resolution, interpolated, learned and true."""

from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle
from torch import Tensor

ROWS, COLUMNS = slice(0, 92), slice(26, 102)  # the head
ZOOM_ROWS, ZOOM_COLUMNS = slice(26, 60), slice(49, 83)  # the ventricles


def save_figure(path: Path, panels: dict[str, Tensor], caption: str) -> None:
    """Writes a PNG: above the whole of each slice, below the part of it inside the frame.

    Args:
        path: file to write; its folder exists.
        panels: title -> slice [96, 128] with values in [0, 1], from left to right.
        caption: one line below the pictures.
    """
    plt.switch_backend("Agg")  # needs no display
    brightest = max(float(panel[ROWS, COLUMNS].max()) for panel in panels.values()) * 0.85
    with plt.style.context("dark_background"):
        figure, axes = plt.subplots(
            2,
            len(panels),
            figsize=(3.6 * len(panels), 8.3),
            height_ratios=(92 / 76, 1),
            layout="constrained",
        )
        for (title, panel), whole, zoom in zip(panels.items(), axes[0], axes[1], strict=True):
            whole.set_title(title, fontsize=13)
            for axis, rows, columns in ((whole, ROWS, COLUMNS), (zoom, ZOOM_ROWS, ZOOM_COLUMNS)):
                axis.imshow(
                    panel[rows, columns].numpy(),
                    cmap="gray",
                    vmin=0.0,
                    vmax=brightest,
                    origin="lower",
                    interpolation="nearest",
                    extent=(columns.start, columns.stop, rows.start, rows.stop),
                )
                axis.set_axis_off()
            size = (ZOOM_COLUMNS.stop - ZOOM_COLUMNS.start, ZOOM_ROWS.stop - ZOOM_ROWS.start)
            whole.add_patch(Rectangle((ZOOM_COLUMNS.start, ZOOM_ROWS.start), *size, fill=False, color="orange", lw=1.2))
        figure.supxlabel(caption, fontsize=11, color="0.7")
        figure.savefig(path, dpi=110)
        plt.close(figure)

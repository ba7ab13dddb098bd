"""What charts of grid worlds share."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes

INK = "#264653"


def draw_grid(axes: Axes, size: int, visits: np.ndarray[Any, Any]) -> None:
    """A square grid whose squares are as dark as they were frequent, visits[x, y]."""
    shares = visits.T / max(visits.sum(), 1)
    axes.imshow(shares, origin="lower", cmap="Greys", vmin=0, vmax=0.18)
    axes.set_xticks(np.arange(-0.5, size), [])
    axes.set_yticks(np.arange(-0.5, size), [])
    axes.grid(color="#d6d0c4", lw=0.7)
    axes.tick_params(length=0)
    axes.set_xlim(-0.5, size - 0.5)
    axes.set_ylim(-0.5, size - 0.5)

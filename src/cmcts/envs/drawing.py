"""Small pictures of grids, as pixel arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]

GROUND: Colour = (244, 241, 234)
LINES: Colour = (214, 208, 196)
ROVER: Colour = (38, 70, 83)
CELL = 32  # pixels a square


class Painter:
    """A grid of squares on white ground; (0, 0) is bottom left, as in the environments."""

    def __init__(self, width: int, height: int) -> None:
        self.height = height
        self.pixels: NDArray[np.uint8] = np.full((height * CELL, width * CELL, 3), GROUND, np.uint8)
        self.pixels[::CELL] = LINES
        self.pixels[:, ::CELL] = LINES

    def square(self, x: int, y: int, colour: Colour, margin: int = 1) -> None:
        """Fill the square (x, y) with a colour, up to a margin in pixels."""
        top, left = (self.height - 1 - y) * CELL, x * CELL
        self.pixels[top + margin : top + CELL - margin + 1, left + margin : left + CELL - margin + 1] = colour

    def disc(self, x: int, y: int, colour: Colour) -> None:
        """Paint a disc in the middle of the square (x, y)."""
        top, left = (self.height - 1 - y) * CELL, x * CELL
        offsets = np.arange(CELL) - (CELL - 1) / 2
        inside = offsets[:, None] ** 2 + offsets[None, :] ** 2 <= (0.3 * CELL) ** 2
        self.pixels[top : top + CELL, left : left + CELL][inside] = colour

"""Small pictures of grids, as pixel arrays and as SVG."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]

GROUND: Colour = (244, 241, 234)
LINES: Colour = (214, 208, 196)
ROVER: Colour = (38, 70, 83)
CELL = 32  # pixels a square
SVG_COLOURS = {
    "ground": "#f4f1ea", "lines": "#d6d0c4", "ink": "#264653", "wind": "#bcdcee", "danger": "#eba893",
    "goal": "#a9dcc6", "rover": "#264653", "good": "#009e73", "bad": "#d55e00",
}  # fmt: skip


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


class SvgGrid:
    """The same as SVG: sharp at any size, and an element with `data-action` where each action leads.

    Colours are CSS variables with a default, so that a page may have its own for the dark.
    """

    def __init__(self, width: int, height: int, title: str, *, exit_east: bool = False) -> None:
        self.width, self.height = width, height
        beyond = CELL // 2 if exit_east else 0  # room for the way out
        size = f"{width * CELL + beyond} {height * CELL}"
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" role="img" aria-label="{title}">']
        self._rectangle(0, 0, width * CELL, height * CELL, "ground")
        steps = [f"M{k * CELL} 0V{height * CELL}" for k in range(width + 1)]
        steps += [f"M0 {k * CELL}H{width * CELL}" for k in range(height + 1)]
        self.parts.append(f'<path d="{"".join(steps)}" stroke="{self._colour("lines")}" fill="none"/>')
        if exit_east:
            self._word("exit", width * CELL + beyond / 2, height * CELL / 2, 9, rotate=90)

    def square(self, x: int, y: int, colour: str, word: str = "") -> None:
        """Fill the square (x, y), and write a word into it."""
        left, top = self._corner(x, y)
        self._rectangle(left + 1, top + 1, CELL - 2, CELL - 2, colour)
        if word:
            self._word(word, left + CELL / 2, top + CELL - 4, 7.5)

    def rock(self, x: int, y: int, number: int, chance: float) -> None:
        """A rock with its number and the chance that it is good; an empty place if it is collected."""
        left, top = self._corner(x, y)
        if chance < 0:
            self.parts.append(
                f'<rect x="{left + 7}" y="{top + 7}" width="{CELL - 14}" height="{CELL - 14}" rx="5" fill="none" '
                f'stroke="{self._colour("lines")}" stroke-width="2" stroke-dasharray="3 2"/>'
            )
            return
        shade = f"color-mix(in oklab, {self._colour('good')} {100 * chance:.0f}%, {self._colour('bad')})"
        self.parts.append(
            f'<rect x="{left + 4}" y="{top + 4}" width="{CELL - 8}" height="{CELL - 8}" rx="6" style="fill: {shade}"/>'
        )
        self._word(f"{number}", left + CELL / 2, top + 14, 8, fill="#fff")
        self._word(f"{chance:.2f}", left + CELL / 2, top + 24, 8.5, fill="#fff")

    def agent(self, x: int, y: int) -> None:
        """The agent, as a ring: what lies on its square stays visible."""
        left, top = self._corner(x, y)
        self.parts.append(
            f'<circle cx="{left + CELL / 2}" cy="{top + CELL / 2}" r="{CELL * 0.42}" fill="none" '
            f'stroke="{self._colour("rover")}" stroke-width="4"/>'
        )

    def target(self, action: int, x: int, y: int) -> None:
        """Where an action leads: an outline that is not shown until somebody points at the action."""
        left, top = self._corner(x, y)
        width = CELL / 2 if x == self.width else CELL
        if 0 <= x <= self.width and 0 <= y < self.height:
            self.parts.append(
                f'<rect data-action="{action}" x="{left + 1.5}" y="{top + 1.5}" width="{width - 3}" '
                f'height="{CELL - 3}" rx="4" fill="none" stroke-width="3"/>'
            )

    def text(self) -> str:
        """The whole picture."""
        return "".join([*self.parts, "</svg>"])

    def _corner(self, x: int, y: int) -> tuple[int, int]:
        return x * CELL, (self.height - 1 - y) * CELL

    def _colour(self, name: str) -> str:
        return f"var(--map-{name}, {SVG_COLOURS[name]})"

    def _rectangle(self, left: float, top: float, width: float, height: float, colour: str) -> None:
        place = f'x="{left}" y="{top}" width="{width}" height="{height}"'
        self.parts.append(f'<rect {place} fill="{self._colour(colour)}"/>')

    def _word(self, word: str, x: float, y: float, size: float, rotate: int = 0, fill: str = "") -> None:
        turned = f' transform="rotate({rotate} {x} {y})"' if rotate else ""
        self.parts.append(
            f'<text x="{x}" y="{y}" font-size="{size}" font-family="system-ui, sans-serif" text-anchor="middle" '
            f'fill="{fill or self._colour("ink")}"{turned}>{word}</text>'
        )

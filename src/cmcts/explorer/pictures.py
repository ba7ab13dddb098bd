"""What a world drew, as something that a page can show: each different picture once."""

from __future__ import annotations

import base64
import io
from typing import Any

from cmcts.evaluation.playing import Picture

MODES = ("svg", "rgb_array", "ansi")  # what a page shows best, first


class Album:
    """Pictures for a page, each one once; steps name theirs by number."""

    def __init__(self) -> None:
        self.pages: list[dict[str, str]] = []
        self._numbers: dict[str, int] = {}

    def add(self, picture: Picture) -> int:
        """The number of a picture, which may be known by now."""
        shown = {"mode": picture.mode, "content": _text(picture)}
        number = self._numbers.setdefault(shown["content"], len(self.pages))
        if number == len(self.pages):
            self.pages.append(shown)
        return number


def _text(picture: Picture) -> str:
    return _png(picture.content) if picture.mode == "rgb_array" else str(picture.content)


def _png(pixels: Any) -> str:
    """Pixels [height, width, 3] as a PNG file in base64."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png")
    return base64.b64encode(buffer.getvalue()).decode()

"""What a world drew, as something that a page can show: each different picture once."""

from __future__ import annotations

import base64
import io
import re
from typing import Any

from cmcts.evaluation.playing import Picture

_HIGHLIGHTED = re.compile(r"\x1b\[[1-9][0-9;]*m(.*?)\x1b\[0?m")  # a page knows no colours of a terminal
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
    if picture.mode == "rgb_array":
        return _png(picture.content)
    return _HIGHLIGHTED.sub(r"[\1]", picture.content) if picture.mode == "ansi" else str(picture.content)


def _png(pixels: Any) -> str:
    """Pixels [height, width, 3] as a PNG file in base64."""
    from matplotlib.image import imsave

    buffer = io.BytesIO()
    imsave(buffer, pixels, format="png")
    return base64.b64encode(buffer.getvalue()).decode()

"""One HTML file with everything inline: opens from disk, needs no network, and runs no code but its own.

What users named is data. It reaches the page as JSON in which no character can end the script element, and the page's
script writes it as text. A policy in the page forbids every script but ours, by its digest, and every connection.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from cmcts.errors import InvalidInput
from cmcts.files import write_atomically

# In the order in which they are read: each uses only what stands before it.
SCRIPTS = (
    "dom.js", "numbers.js", "columns.js", "charts.js", "timeline.js", "drawing.js", "decision.js", "tree_model.js",
    "tree.js", "frontier.js", "critic.js", "live.js", "main.js",
)  # fmt: skip


@dataclass(frozen=True)
class Page:
    """A page of the explorer; the last line of a notebook's cell shows it."""

    content: bytes

    def write(self, path: Path) -> None:
        """Write it to a file, and make its folder."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {error.strerror or error}") from None
        write_atomically(path, self.content)

    def _repr_html_(self) -> str:
        """For Jupyter: the page in a frame of its own, where its style meets nobody else's."""
        source = html.escape(self.content.decode(), quote=True)
        return (
            f'<iframe srcdoc="{source}" sandbox="allow-scripts" title="cmcts explorer" '
            'style="width: 100%; height: 860px; border: 1px solid #8888"></iframe>'
        )


def page(data: Mapping[str, Any], *, live: bool = False) -> Page:
    """The page that shows `data`; a live one may ask its server for more."""
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    if live:
        policy += "; connect-src 'self'"
    parts = {
        "policy": policy,
        "title": html.escape(str(data["about"]["task"])),
        "style": _static("style.css"),
        "data": to_json(data),
        "script": script,
    }
    # In one pass: what is put in is not looked at again, whatever it says.
    return Page(re.sub(r"{{(\w+)}}", lambda mark: parts[mark[1]], _static("page.html")).encode())


def to_json(data: Any) -> str:
    """JSON that may stand in a script element: nothing in it looks like a tag, and nothing is beyond ASCII."""
    text = json.dumps(_finite(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _finite(value: Any) -> Any:
    """What JSON has no word for is null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return value


@cache
def _script() -> str:
    return "\n".join(['(() => {\n"use strict";', *(_static(name) for name in SCRIPTS), "})();\n"])


@cache
def _static(name: str) -> str:
    return files("cmcts.explorer").joinpath("static", name).read_text(encoding="utf-8")

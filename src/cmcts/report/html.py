"""One HTML page with everything inline, so that it can be mailed, archived, and opened without a network."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence


def page(title: str, body: str) -> bytes:
    """A whole HTML page with a title and a body, as the content of a file."""
    return _PAGE.replace("{title}", html.escape(title)).replace("{body}", body).encode()


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of texts as HTML; the first column is left-aligned."""
    lines = [[f"<th>{html.escape(cell)}</th>" for cell in header]]
    lines += [[f"<td>{html.escape(cell)}</td>" for cell in row] for row in rows]
    return "<table>" + "\n".join("<tr>" + "".join(line) + "</tr>" for line in lines) + "</table>"


def image(png: bytes, description: str) -> str:
    """A picture as HTML, with its content inline and a description for those who do not see it."""
    data = base64.b64encode(png).decode()
    return f"<img alt='{html.escape(description, quote=True)}' src='data:image/png;base64,{data}'>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body { font-family: system-ui, sans-serif; color: #264653; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-size: .92rem; margin: .8rem 0; }
td, th { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
td:first-child, th:first-child { text-align: left; } img { max-width: 100%; } .note { color: #777; font-size: .9rem; }
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""

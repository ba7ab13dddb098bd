"""What the site adds to the pages while it is built: equations, the options of each command, files from the root.

Equations are written $...$ and $$...$$, which a code host renders as well. Here they become MathML, which browsers show
by themselves: no script has to be fetched to read them.
"""

from __future__ import annotations

import html
import io
import os
import re
from contextlib import redirect_stdout, suppress
from pathlib import Path
from textwrap import fill
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>([,.;:)]*)', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\\\[(.*?)\\\]</div>', re.DOTALL)
WIDTH = 88  # of the help of a command
# Files of the repository's root that are pages too, from where they are.
FROM_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
OPTIONS = re.compile(r"^<!-- options of ([\w-]+) -->$", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from the root."""
    for page, name in FROM_ROOT.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put what `cmcts COMMAND --help` prints where a page asks for it, and let links lead to the pages of the site."""
    in_root = page.file.src_uri in FROM_ROOT
    for target, name in FROM_ROOT.items():
        markdown = markdown.replace(f"]({name if in_root else f'../{name}'}", f"]({target}")
    if in_root:
        markdown = markdown.replace("](docs/", "](")
    return OPTIONS.sub(lambda match: f"```text\n{options(match[1])}\n```", markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Turn the equations of a page into MathML."""
    content = INLINE.sub(lambda match: f'<span class="unbroken">{mathml(match[1], "inline")}{match[2]}</span>', content)
    return BLOCK.sub(lambda match: f'<div class="equation">{mathml(match[1], "block")}</div>', content)


def mathml(escaped: str, display: str) -> str:
    """One equation, from its LaTeX as it stands in the HTML."""
    return convert(html.unescape(escaped).strip(), display=display)


def options(command: str) -> str:
    """The help of a command, as wide as a page."""
    os.environ["COLUMNS"] = str(WIDTH)
    from cmcts.cli import main

    printed = io.StringIO()
    with redirect_stdout(printed), suppress(SystemExit):
        main([command, "--help"])
    lines = printed.getvalue().strip().splitlines()
    return "\n".join(fill(line, WIDTH) if len(line) > WIDTH else line for line in lines)

"""Bring the tree of the library and its import contracts into docs/architecture.md.

    python docs/refresh_architecture.py

The tree is made from the packages' docstrings, each of which lists what lies in the package; the contracts are quoted
from pyproject.toml. A test sees to it that the page is up to date.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
SOURCE = ROOT / "src" / "cmcts"
MARKED = re.compile(r"(<!-- (tree|contracts) -->\n).*?(<!-- end -->)", re.DOTALL)
LISTED = re.compile(r"^(\w+\.py|\w+/) {2,}(\S.*)$", re.MULTILINE)
CONTRACTS = re.compile(
    r"^# The rooms in reading order.*?(?=\n\[(?!\[?tool\.importlinter)|\Z)", re.MULTILINE | re.DOTALL
)


def listed(package: Path) -> list[tuple[str, str]]:
    """(file or folder, what it is) as the docstring of a package has them."""
    return LISTED.findall(ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or "")


def lines(package: Path, indent: str) -> list[tuple[str, str]]:
    """The tree below a package, each line in two parts."""
    found = []
    for name, what in listed(package):
        found.append((indent + name, what))
        if (package / name / "__init__.py").is_file():
            found += lines(package / name, indent + "    ")
    return found


def tree() -> str:
    """Every package and file of the library in reading order, with one line each."""
    entries = lines(SOURCE, "    ")
    width = max(len(name) for name, _ in entries) + 2
    return "\n".join(["src/cmcts/", *(f"{name:{width}}{what}" for name, what in entries)])


def contracts() -> str:
    """The import-linter contracts, word for word."""
    match = CONTRACTS.search((ROOT / "pyproject.toml").read_text())
    assert match is not None
    return match[0].rstrip()


def refreshed(text: str) -> str:
    """The page with its marked parts made anew."""

    def part(match: re.Match[str]) -> str:
        language, content = ("text", tree()) if match[2] == "tree" else ("toml", contracts())
        return f"{match[1]}```{language}\n{content}\n```\n{match[3]}"

    return MARKED.sub(part, text)


if __name__ == "__main__":
    PAGE.write_text(refreshed(PAGE.read_text()))

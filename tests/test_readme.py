"""The documentation is true: its Python examples run and print what they are said to print, its links lead somewhere.

The blocks of a file run in order, in one fresh process. A ```text block directly after a Python block is what that
block prints; three dots in it stand for anything.
"""

from __future__ import annotations

import ast
import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES_WITH_EXAMPLES = [page for page in PAGES if "```python" in page.read_text()]
EXAMPLE = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
END_OF_BLOCK = "~~ end of block ~~"


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=name)
def test_examples_run_and_print_what_they_are_said_to(page, tmp_path):
    examples = EXAMPLE.findall(page.read_text())
    script = tmp_path / "examples.py"
    script.write_text("".join(f"{code}\nprint({END_OF_BLOCK!r})\n" for code, _ in examples))
    run = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    *printed, rest = run.stdout.split(f"{END_OF_BLOCK}\n")
    assert rest == ""
    for (code, shown), real in zip(examples, printed, strict=True):
        alike = doctest.OutputChecker().check_output(shown, real, doctest.ELLIPSIS)
        assert not shown or alike, f"{code}\nis said to print\n{shown}\nand prints\n{real}"


def test_the_readme_has_examples():
    assert ROOT / "README.md" in PAGES_WITH_EXAMPLES


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page, least", [("concepts.md", 12), ("research.md", 6)])
def test_the_code_that_pages_name_exists(page, least):
    """`pruning.py`: `prune`, `trusted` and the like."""
    named = re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, and |, )?)+)", (ROOT / "docs" / page).read_text())
    assert len(named) >= least
    for file, names in named:
        tree = ast.parse((ROOT / "src" / "cmcts" / file).read_text())
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set(re.findall(r"`(\w+)`", names)) <= defined, file

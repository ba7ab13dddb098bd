"""The documentation site builds without a warning, and its pages can be read without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from mkdocstrings import Inventory

import cmcts

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0 and "WARNING" not in run.stderr, run.stderr
    return folder


def pages(site):
    return {str(page.relative_to(site)): page.read_text() for page in site.rglob("*.html")}


def test_nothing_is_fetched_to_read_a_page(site):
    fetched = re.compile(r'<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)="(https?:)?//[^"]*"|@import')
    styles = {str(style): style.read_text() for style in site.rglob("*.css")}
    assert {name for name, text in pages(site).items() if fetched.search(text)} == set()
    assert {name for name, text in styles.items() if re.search(r"url\(['\"]?(https?:)?//", text)} == set()


def test_equations_are_mathml(site):
    concepts = pages(site)["concepts.html"]
    assert concepts.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') >= 15
    assert {name for name, text in pages(site).items() if "arithmatex" in text or "merror" in text} == set()


def test_images_have_a_text_for_those_who_do_not_see_them(site):
    images = [image for text in pages(site).values() for image in re.findall(r"<img\b[^>]*>", text)]
    assert len(images) >= 2
    assert [image for image in images if not re.search(r'alt="[^"]+"', image)] == []


def test_every_exported_name_is_in_the_reference(site):
    with (site / "objects.inv").open("rb") as file:
        documented = set(Inventory.parse_sphinx(file))
    exported = {f"{getattr(cmcts, name).__module__}.{name}" for name in cmcts.__all__ if not name.startswith("__")}
    assert exported - documented == set()


def test_commands_show_their_options(site):
    commands = pages(site)["commands.html"]
    assert "--iterations" in commands and "usage: cmcts train" in commands and "options of" not in commands


def test_every_command_is_explained():
    from cmcts.cli import COMMANDS

    explained = re.findall(r"^<!-- options of ([\w-]+) -->$", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(COMMANDS)

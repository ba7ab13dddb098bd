"""The house: few modules at the door, every package's docstring a list of what lies in it, in one reading order."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cmcts"
PACKAGES = sorted(file.parent for file in SOURCE.rglob("__init__.py"))
LISTED = re.compile(r"^(\w+\.py|\w+/) {2,}\S", re.MULTILINE)


def listed(package):
    return LISTED.findall(ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or "")


def contained(package):
    modules = {file.name for file in package.glob("*.py")} - {"__init__.py"}
    folders = {f"{folder.name}/" for folder in package.iterdir() if folder.is_dir() and folder.name != "__pycache__"}
    return modules | folders


def test_few_modules_lie_directly_in_the_library():
    assert len(list(SOURCE.glob("*.py"))) <= 12


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(SOURCE.parent)))
def test_a_package_lists_exactly_what_lies_in_it(package):
    assert sorted(listed(package)) == sorted(contained(package))


def test_packages_are_listed_in_the_order_that_the_contract_enforces():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(contract["layers"] for contract in settings["contracts"] if contract["type"] == "layers")
    place = {
        name.strip().removeprefix("cmcts."): depth
        for depth, layer in enumerate(reversed(layers))
        for name in layer.split("|")
    }
    rooms = [name.removesuffix(".py").removesuffix("/") for name in listed(SOURCE)]
    assert set(rooms) - set(place) == {"__main__", "_moved"}  # the ways in and out, which no room leans on
    order = [place[room] for room in rooms if room in place]
    assert order == sorted(order)

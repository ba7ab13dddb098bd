"""The house: few modules at the door, every package's docstring a list of what lies in it, in one reading order."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "cmcts"
PACKAGES = sorted(file.parent for file in SOURCE.rglob("__init__.py"))
spec = importlib.util.spec_from_file_location("refresh_architecture", ROOT / "docs" / "refresh_architecture.py")
refresh = importlib.util.module_from_spec(spec)
spec.loader.exec_module(refresh)


def listed(package):
    return [name for name, _ in refresh.listed(package)]


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


def test_the_page_about_the_architecture_shows_the_tree_and_the_contracts_as_they_are():
    text = refresh.PAGE.read_text()
    assert [match[2] for match in refresh.MARKED.finditer(text)] == ["tree", "contracts"]
    assert refresh.refreshed(text) == text, "out of date: run `python docs/refresh_architecture.py`"


@pytest.mark.parametrize(
    "page, least", [("docs/architecture.md", 10), ("CONTRIBUTING.md", 20), ("docs/licences.md", 3)]
)
def test_files_that_pages_name_exist(page, least):
    named = re.findall(r"`([\w/]+\.py)`", (ROOT / page).read_text())
    assert len(named) >= least
    assert [
        name for name in named if "NAME" not in name and not any((top / name).is_file() for top in (ROOT, SOURCE))
    ] == []


def test_make_targets_that_contributors_are_told_of_exist():
    told = set(re.findall(r"^make ([\w-]+)", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert len(told) >= 4 and told <= targets


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = importlib.import_module("cmcts").__version__
    assert project["version"] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{version}}}" in (ROOT / "docs" / "citing.md").read_text()
    assert re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0] == version


def test_what_is_said_to_be_public_is_there():
    page = (ROOT / "docs" / "stability.md").read_text()
    said = re.search(r"\*\*Names that a package exports\*\*(.*?)\n- ", page, re.DOTALL)[1]
    packages, modules = (re.findall(r"`(cmcts\.[\w.]+)`", part) for part in said.split("and the modules"))
    assert len(packages) >= 10 and len(modules) == 3
    for package in packages:
        module = importlib.import_module(package)
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
    exporting = {f"cmcts.{folder.relative_to(SOURCE)}".replace("/", ".") for folder in PACKAGES if folder != SOURCE}
    exporting = {name for name in exporting if hasattr(importlib.import_module(name), "__all__")}
    assert exporting == set(packages)
    assert all(importlib.import_module(name).__doc__ for name in modules)


def test_only_what_is_tested_is_claimed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = {c.rpartition(" ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    page = (ROOT / "docs" / "stability.md").read_text()
    assert versions == set(re.findall(r"^\| Linux, Python (3\.\d+) \| yes \|", page, re.MULTILINE)) != set()

"""The pictures of the architecture show the code as it is: what each says that it draws is drawn anew and compared."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

IMAGES = Path(__file__).parent.parent / "docs" / "images"


def script(name):
    spec = importlib.util.spec_from_file_location(f"picture_{name}", IMAGES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["layers", "decision"])
def test_a_picture_shows_the_code_as_it_is(name):
    description = ElementTree.parse(IMAGES / f"{name}.svg").find(".//{http://purl.org/dc/elements/1.1/}description")
    assert json.loads(description.text) == script(name).drawn(), "out of date: run `make images`"


def test_no_import_goes_against_the_order_but_those_that_the_contract_names():
    picture = script("layers").drawn()
    depth = {room: number for number, layer in enumerate(picture["layers"]) for room in layer}
    against = [pair for pair in picture["imports"] if depth[pair[0]] >= depth[pair[1]]]
    assert against == picture["passed"]


def test_a_decision_goes_through_the_four_phases():
    called = [call for caller, call in script("decision").drawn() if caller == "search/kernels:simulate"]
    phases = ("kernels:select", "kernels:expand", "rollouts:rollout", "kernels:backup")
    assert called == [f"search/{phase}" for phase in phases]

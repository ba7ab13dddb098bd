"""The zoo: problems from outside, found by name, made when they are asked for, with the figures that are claimed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

import cmcts
from cmcts import cli
from cmcts.errors import InvalidInput
from cmcts.zoo import PROBLEMS


def test_nothing_is_imported_before_it_is_asked_for():
    script = """
import sys
import cmcts
cmcts.make("rocksample-5-7")
before = [name for name in sys.modules if name.startswith("cmcts.zoo")]
try:
    cmcts.make("no-such-task")
except cmcts.InvalidInput:
    pass
print(before, [name for name in sys.modules if name.startswith("cmcts.zoo")], "gymnasium" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == "[] ['cmcts.zoo'] False\n"


def test_every_problem_is_listed_with_what_it_is(capsys):
    assert cli.main(["tasks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    assert [name for name in PROBLEMS if first.count(name) != 1] == []


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_problem_says_where_it_is_made(problem):
    module, _, function = problem.maker.partition(":")
    spec = importlib.util.find_spec(f"cmcts.zoo.{module}")
    assert spec is not None and f"\ndef {function}(" in spec.loader.get_source(spec.name)


def test_a_name_that_is_almost_one_of_them():
    with pytest.raises(InvalidInput, match=r"icu-sepsis-two, .*\(did you mean icu-sepsis\?\); got 'icu-sepsi'$"):
        cmcts.make("icu-sepsi")


@pytest.mark.parametrize("command", ["solve", "train", "evaluate", "plan"])
def test_what_a_problem_needs_is_said_in_one_line(monkeypatch, capsys, tmp_path, command):
    monkeypatch.setitem(sys.modules, "icu_sepsis", None)
    monkeypatch.chdir(tmp_path)
    assert cli.main([command, "icu-sepsis"]) == 2
    expected = "cmcts: task icu-sepsis needs icu-sepsis, got no icu-sepsis here: pip install 'cmcts[zoo]'\n"
    assert capsys.readouterr() == ("", expected)
    assert list(tmp_path.iterdir()) == []

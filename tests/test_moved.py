"""Paths of release 0.1 still lead to what they named, and say once where it is now."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import warnings
from pathlib import Path

import pytest

from cmcts._moved import MOVED

# What the pages of release 0.1 imported, spoke of or showed in the reference for users, by the module it was in.
DOCUMENTED = {
    "agent": "Agent",
    "bundle": "Bundle load save shipped",
    "check": "check_model",
    "critic": "SafetyCritic ensemble immediate_costs_only",
    "decision": "Decision",
    "envs.rocksample": "rocksample_model",
    "envs.safe_gridworld": "safe_gridworld_model",
    "errors": "InvalidInput ModelError",
    "evaluation": "Episodes Transitions run_episodes world_seed",
    "exact": "Solution Values action_values best_policy evaluate least_cost_to_go occupation_measure penalized_values "
    "policy_cost_to_go solve",
    "finite": "FiniteCMDP TooManyStates enumerate_states",
    "learning": "CriticSettings batch_targets feasible_value td_loss td_target",
    "model": "Model",
    "monitor": "Intervention SafetyMonitor",
    "multipliers": "MultiplierSettings next_multipliers",
    "optimum": "Optimum optimum solve_task",
    "planners": "CCMCP CCMCPSettings CMCTS PenalizedMCTS",
    "planning": "Planner SearchSettings",
    "pruning": "PruningSettings",
    "random": "stream streams uniform",
    "random_models": "RandomProblem TabularParams random_problem tabular_cmdp tabular_model",
    "runs": "RunFolder write_atomically",
    "search": "Rules",
    "session": "SearchSession",
    "statistics": "Interval mean_interval paired_difference rate_interval standard_error",
    "tables": "read_rows write_rows write_table",
    "tasks": "Task energy_task make named_task random_task rocksample_task safe_gridworld_task",
    "training": "Outcome Reporter Silence train",
    "training_settings": "TrainingSettings paper_settings run_config",
    "tree": "NO_NODE ROOT Tree",
    "worlds": "EnvWorld ModelWorld",
}


def run_as_users_script(code):
    """The warnings that a script of this one line gets; the line is number 3."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(f"\n\n{code}\n", "users_script.py", "exec"), {})
    return caught


@pytest.fixture
def never_imported():
    """Old modules as a fresh process finds them: a module that is known already says nothing."""
    for old in MOVED:
        sys.modules.pop(f"cmcts.{old}", None)


@pytest.mark.parametrize(
    "statement",
    ["import cmcts.{}", "from cmcts.{} import __name__", "import importlib; importlib.import_module('cmcts.{}')"],
    ids=["import", "from", "importlib"],
)
@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_warns_once_where_it_is_imported(never_imported, old, statement):
    caught = run_as_users_script(statement.format(old))
    assert [(warning.category, warning.filename, warning.lineno) for warning in caught] == [
        (DeprecationWarning, "users_script.py", 3)
    ]
    message = str(caught[0].message)
    assert message.startswith(f"cmcts.{old} has moved to cmcts.{MOVED[old][0]}")
    assert all(f"cmcts.{place}" in message for place in MOVED[old]) and message.endswith("goes with release 0.3")
    assert run_as_users_script(statement.format(old)) == []


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_is_free_and_its_new_ones_exist(old):
    parent, _, name = f"cmcts.{old}".rpartition(".")
    folder = importlib.import_module(parent).__path__
    assert importlib.machinery.PathFinder.find_spec(f"{parent}.{name}", folder) is None
    assert [place for place in MOVED[old] if importlib.util.find_spec(f"cmcts.{place}") is None] == []


@pytest.mark.parametrize("module", DOCUMENTED)
def test_what_the_documentation_of_0_1_named_is_where_it_was(never_imported, module):
    names = DOCUMENTED[module].replace(" ", ", ")
    caught = run_as_users_script(f"from cmcts.{module} import {names}")
    moved = [DeprecationWarning] if module in MOVED else []
    assert [warning.category for warning in caught if "has moved" in str(warning.message)] == moved


def test_names_are_the_same_objects_in_both_places():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = importlib.import_module("cmcts.planners")
    assert old.CMCTS is importlib.import_module("cmcts").CMCTS
    with pytest.raises(AttributeError, match=r"^module 'cmcts.planners' has no attribute 'Chess'$"):
        _ = old.Chess


def test_the_changelog_says_where_everything_is_now():
    text = (Path(__file__).parent.parent / "CHANGELOG.md").read_text()
    rows = re.findall(r"^\| `cmcts\.([\w.]+)` \| (.*) \|$", text, re.MULTILINE)
    assert {old: tuple(re.findall(r"`cmcts\.([\w.]+)`", new)) for old, new in rows} == MOVED

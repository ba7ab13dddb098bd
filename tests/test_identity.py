"""What a critic was made for: other parameters are refused, other code and other budgets are said aloud."""

import dataclasses
import importlib.util
import warnings

import numpy as np
import pytest

import cmcts
from cmcts import cli
from cmcts.critic import bundle as bundles
from cmcts.critic.identity import changed_code, code_digests, model_digest
from cmcts.errors import BudgetWarning, InvalidInput, ModelWarning
from cmcts.tasks.registry import make
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import TrainingSettings, run_config, settings_from_config

SOURCE = """
from typing import NamedTuple
import numba
from cmcts import Model
from cmcts.random import uniform

SLIP = 0.1

class Params(NamedTuple):
    length: float

@numba.njit
def slips(rng):
    return uniform(rng) < SLIP

def step(params, state, action, rng, next_state, costs):
    # walk
    next_state[0] = state[0] if slips(rng) else state[0] + 1.0
    costs[0] = 0.0
    return 1.0, next_state[0] >= params.length

def legal_actions(params, state, out):
    out[0], out[1] = 0, 1
    return 2

def features(params, state, out):
    out[0] = state[0]

def start(params, rng, state):
    state[0] = 0.0

def model(length=5.0):
    return Model("walk", Params(length), step, legal_actions, features, start, 1, 2, 1, action_names=("go", "wait"))
"""


def model_of(tmp_path, source=SOURCE, **changes):
    """The model of a file with this text; every file is a module of its own."""
    path = tmp_path / f"walk_{len(list(tmp_path.iterdir()))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dataclasses.replace(module.model(), **changes)


def test_the_same_text_in_another_file_is_the_same_code(tmp_path):
    one, other = model_of(tmp_path), model_of(tmp_path)
    assert changed_code(code_digests(one), other) == []
    assert set(code_digests(one)) >= {"step", "legal_actions", "features", "start", "names"}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("return 1.0,", "return 2.0,", ["step"]),
        ("SLIP = 0.1", "SLIP = 0.2", ["step"]),  # a constant that a helper names
        ("uniform(rng) < SLIP", "uniform(rng) > SLIP", ["step"]),
        ("out[0] = state[0]", "out[0] = -state[0]", ["features"]),
        ('("go", "wait")', '("wait", "go")', ["names"]),
        ("import numba", "import numba, math", []),  # nothing that the model reaches
    ],
)
def test_what_has_changed_is_named(tmp_path, old, new, changed):
    assert SOURCE.count(old) == 1
    before, after = model_of(tmp_path), model_of(tmp_path, SOURCE.replace(old, new))
    assert changed_code(code_digests(before), after) == changed
    assert model_digest(before) == model_digest(after), "sizes and parameters are the same"


def test_a_function_without_a_text_is_not_compared(tmp_path):
    namespace = {"__name__": "shell"}
    exec(SOURCE, namespace)  # as if typed into a shell
    typed = namespace["model"]()
    assert set(code_digests(typed)) <= {"names", "rollout_action", "expected_costs"}
    assert changed_code(code_digests(model_of(tmp_path)), typed) == []


def test_a_bundle_warns_about_other_code_and_refuses_other_parameters(tmp_path):
    model, other = model_of(tmp_path), model_of(tmp_path, SOURCE.replace("return 1.0,", "return 2.0,"))
    bundle = bundles.Bundle(
        task="walk",
        model_digest=model_digest(model),
        feature_description="",
        layers=None,
        cost_count=1,
        search=cmcts.SearchSettings(),
        pruning=cmcts.PruningSettings(),
        budget=(0.0,),
        training={},
        library="0.2",
        code=code_digests(model),
    )
    bundles.save(bundle, tmp_path / "saved")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundles.load(tmp_path / "saved", model)
    with pytest.warns(ModelWarning, match=r"with another step than model 'walk' has now \(cmcts 0.2\)"):
        bundles.load(tmp_path / "saved", other)
    longer = dataclasses.replace(model, params=model.params._replace(length=6.0))
    with pytest.raises(InvalidInput, match="whose model differs"):
        bundles.load(tmp_path / "saved", longer)


def test_a_run_is_resumed_only_with_the_code_and_the_library_that_it_was_begun_with(tmp_path):
    task = cmcts.Task("walk", model_of(tmp_path), budget=0.0)
    run = RunFolder.create(tmp_path / "run", run_config(task, TrainingSettings.for_task(task)))
    assert settings_from_config(task, run.config, run.path) == TrainingSettings.for_task(task)
    changed = dataclasses.replace(task, model=model_of(tmp_path, SOURCE.replace("SLIP = 0.1", "SLIP = 0.2")))
    with pytest.raises(InvalidInput, match="was begun with another step of the model than it has now"):
        settings_from_config(changed, run.config, run.path)
    with pytest.raises(InvalidInput, match=r"was begun with cmcts 0\.0, got"):
        settings_from_config(task, run.config | {"library": "0.0"}, run.path)


def test_an_agent_says_that_its_critic_was_trained_for_another_budget():
    planner = cmcts.CMCTS.load("safe-gridworld")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cmcts.Agent(planner, 0.0)
        cmcts.Agent(cmcts.CMCTS(planner.model, planner.critic), 0.1)  # nothing is known of its training
    with pytest.warns(BudgetWarning, match=r"expected a budget of \[0.0\].*got \[0.1\]") as caught:
        cmcts.Agent(planner, 0.1)
    assert caught[0].filename == __file__


def test_the_command_line_says_so_in_one_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["plan", "safe-gridworld", "--keep", "episode", "--budget", "0.1", "--iterations", "4"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(said) == 1 and said[0].startswith("cmcts: warning: expected a budget of [0.0]")


def test_shipped_bundles_fit_the_models_that_ship():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("safe-gridworld", "rocksample-5-7", "rocksample-7-8", "rocksample-11-11", "rocksample-15-15"):
            bundle = bundles.load(name, make(name).model)
            assert np.isfinite(bundle.budget).all()

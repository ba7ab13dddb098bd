"""Tasks by name: their models, worlds and budgets are the paper's."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import pytest

import cmcts
from cmcts import cli
from cmcts.critic import bundle as bundles
from cmcts.critic.identity import model_digest
from cmcts.errors import InvalidInput
from cmcts.model.interface import Model
from cmcts.tasks.registry import NAMES, make, named_task
from cmcts.tasks.task import Task


@pytest.mark.parametrize("name", NAMES)
def test_named_tasks(name):
    task = make(name)
    assert task.name == name
    assert task.discount == 0.95
    world = task.real_world()
    state, _ = world.reset(seed=0)
    assert task.model.validate_state(state).tolist() == state.tolist()
    assert world.action_space.n == task.model.action_count


def test_rocksample():
    task = make("rocksample-7-8")
    assert task.budget == (1.0,)
    assert (task.model.state_size, task.model.action_count, task.model.feature_count) == (10, 13, 18)
    for world in (task.training_world(), task.real_world()):
        assert world.params.accuracy.tolist() == task.model.params.accuracy.tolist()
    assert make("rocksample-4-3").model.params.rocks.shape == (3, 2)


def test_a_better_sensor_in_training_is_a_worse_one_in_reality():
    """The accuracy ablation: planner and training world believe in d0 = 60, the real world has 20."""
    task = make("rocksample-7-8-d60")
    assert task.name == "rocksample-7-8-d60"
    accuracies = [
        params.accuracy[0, 7] for params in (task.model.params, task.training_world().params, task.real_world().params)
    ]
    distance = (1 + 6**2) ** 0.5  # of rock 7 at (1, 6) from (0, 0)
    assert accuracies == pytest.approx([(1 + 2 ** (-distance / d0)) / 2 for d0 in (60, 60, 20)])


def test_safe_gridworld():
    task = make("safe-gridworld")
    assert task.budget == (0.0,)
    winds = [model.params.wind for model in (task.model, task.training_world().model, task.real_world().model)]
    assert winds == [0.0, 0.25, 0.3]


@pytest.mark.parametrize("name", ["", "rocksample", "rocksample-7", "rocksample-7-8-9", "Safe-Gridworld", "chess"])
def test_unknown_tasks_are_refused(name):
    with pytest.raises(
        InvalidInput, match=rf"^expected a task: one of .*rocksample-7-8.*; got {re.escape(repr(name))}$"
    ):
        make(name)


def test_impossible_maps_are_refused():
    with pytest.raises(InvalidInput, match=r"^expected from 1 to 9 rocks on a 3 x 3 grid, got 10$"):
        make("rocksample-3-10")


EXAMPLES = Path(__file__).parent.parent / "examples"

MINE = """
import cmcts
from neighbour import BUDGET

model = cmcts.make("rocksample-3-2").model
task = cmcts.Task("mine", model, BUDGET)
number = 7


def made():
    return cmcts.Task("made", model, [0.25], description="by a function")


def broken():
    return {}["missing"]


class Group:
    inner = task
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "neighbour.py").write_text("BUDGET = 0.75\n")
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    return tmp_path / "mine.py"


def test_a_task_in_a_file(mine, monkeypatch):
    task = make(f"{mine}:task")
    assert (task.name, task.budget, task.source) == ("mine", (0.75,), f"{mine}:task")
    assert make(f"{mine}:made").description == "by a function"
    assert make(f"{mine}:Group.inner").name == "mine"
    monkeypatch.chdir(mine.parent)
    assert make("mine.py:task").source == f"{mine}:task"  # good from any folder
    assert make("mine:task").name == "mine"  # as a module that can be imported from here


def test_an_edited_file_is_read_again(mine):
    assert make(f"{mine}:task").name == "mine"
    mine.write_text(MINE.replace('"mine"', '"mine-2"'))
    assert make(f"{mine}:task").name == "mine-2"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere.py:task", "cannot read .*nowhere.py: No such file or directory"),
        ("mine.py", "expected FILE.py:NAME or MODULE:NAME, such as my_project.py:task, got 'mine.py'"),
        ("mine.py:", "expected FILE.py:NAME or MODULE:NAME"),
        (
            "mine.py:tusk",
            "expected mine.py to define 'tusk', got only BUDGET, Group, broken, cmcts, made, model, number",
        ),
        ("mine.py:number", "expected mine.py:number to be a Task, or a function that returns one, got int: 7"),
        ("mine.py:model", "expected mine.py:model to be a Task, or a function that returns one, got Model"),
        ("mine.py:broken", r"mine.py:broken\(\) raised KeyError: 'missing', mine.py line 15"),
        ("no_such_module:task", "expected a module that can be imported from here, got 'no_such_module'"),
        ("raises.py:task", "raises.py raised ZeroDivisionError: division by zero, raises.py line 2"),
        ("exits.py:task", "exits.py raised SystemExit: 3, exits.py line 1"),
        ("wrong.py:task", "wrong.py is not valid Python: line 1: invalid syntax"),
        ("bad_name.py:task", r"expected a task name of letters, digits and \. _ \+ -, got '\.\./up'"),
    ],
)
def test_mistakes_in_a_reference_are_told_in_one_line(mine, monkeypatch, capsys, reference, message):
    monkeypatch.chdir(mine.parent)
    Path("raises.py").write_text("x = 1\ny = x / 0\n")
    Path("exits.py").write_text("raise SystemExit(3)\n")
    Path("wrong.py").write_text("task = = 3\n")
    Path("bad_name.py").write_text(
        "import cmcts\ntask = cmcts.Task('../up', cmcts.make('rocksample-3-2').model, 1.0)\n"
    )
    with pytest.raises(InvalidInput, match=message):
        make(reference)
    assert cli.main(["plan", reference]) == 2
    err = capsys.readouterr().err
    assert err.startswith("cmcts: ") and err.count("\n") == 1


def test_commands_take_a_task_in_a_file(mine, capsys):
    assert cli.main(["plan", f"{mine}:task", "--iterations", "8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["budget"] == [0.75]


def test_worlds_default_to_the_model():
    task = Task("small", make("rocksample-3-2").model, 1.0)
    assert task.training_world().model is task.real_world().model is task.real_model is task.model
    other = dataclasses.replace(task, model=make("rocksample-4-2").model)
    assert other.real_world().model is other.real_model is other.model
    kept = dataclasses.replace(task, real_world=make("rocksample-3-2").real_world, real_model=None)
    assert kept.real_model is None
    with pytest.raises(InvalidInput, match="expected a Model to plan with, got 3"):
        Task("small", 3, 1.0)
    with pytest.raises(InvalidInput, match="expected a function real_world that makes a world, got 5"):
        Task("small", task.model, 1.0, real_world=5)


def test_installed_packages_register_tasks(tmp_path, monkeypatch, capsys):
    """A fake distribution: its metadata and one module, on the path as if it were installed."""
    info = tmp_path / "fake_tasks-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-tasks\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[cmcts.tasks]\nfake-rocks = fake_tasks:rocks\nfake-number = fake_tasks:number\nfake-gone = fake_tasks:gone\n"
    )
    (tmp_path / "fake_tasks.py").write_text(
        "import cmcts\nnumber = 3\n"
        "def rocks():\n    return cmcts.Task('fake-rocks', cmcts.make('rocksample-3-2').model, 0.5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert make("fake-rocks").budget == (0.5,)
    with pytest.raises(InvalidInput, match=r"expected fake_tasks:number to be a Task, .* got int: 3"):
        make("fake-number")
    with pytest.raises(
        InvalidInput, match=r"the registered task 'fake-gone' \(fake_tasks:gone\) raised AttributeError"
    ):
        make("fake-gone")
    with pytest.raises(InvalidInput, match=r"one of .*fake-rocks, or rocksample-N-M\[-energy\], random-KIND-SEED"):
        make("chess")
    (info / "entry_points.txt").write_text("[cmcts.tasks]\nfake-rocks = fake_tasks:rocks\n")
    assert cli.main(["tasks"]) == 0
    assert "fake-rocks" in capsys.readouterr().out


def test_a_bundle_does_not_get_to_run_a_file(mine, tmp_path):
    """Its task's name may say where a file is: nothing happens but an error."""
    folder = tmp_path / "bundle"
    bundles.save(dataclasses.replace(bundles.load(bundles.shipped("rocksample-5-7")), task=f"{mine}:task"), folder)
    with pytest.raises(InvalidInput, match=r"expected the model of task .*mine.py:task' as an argument, got none"):
        cmcts.CMCTS.load(folder)
    assert "neighbour" not in sys.modules
    assert cmcts.CMCTS.load(folder, make("rocksample-5-7").model).model.action_count == 12
    with pytest.raises(InvalidInput, match="expected a task: one of"):
        named_task(f"{mine}:task")


def test_a_critic_is_for_one_problem():
    """Names, sizes and parameters tell models apart, also where parameters are words."""
    town = make(f"{EXAMPLES}/plain_python.py:task").model
    changed = dataclasses.replace(town, params={**town.params, "market": {"depot": 0.5}})
    assert model_digest(town) == model_digest(dataclasses.replace(town))
    assert len({model_digest(m) for m in (town, changed, dataclasses.replace(town, name="city"))}) == 3
    ragged = dataclasses.replace(town, params=([1, 2], [3], {"a"}, None))
    assert model_digest(ragged) != model_digest(dataclasses.replace(town, params=([1, 2], [4], {"a"})))


def test_models_of_environments_are_told_apart_by_what_they_simulate():
    import gymnasium

    def lake(**settings):
        return model_digest(Model.from_env(lambda: gymnasium.make("FrozenLake-v1", **settings), name="lake"))

    assert lake() == lake() != lake(success_rate=0.9)

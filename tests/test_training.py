"""Training: what is gathered, what is kept, and that a killed run ends with the same bits."""

import dataclasses
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from numba import config

pytest.importorskip("jax")

from cmcts.critic import bundle as bundles
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import Transitions
from cmcts.exact.random_problems import random_problem
from cmcts.frontier.settings import FrontierSettings
from cmcts.planning.planners import CMCTS
from cmcts.random import stage_seed
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task
from cmcts.training.critics import Critics
from cmcts.training.dataset import as_batch
from cmcts.training.judging import Judging
from cmcts.training.loop import train
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.paper import paper_settings
from cmcts.training.reporting import Silence
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config, settings_from_config
from cmcts.training.stages import Stages
from models import climb_model

TASK = make("rocksample-3-2")

pytestmark = pytest.mark.skipif(
    bool(config.DISABLE_JIT), reason="takes many minutes uncompiled; the search it plans with is tested so elsewhere"
)


def small_settings(**changes):
    defaults = {
        "iterations": 16,
        "steps_per_multiplier": 100,
        "walk_steps": 200,
        "max_rounds": 2,
        "patience": 1,
        "evaluation_episodes": 200,
        "choose_exploration": False,
        "untrained": False,  # eight neurons are no match for it
        "tolerances": (0.02, 0.1),
        "critic": CriticSettings(hidden=(8,), steps=300, batch=32, learning_rate=1e-3),
        "multiplier": MultiplierSettings(max_updates=2),
        "frontier": FrontierSettings(
            columns=7, search_factors=(1,), screening_episodes=4, choosing_episodes=6, confirming_episodes=8
        ),
    }
    return TrainingSettings.for_task(TASK, **(defaults | changes))


def begin(path, settings):
    return RunFolder.create(path, run_config(TASK, settings))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("training") / "run"
    counter = Counter()
    outcome = train(TASK, small_settings(), begin(path, small_settings()), counter)
    return path, outcome, counter.signs


class Counter(Silence):
    """Counts the signs of life of a training."""

    signs = 0

    def advance(self, units, **figures):
        self.signs += 1


def test_a_small_training_ends_with_a_feasible_bundle(finished):
    path, outcome, _ = finished
    assert outcome.record["feasible"]
    assert outcome.record["cost_mean"] + outcome.record["cost_se"] <= 1.0 + 1e-9
    loaded = bundles.load(path, TASK.model)
    assert loaded.task == "rocksample-3-2"
    assert loaded.pruning.tolerance == outcome.record["tolerance"]
    assert loaded.training["episodes"] >= 400


def test_a_training_begins_with_walks_and_keeps_where_its_data_lies(finished):
    path, outcome, _ = finished
    run = RunFolder.open(path)
    assert run.history[0]["phase"] == "walk"
    walks = Transitions(**run.load("transitions/walk.safetensors"))
    assert len(walks) == run.history[0]["walked"] >= 200
    support = outcome.bundle.support
    held_out = [row["held_out"] for row in run.history if row["phase"] == "fit"][outcome.record["round"]]
    transitions = [row["transitions"] for row in run.history if row["phase"] == "fit"][outcome.record["round"]]
    assert support.visits.sum() == transitions - held_out
    assert bundles.load(path, TASK.model).support.radius == support.radius


def test_tolerances_below_the_critics_own_error_are_not_tried(tmp_path):
    settings = small_settings(tolerances=(0.05, 0.02, 0.1))
    run = begin(tmp_path / "run", settings)
    critics = Critics(Stages(TASK, settings, run, Silence(), "cpu", None))
    expected = [
        (0.01, (0.05, 0.02, 0.1), (0.01,)),
        (0.03, (0.05, 0.1), (0.02,)),
        (0.5, (0.1,), (0.05, 0.02)),
        (1e-5, None, (0.001,)),
    ]
    for round_, (error, tried, finer) in enumerate(expected):
        run.finish(f"fit {round_}", {"error": error})
        assert critics.tolerances(round_) == (tried or settings.tolerances)
        assert critics.finer_tolerances(round_) == finer, "for where all others spend too much"


def test_a_policy_that_is_to_be_watched_is_learnt_from(tmp_path):
    settings = small_settings(max_rounds=1, frontier=FrontierSettings(columns=0))
    run = begin(tmp_path / "run", settings)
    measure = 5
    train(TASK, settings, run, watch=lambda state: measure)
    assert [row["phase"] for row in run.history[:2]] == ["walk", "watch"]
    shares = [
        (run.load(f"transitions/{phase}.safetensors")["actions"] == measure).mean() for phase in ("walk", "watch")
    ]
    assert shares[1] > shares[0] + 0.2


@pytest.mark.slow  # half a minute: a search of its own to compile, and a training
def test_dangers_that_strike_by_chance_are_accounted_for_in_expectation(tmp_path):
    """Who survives a ledge climbs on by paid accounting, and no tolerance is feasible; expected accounting is."""
    search = SearchSettings(discount=0.9, exploration=2.0, horizon=10)
    task = Task("climb", climb_model(), budget=0.3, search=search)
    settings = TrainingSettings.for_task(
        task,
        iterations=32,
        steps_per_multiplier=300,
        walk_steps=1000,
        max_rounds=1,
        evaluation_episodes=400,
        tolerances=(0.02, 0.05),
        critic=CriticSettings(hidden=(16,), steps=1500, batch=64),
        frontier=FrontierSettings(columns=0),
    )
    run = RunFolder.create(tmp_path / "run", run_config(task, settings))
    outcome = train(task, settings, run)
    evaluations = [row for row in run.history if row["phase"] == "evaluate"]
    # 0.02 is below the critic's error, and tried only where the others spend too much.
    found = [(row["accounting"], row["tolerance"], row["feasible"]) for row in evaluations]
    assert found == [("paid", 0.05, False), ("paid", 0.02, False), ("expected", 0.05, True)]
    assert outcome.bundle.pruning.accounting == "expected"
    assert outcome.record["cost_mean"] <= 0.3
    assert outcome.record["reward_mean"] > 0.6  # of 0.8 for the one ledge that can be paid for
    assert bundles.load(tmp_path / "run", task.model).pruning == outcome.bundle.pruning
    careful = dataclasses.replace(task, pruning=PruningSettings(accounting="expected"))
    assert TrainingSettings.for_task(careful).accountings == ("expected",), "what a task asks for is not overruled"
    paid_only = dataclasses.replace(settings, accountings=("paid",))
    assert train(task, paid_only, RunFolder.create(tmp_path / "paid", run_config(task, paid_only))).bundle is None


def test_the_data_learns_terminal_steps_and_what_followed(finished):
    path, _, _ = finished
    steps = Transitions(**RunFolder.open(path).load("transitions/000-000.safetensors"))
    assert len(steps) >= 100
    assert steps.last[-1]
    inside = ~steps.last[:-1]
    np.testing.assert_array_equal(steps.next_states[:-1][inside], steps.states[1:][inside])
    np.testing.assert_array_equal(steps.next_actions[:-1][inside], steps.actions[1:][inside])
    assert steps.terminal.sum() > 0  # the rover leaves east, and that step is in the data
    assert (steps.next_actions[steps.terminal] == -1).all()
    truncated = steps.last & ~steps.terminal
    assert (steps.next_actions[truncated] >= 0).all()
    batch = as_batch(TASK.model, steps)
    assert (batch.continues == ~steps.terminal).all()


class KilledError(Exception):
    pass


class Killer(Silence):
    """Stops the training after so many signs of life, as a power cut would."""

    def __init__(self, after):
        self.left = after

    def advance(self, units, **figures):
        self.left -= 1
        if self.left < 0:
            raise KilledError


@pytest.mark.parametrize("after", [15, -2, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 90, -30))])
def test_a_run_killed_anywhere_resumes_to_the_same_bundle(finished, tmp_path, after):
    whole, _, signs = finished
    after %= signs  # counted from the end, it strikes the frontier
    with pytest.raises(KilledError):
        train(TASK, small_settings(), begin(tmp_path / "run", small_settings()), Killer(after))
    run = RunFolder.open(tmp_path / "run")
    train(TASK, settings_from_config(TASK, run.config, run.path), run)
    for name in (bundles.CRITIC_FILE, bundles.COLUMNS_FILE, bundles.BUNDLE_FILE):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.slow
def test_a_frontier_that_is_judged_by_tables_resumes_to_the_same_bundle(tmp_path):
    task = make("random-absorbing-3")
    frontier = FrontierSettings(
        columns=9,
        search_factors=(1,),
        screening_episodes=4,
        choosing_episodes=6,
        confirming_episodes=8,
        value_steps=100,
    )
    search = dataclasses.replace(task.search, iterations=16)
    settings = dataclasses.replace(small_settings(max_rounds=1, frontier=frontier), search=search)
    counter = Counter()
    whole = RunFolder.create(tmp_path / "whole", run_config(task, settings))
    outcome = train(task, settings, whole, counter)
    assert any(row["phase"] == "learn" for row in whole.history)
    assert all((c.confirmed.known is not None) == (c.settings.guard == "none") for c in outcome.bundle.columns)
    for after in (-2, -25):
        run = RunFolder.create(tmp_path / str(after), run_config(task, settings))
        with pytest.raises(KilledError):
            train(task, settings, run, Killer(after % counter.signs))
        run = RunFolder.open(run.path)
        train(task, settings_from_config(task, run.config, run.path), run)
        for name in (bundles.COLUMNS_FILE, bundles.BUNDLE_FILE):
            assert (run.path / name).read_bytes() == (whole.path / name).read_bytes()


def test_a_run_of_another_task_or_version_is_not_resumed(finished):
    path, _, _ = finished
    config = RunFolder.open(path).config
    with pytest.raises(InvalidInput, match="was begun for task 'rocksample-3-2' with another model"):
        settings_from_config(make("rocksample-4-2"), config, path)
    broken = config | {"settings": {"seed": 0}}
    with pytest.raises(InvalidInput, match="does not fit this version"):
        settings_from_config(TASK, broken, path)


def test_settings_survive_the_run_folder(finished):
    path, _, _ = finished
    assert settings_from_config(TASK, RunFolder.open(path).config, path) == small_settings()


def test_the_paper_s_settings_are_the_paper_s():
    gridworld = paper_settings(make("safe-gridworld"))
    assert (gridworld.multiplier.rule, gridworld.multiplier.alpha0, gridworld.multiplier.epsilon) == (
        "paper",
        10.0,
        0.1,
    )
    assert (gridworld.pruning.sigma_max, gridworld.iterations) == (0.2, 512)
    assert gridworld.search.rollouts == 10 and not gridworld.search.guarded_rollouts
    rocks = paper_settings(make("rocksample-5-7"), seed=3)
    assert (rocks.multiplier.alpha0, rocks.iterations, rocks.seed) == (8.0, 1024, 3)
    assert rocks.critic.target == "sarsa" and rocks.search.rollout == "uniform"
    assert rocks.search.exploration == 20.0
    assert not rocks.pruning.cost_floor and rocks.pruning.fallback == "lowest_mean" and rocks.patience == 0


def test_no_feasible_critic_is_said_and_nothing_is_kept(tmp_path):
    task = make("safe-gridworld")
    settings = TrainingSettings.for_task(
        task,
        iterations=8,
        steps_per_multiplier=50,
        walk_steps=200,
        max_rounds=1,
        evaluation_episodes=200,
        tolerances=(10.0,),
        pruning=dataclasses.replace(task.pruning, cost_floor=False),
        search=dataclasses.replace(task.search, guarded_rollouts=False),
        critic=CriticSettings(hidden=(8,), steps=50, batch=16),
        multiplier=MultiplierSettings(max_updates=1),
        frontier=FrontierSettings(columns=0),
    )
    outcome = train(task, settings, RunFolder.create(tmp_path / "run", run_config(task, settings)))
    assert outcome.bundle is None
    assert not (tmp_path / "run" / bundles.BUNDLE_FILE).exists()


def test_no_two_stages_share_a_seed():
    """To a SeedSequence a zero at the end is as good as none: a round's fit had the seed of its first gathering."""
    words = [(), (1,), (1, 0), (1, 0, 0), (3, 0), (3,), (2,), (4, 0), (4,), (5, 0)]
    assert len({stage_seed(7, *word) for word in words}) == len(words)


def test_what_is_kept_was_confirmed_on_other_episodes(finished):
    path, outcome, _ = finished
    history = RunFolder.open(path).history
    chosen = [row for row in history if row["phase"] == "evaluate" and row["feasible"]]
    confirmed = [row for row in history if row["phase"] == "confirm" and "column" not in row]
    assert confirmed[-1] == outcome.record
    assert outcome.record["reward_mean"] not in [row["reward_mean"] for row in chosen]
    assert bundles.load(path).training["reward_mean"] == outcome.record["reward_mean"]


def test_a_critic_that_is_not_confirmed_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(Judging, "confirm", lambda self, row, attempt: {**row, "feasible": False})
    settings = small_settings(max_rounds=1)
    outcome = train(TASK, settings, begin(tmp_path / "run", settings))
    assert outcome.bundle.critic is None and outcome.looked_feasible
    assert {column.settings.guard for column in outcome.bundle.columns} <= {"none", "immediate"}
    settings = small_settings(max_rounds=1, frontier=FrontierSettings(columns=0))
    outcome = train(TASK, settings, begin(tmp_path / "no frontier", settings))
    assert outcome.bundle is None and outcome.looked_feasible
    assert not (tmp_path / "no frontier" / bundles.BUNDLE_FILE).exists()


def test_a_critic_that_earns_less_than_none_is_not_kept(finished, tmp_path, monkeypatch):
    """The finished training goes on with one more candidate: what prunes by immediate costs alone."""
    path, before, _ = finished
    shutil.copytree(path, tmp_path / "run")
    settings = small_settings(untrained=True, frontier=FrontierSettings(columns=0))
    kept_rewards = Judging._rewards

    def rewards(self, record):  # a training so small leaves it to luck which of the two earns more
        return kept_rewards(self, record) + 100.0 * (record["phase"] == "untrained")

    monkeypatch.setattr(Judging, "_rewards", rewards)
    outcome = train(TASK, settings, RunFolder.open(tmp_path / "run"))
    assert outcome.untrained["feasible"]
    assert not outcome.pays and outcome.record == before.record
    kept = bundles.load(tmp_path / "run", TASK.model)
    assert kept.critic is None and kept.pruning.cost_floor
    assert CMCTS.load(tmp_path / "run").plan(TASK.model.start_state(), 1.0, iterations=8).visits.sum() > 0


def test_a_task_in_other_units_is_trained_alike(tmp_path):
    """Costs and budget times 1024: the same episodes, the same lambdas, a critic that says 1024 times as much."""
    finals = []
    for unit in (1.0, 1024.0):
        problem = random_problem(3, "absorbing")
        model = problem.model.with_params(costs=problem.model.params.costs * unit)
        search = SearchSettings(discount=problem.discount, exploration=1.0, horizon=12)
        task = Task("scaled", model, tuple((problem.budget * unit).tolist()), search=search)
        settings = TrainingSettings.for_task(
            task,
            iterations=16,
            steps_per_multiplier=100,
            walk_steps=200,
            max_rounds=1,
            evaluation_episodes=200,
            tolerances=(0.05,),
            critic=CriticSettings(hidden=(8,), steps=100, batch=32),
            multiplier=MultiplierSettings(max_updates=3),
            frontier=FrontierSettings(columns=0),
        )
        run = RunFolder.create(tmp_path / f"{unit:g}", run_config(task, settings))
        train(task, settings, run)
        (critic,) = (run.load(f"critics/{k:03d}.safetensors") for k in range(1))
        finals.append((run.history, critic, unit))
    (ours, critic, _), (theirs, scaled, unit) = finals
    assert ours[0]["phase"] == "scale" and theirs[0]["cost_scale"] == [unit * s for s in ours[0]["cost_scale"]]
    last = max(critic)
    for name in critic:
        factor = unit if name in (last, last.replace("weights", "biases")) else 1.0
        np.testing.assert_array_equal(scaled[name], critic[name] * factor)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["stage"] == other["stage"]
        for name in ("reward_mean", "steps", "violations", "feasible", "loss", "episodes"):
            assert mine.get(name) == other.get(name), (mine["stage"], name)
        for name, factor in (("cost_means", unit), ("multipliers", 1 / unit)):
            if name in mine:
                assert [number * factor for number in mine[name]] == other[name]


@pytest.mark.slow
def test_sigkill_at_random_moments(tmp_path):
    """The whole command, killed again and again by the system, ends with the bundle of an undisturbed run."""
    options = [
        "--iterations",
        "16",
        "--walk-steps",
        "500",
        "--steps-per-multiplier",
        "200",
        "--max-rounds",
        "2",
        "--evaluation-episodes",
        "200",
    ]
    command = [sys.executable, "-m", "cmcts", "train"]
    subprocess.run([*command, TASK.name, "--out", str(tmp_path / "whole"), *options], check=True)
    dice = random.Random(0)
    arguments = [TASK.name, "--out", str(tmp_path / "killed"), *options]
    kills = 0
    while not (tmp_path / "killed" / bundles.BUNDLE_FILE).exists():
        process = subprocess.Popen([*command, *arguments], stderr=subprocess.DEVNULL)
        started = time.monotonic()
        limit = dice.uniform(2.0, 9.0) if kills < 12 else 600.0
        while process.poll() is None and time.monotonic() - started < limit:
            time.sleep(0.02)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        if (tmp_path / "killed" / "config.json").exists():
            arguments = ["--resume", str(tmp_path / "killed")]
    assert kills >= 3
    for name in (bundles.CRITIC_FILE, bundles.BUNDLE_FILE):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_training_s_own_search_reaches_its_frontier(tmp_path):
    search = dataclasses.replace(TASK.search, exploration=7.0, iterations=16)
    settings = small_settings(max_rounds=1, search=search)
    outcome = train(TASK, settings, begin(tmp_path / "run", settings))
    priced = dataclasses.replace(search, rollout="priced", iterations=3 * 16, exploration=1 / 3 * 7.0)
    found = {column.settings.search for column in outcome.bundle.columns}
    assert search in found and found <= {search, priced}

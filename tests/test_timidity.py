"""Timid critics are told from right ones, by what is harmless and refused, and what to change follows from why."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("jax")

from cmcts.commands.train import Train
from cmcts.critic.ensemble import ensemble
from cmcts.critic.support import Support
from cmcts.evaluation.episodes import Transitions
from cmcts.evaluation.walks import walk
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import least_cost_to_go
from cmcts.frontier.measuring import listed_world
from cmcts.frontier.settings import FrontierSettings
from cmcts.model.interface import Model
from cmcts.search.pruning import PruningSettings
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task
from cmcts.training import timidity as timid
from cmcts.training.dataset import as_batch
from cmcts.training.loop import Outcome, train
from cmcts.training.multipliers import MultiplierSettings
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config
from cmcts.training.stages import Stages
from conftest import compiled_only

WAIT, GO = 0, 1
BUDGET, DISCOUNTS = np.array([0.0]), (0.95,)
PRUNING = PruningSettings(tolerance=0.05, sigma_max=0.5)

# Waiting is free. From the bank one goes on a bridge for nothing, and there going on costs 1: waiting does not.
MODEL = Model.from_tables(
    P=[[[0.9, 0.0], [0.0, 1.0]], [[0.0, 0.9], [0.5, 0.0]]],
    R=[[0.0, 0.0], [0.0, 1.0]],
    C=[[0.0, 0.0], [0.0, 1.0]],
    name="bridge",
    action_names=("wait", "go"),
)
TASK = Task("bridge", dataclasses.replace(MODEL, compilable=False), budget=0.0)
LEAST = [[0.0, 0.0], [0.0, 1.0]]  # least cost-to-go by state and action


def critic(means, sigmas=((0.0, 0.0), (0.0, 0.0)), support=None):
    """Of two members that say mean - sigma and mean + sigma in each state."""
    weights = np.array([np.array(means) - sigmas, np.array(means) + sigmas])
    return ensemble([weights], [np.zeros((2, 2))], 1, [1.0], support)


def gathered(*parts):
    return SimpleNamespace(transitions=list(parts), batches=[as_batch(TASK.model, part) for part in parts])


def steps(rows):
    """Transitions from (state, action, cost, next state or None, last)."""
    states, actions, costs, after, last = zip(*rows, strict=True)
    ends = np.array([state is None for state in after])
    return Transitions(
        states=np.array(states, np.float64)[:, None],
        actions=np.array(actions, np.int32),
        costs=np.array(costs, np.float64)[:, None],
        rewards=np.zeros(len(rows)),
        next_states=np.array([0 if state is None else state for state in after], np.float64)[:, None],
        next_actions=np.where(ends, -1, 0).astype(np.int32),
        terminal=ends,
        last=np.array(last),
    )


WALKS = walk(TASK.model, TASK.training_world, 3, 400)
MOMENTS = timid.gathered_moments(gathered(WALKS), BUDGET, DISCOUNTS, np.random.default_rng(0))
WORLD = enumerate_states(TASK.model, 0.95)
KNOWN = list(timid.known_moves(MOMENTS, WORLD))
MOVES = [move for move in KNOWN if timid.is_harmless(move, MOMENTS)]


def test_the_least_cost_to_go_is_as_by_hand():
    assert WORLD.table(least_cost_to_go(WORLD)[:, 0]).tolist() == LEAST


def test_what_is_left_along_an_episode_is_as_by_hand():
    part = steps(
        [(0, GO, 0.0, 1, False), (1, GO, 0.25, 0, False), (0, WAIT, 1.0, 0, False), (0, WAIT, 0.0, None, True)]
    )
    both = dataclasses.replace(part, **{name: np.concatenate([column, column]) for name, column in vars(part).items()})
    left = timid.left_along(both, np.array([0.5]), (0.5,))[:, 0]
    assert left.tolist() == 2 * [0.5, 1.0, 1.5, 1.0]
    assert timid.left_along(part, np.array([0.5]), (0.25,))[:, 0].tolist() == [0.5, 2.0, 7.0, 24.0]
    assert timid.left_along(part, np.array([0.0]), (0.5,))[:, 0].tolist() == [0.0] * 4


def test_harmless_moves_are_those_that_fit():
    asked = {(int(MOMENTS.states[move.moment, 0]), move.action) for move in MOVES}
    assert asked == {(0, WAIT), (0, GO), (1, WAIT)}
    rich = MOMENTS._replace(left=np.ones_like(MOMENTS.left))
    assert len(KNOWN) == 2 * len(rich.states) and all(timid.is_harmless(move, rich) for move in KNOWN)
    elsewhere = MOMENTS._replace(states=MOMENTS.states + 0.5)
    assert list(timid.known_moves(elsewhere, WORLD)) == [], "what the world does not know is left out"


@pytest.mark.parametrize(
    "means",
    [LEAST, [[0.0, 0.0], [0.0, 0.0]], [[0.04, 0.05], [-0.1, 0.9]], [[0.0, 0.0], [0.0, 9.0]]],
    ids=["right", "reckless", "within the tolerance", "harm overrated"],
)
def test_nothing_is_said_of_a_critic_that_refuses_harm_alone(means):
    assert timid.timidity(critic(means), PRUNING, MOMENTS, KNOWN) is None


def test_what_looks_the_same_as_harm_is_named_with_it():
    alike = MOMENTS._replace(features=np.ones((len(MOMENTS.states), 2), np.float32))
    at_bank_and_bridge = critic([[0.0, 0.2], [0.0, 0.3]])  # both squares' numbers are added up
    found = timid.timidity(at_bank_and_bridge, PRUNING, alike, KNOWN)
    assert (found.reason, found.examples[0].twin) == ("features", ((1.0,), 1.0))
    said = found.sentence(TASK.model)
    assert "truly at most 0.00, with the features of state [1.0], where it costs 1.00" in said
    assert "features are the same as where these moves are dear" in said
    assert timid.timidity(at_bank_and_bridge, PRUNING, alike, MOVES).reason == "mean", "the dear one is not known"


def test_a_mean_too_high_is_named_with_the_features():
    found = timid.timidity(critic([[0.0, 0.18], [0.0, 1.0]]), PRUNING, MOMENTS, KNOWN)
    at_bank = sum(int(MOMENTS.states[move.moment, 0]) == 0 and move.action == GO for move in MOVES)
    assert (found.harmless, found.refused, found.reason) == (len(MOVES), at_bank, "mean")
    (example,) = found.examples
    assert example.mean == pytest.approx(0.18)
    assert (example.state, example.action, example.left, example.cost) == ((0.0,), GO, 0.0, 0.0)
    said = found.sentence(TASK.model)
    assert said.startswith(f"the critic is timid: it refuses {100 * at_bank / len(MOVES):.0f} % of the harmless moves")
    assert "action 'go' in state [0.0], where it predicts 0.18 ± 0.00 with 0.00 left; truly at most 0.00" in said
    assert "features" in said and "--walk-steps" not in said


def test_an_ensemble_that_disagrees_wants_more_data():
    found = timid.timidity(critic(LEAST, [[0.0, 0.0], [0.7, 0.7]]), PRUNING, MOMENTS, MOVES)
    assert (found.reason, found.examples[0].action, found.examples[0].state) == ("sigma", WAIT, (1.0,))
    said = found.sentence(TASK.model)
    assert "predicts 0.00 ± 0.70" in said and "more data (--walk-steps, --steps-per-multiplier)" in said
    assert "features" not in said
    unsure_is_fine = dataclasses.replace(PRUNING, unsure="floor")
    assert timid.timidity(critic(LEAST, [[0.0, 0.0], [0.7, 0.7]]), unsure_is_fine, MOMENTS, MOVES) is None


def test_what_lies_far_from_the_data_wants_more_data():
    visits = np.array([[9, 0], [9, 9]], np.uint16)
    support = Support(np.eye(2, dtype=np.float32), visits, np.ones(2, np.float32), 0.0)
    found = timid.timidity(critic(LEAST, support=support), PRUNING, MOMENTS, MOVES)
    assert (found.reason, found.examples[0].action, found.examples[0].state) == ("support", GO, (0.0,))
    said = found.sentence(TASK.model)
    assert "training hardly tried them there: more data (--walk-steps" in said


def test_the_tolerance_and_the_budget_that_is_left_count():
    means = [[0.0, 0.18], [0.0, 1.0]]
    assert timid.timidity(critic(means), dataclasses.replace(PRUNING, tolerance=0.2), MOMENTS, MOVES) is None
    rich = MOMENTS._replace(left=np.full_like(MOMENTS.left, 0.2))
    assert timid.timidity(critic(means), PRUNING, rich, list(timid.known_moves(rich, WORLD))) is None
    expected = dataclasses.replace(PRUNING, accounting="expected")
    assert timid.timidity(critic(means), expected, MOMENTS, MOVES).reason == "mean"


def test_few_moves_or_few_refusals_say_nothing():
    means = critic([[0.0, 0.18], [0.0, 1.0]])
    refused = [move for move in MOVES if move.action == GO]
    others = [move for move in MOVES if move.action == WAIT]
    assert timid.timidity(means, PRUNING, MOMENTS, refused[: timid.FEWEST - 1]) is None
    assert timid.timidity(means, PRUNING, MOMENTS, refused[: timid.FEWEST]) is not None
    some = (refused[:10] + others)[:200]
    assert len(some) > 100 and timid.timidity(means, PRUNING, MOMENTS, some) is None


def test_at_most_three_examples_and_the_most_frequent_reason():
    found = timid.timidity(critic([[0.3, 0.3], [0.4, 0.5]], [[0.0, 0.0], [0.9, 0.0]]), PRUNING, MOMENTS, MOVES)
    assert found.refused == found.harmless
    assert len(found.examples) <= timid.EXAMPLES
    assert len({(example.state, example.action) for example in found.examples}) == len(found.examples)
    assert {example.reason for example in found.examples} == {found.reason}


def episodes_of(count, *rows):
    return [row for _ in range(count) for row in rows]


def test_where_nothing_is_listed_what_was_seen_decides():
    often = timid.SEEN
    data = gathered(
        steps(
            episodes_of(often, (0, WAIT, 0.0, None, True))
            + episodes_of(often, (0, GO, 0.0, 1, False), (1, GO, 1.0, None, True))
            + episodes_of(often - 1, (1, WAIT, 0.0, None, True))
        )
    )
    moments = timid.gathered_moments(data, BUDGET, DISCOUNTS, np.random.default_rng(0))
    moves = list(timid.seen_moves(moments, data, critic(LEAST), DISCOUNTS))
    asked = {(int(moments.states[move.moment, 0]), move.action, float(move.cost[0])) for move in moves}
    assert asked == {(0, WAIT, 0.0)}, "going led to costs, and waiting on the bridge was not seen often enough"
    rich = moments._replace(left=np.full_like(moments.left, 0.95))
    richer = {move.action: float(move.cost[0]) for move in timid.seen_moves(rich, data, critic(LEAST), DISCOUNTS)}
    assert richer == pytest.approx({WAIT: 0.0, GO: 0.95}), "what went on after going cost 1, a step later"
    support = Support(np.eye(2, dtype=np.float32), np.full((2, 2), 9, np.uint16), np.ones(2, np.float32), 0.0)
    by_place = timid.seen_moves(moments, data, critic(LEAST, support=support), DISCOUNTS)
    assert [(move.moment, move.action) for move in by_place] == [(move.moment, move.action) for move in moves]
    found = timid.timidity(critic([[0.6, 0.0], [0.0, 1.0]]), PRUNING, moments, moves)
    assert (found.share, found.reason) == (1.0, "mean")


def test_a_danger_that_struck_once_is_not_harmless():
    data = gathered(steps([*episodes_of(99, (0, GO, 0.0, None, True)), (0, GO, 1.0, None, True)]))
    moments = timid.gathered_moments(data, np.array([1.0]), DISCOUNTS, np.random.default_rng(0))
    assert list(timid.seen_moves(moments, data, critic(LEAST), DISCOUNTS)) == []


def test_moments_are_drawn_by_the_seed_alone(monkeypatch):
    monkeypatch.setattr(timid, "MOMENTS", 50)
    data = gathered(WALKS, WALKS)
    one, same, other = (
        timid.gathered_moments(data, BUDGET, DISCOUNTS, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert len(one.states) == 50
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    assert not (one.features == other.features).all()


@compiled_only
def test_a_training_explains_itself_and_does_so_again(monkeypatch, tmp_path):
    """A critic that was hardly fitted, on hardly any data, refuses what it should not."""
    task = make("safe-gridworld")
    settings = TrainingSettings.for_task(
        task,
        iterations=32,
        steps_per_multiplier=100,
        walk_steps=200,
        max_rounds=1,
        evaluation_episodes=200,
        choose_exploration=False,
        critic=CriticSettings(hidden=(16,), steps=50, batch=32),
        multiplier=MultiplierSettings(max_updates=1),
        frontier=FrontierSettings(columns=0),
    )
    asked = []
    monkeypatch.setattr(timid, "TIMID", 1e-9)

    def explain(*arguments):
        asked.append(arguments)
        return timid.explain_timidity(*arguments)

    monkeypatch.setattr("cmcts.training.loop.explain_timidity", explain)
    run = RunFolder.create(tmp_path / "run", run_config(task, settings))
    outcome = train(task, settings, run)
    stages, gathering, critics, evaluations, best = asked[0]
    assert isinstance(stages, Stages)
    found = outcome.timidity
    assert found is not None and 0 < found.refused <= found.harmless
    assert all(example.cost <= example.left + 1e-9 for example in found.examples)
    history = (tmp_path / "run" / "history.jsonl").read_bytes()
    assert train(task, settings, RunFolder.open(tmp_path / "run")).timidity == found
    assert (tmp_path / "run" / "history.jsonl").read_bytes() == history, "to explain is no stage"
    monkeypatch.setattr(timid, "listed_world", lambda task: None)
    again = [timid.explain_timidity(stages, gathering, critics, evaluations, best) for _ in range(2)]
    assert again[0] == again[1]


def test_a_world_that_nobody_knows_is_not_listed():
    assert listed_world(dataclasses.replace(TASK, training_world=lambda: None, training_model=None)) is None


@pytest.mark.parametrize("pays", [True, False])
def test_the_log_of_the_command_has_it(tmp_path, pays):
    found = timid.timidity(critic([[0.0, 0.18], [0.0, 1.0]]), PRUNING, MOMENTS, MOVES)
    record = {
        "round": 0, "tolerance": 0.05, "accounting": "paid", "reward_mean": 1.0, "reward_se": 0.1, "cost_means": [0.0],
        "cost_se": 0.0, "violations": 0, "episodes": 50,
    }  # fmt: skip
    bundle, folder, said = SimpleNamespace(columns=()), SimpleNamespace(path=tmp_path), []
    outcome = Outcome(bundle, record, 1, True, record, pays, timidity=found)
    settings = TrainingSettings.for_task(TASK)
    assert Train()._report(TASK, settings, folder, outcome, said.append) == 0
    assert said[1] == found.sentence(TASK.model)
    assert Train()._report(TASK, settings, folder, dataclasses.replace(outcome, timidity=None), said.append) == 0
    assert len(said) == 5

"""Models made from Gymnasium environments: their states, dice, costs, masks and memory, and planning in them."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cmcts
from cmcts.errors import InvalidInput, ModelError
from cmcts.evaluation.episodes import run_episodes
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve
from cmcts.model.worlds import EnvWorld
from cmcts.random import stream

EXAMPLES = Path(__file__).parent.parent / "examples"
SEARCH = cmcts.SearchSettings(discount=0.95, exploration=1.0, horizon=12)
lake = partial(gymnasium.make, "FrozenLake-v1")
by_square = {"get_state": lambda env: env.s, "set_state": lambda env, s: setattr(env, "s", s)}


def hole(observation, action, next_observation, reward, terminated, info):
    return float(terminated and reward == 0)


class Dice(gymnasium.Env):
    """Throw up to three times, or stop; the sum counts, a one costs. Its state is a list that grows: no numbers."""

    observation_space = gymnasium.spaces.Box(0.0, 18.0, (1,), np.float64)
    action_space = gymnasium.spaces.Discrete(2, start=5)  # 5 throw, 6 stop

    def __init__(self, six_values=False):
        self.six_values, self.label = six_values, lambda: "a local function is no obstacle to copying"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.throws = []
        return self._seen(), {"action_mask": np.array([1, 0], np.int8)}

    def step(self, action):
        ended = action == 6
        cost = 0.0
        if not ended:
            self.throws.append(int(self.np_random.integers(1, 7)))
            cost = float(self.throws[-1] == 1)
        mask = np.array([len(self.throws) < 3, 1], np.int8)
        reward = float(sum(self.throws)) if ended else 0.0
        if self.six_values:
            return self._seen(), reward, cost, ended, False, {"action_mask": mask}
        return self._seen(), reward, ended, False, {"cost": cost, "action_mask": mask}

    def _seen(self):
        return np.array([float(sum(self.throws))])


class Numbered(Dice):
    """The same with a state of numbers, in a shape of several parts."""

    def get_state(self):
        padded = np.zeros(3, np.int8)
        padded[: len(self.throws)] = self.throws
        return {"throws": padded, "count": len(self.throws)}

    def set_state(self, state):
        assert state["throws"].dtype == np.int8 and isinstance(state["count"], int)
        self.throws = state["throws"][: state["count"]].tolist()


def step(model, state, action, rng):
    next_state, costs = np.zeros(model.state_size), np.zeros(model.cost_count)
    with np.errstate(over="ignore"):
        reward, ended = model.step(model.params, state, action, rng, next_state, costs)
    return next_state, reward, costs, ended


def test_rows_hold_observation_mask_and_saved_state():
    model = cmcts.Model.from_env(Numbered)
    assert (model.name, model.action_count, model.feature_count) == ("Numbered", 2, 1)
    start = model.start_state()
    assert start.tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]  # sum | throw, stop | count, throws
    assert model.legal(start).tolist() == [0]
    state, reward, _, ended = step(model, start, 0, stream(1))
    thrown = state[0]
    assert 1 <= thrown <= 6
    assert state.tolist() == [thrown, 1.0, 1.0, 1.0, thrown, 0.0, 0.0]
    assert (reward, ended) == (0.0, False)
    _, reward, _, ended = step(model, state, 1, stream(2))
    assert (reward, ended) == (thrown, True)


@pytest.mark.parametrize("factory", [Numbered, Dice, partial(Dice, six_values=True)], ids=["numbers", "copies", "six"])
def test_a_step_is_a_function_of_state_action_and_stream(factory):
    model = cmcts.Model.from_env(factory)
    start = model.start_state()
    thrown = []
    for seed in range(300):
        once, _, cost, _ = step(model, start, 0, stream(seed))
        again, _, cost_again, _ = step(model, start, 0, stream(seed))
        assert once.tolist() == again.tolist() and cost.tolist() == cost_again.tolist()
        assert cost[0] == (once[0] == 1)
        thrown.append(once[0])
    counts = np.bincount(np.array(thrown, int), minlength=7)[1:]
    assert ((counts - 50) ** 2 / 50).sum() < 20.5  # chi-square with 5 degrees of freedom: 1 in 1000
    rows = {step(model, start, 0, stream(seed))[0].tobytes() for seed in range(100)}
    assert len(rows) == 6  # equal outcomes are equal rows


def test_copies_and_numbers_plan_alike():
    """The same environment, kept in two ways: the same tree."""
    decisions = []
    for factory in (Numbered, Dice):
        model = cmcts.Model.from_env(factory)
        planner = cmcts.CMCTS(model, cmcts.immediate_costs_only(model), SEARCH)
        decisions.append(planner.plan(model.start_state(), 1.0, iterations=60, rng=3))
    assert decisions[0].tree_size == decisions[1].tree_size > 20
    assert decisions[0].reward_values.tolist() == decisions[1].reward_values.tolist()


def test_memory_does_not_grow_and_a_search_forgets_nothing_it_holds():
    model = cmcts.Model.from_env(Dice, snapshots=30)
    planner = cmcts.PenalizedMCTS(model, 1.0, SEARCH)
    unbounded = cmcts.Model.from_env(Dice)
    expected = cmcts.PenalizedMCTS(unbounded, 1.0, SEARCH).plan(unbounded.start_state(), 1.0, iterations=300)
    decision = planner.plan(model.start_state(), 1.0, iterations=300)
    assert decision.visits.tolist() == expected.visits.tolist()
    assert decision.reward_values.tolist() == expected.reward_values.tolist()
    held = len({row.tobytes() for row in planner._idle[0].held_states()})
    sizes = []
    for seed in range(4):
        planner.plan(model.start_state(), 1.0, iterations=20, rng=seed)
        sizes.append(len(model.params.store.table))
    assert max(sizes) <= 2 * held + 30
    unknown = model.start_state()
    unknown[-1] = 123.0
    with pytest.raises(InvalidInput, match="expected a state that this model's environment has been in lately"):
        planner.plan(unknown, 1.0, iterations=2)


def test_worlds_hold_the_state_they_are_in():
    model = cmcts.Model.from_env(Dice, snapshots=4)
    worlds = [EnvWorld(model) for _ in range(10)]
    states = [world.reset(seed=seed)[0] for seed, world in enumerate(worlds)]
    states = [world.step(0)[0] for world in worlds]
    planner = cmcts.PenalizedMCTS(model, 1.0, SEARCH)
    for state in states:
        assert planner.plan(state, 1.0, iterations=30).iterations == 30


@pytest.mark.parametrize("factory", [Numbered, Dice], ids=["numbers", "copies"])
def test_processes_change_nothing(factory):
    model = cmcts.Model.from_env(factory)
    results = []
    for threads in (1, 2, 3):
        planner = cmcts.CMCTS(model, cmcts.immediate_costs_only(model), SEARCH)
        episodes, steps = run_episodes(
            planner, partial(EnvWorld, model), 0.5, episodes=5, seed=2, iterations=12, threads=threads
        )
        results.append((episodes.rewards.tolist(), episodes.costs.tolist(), steps.actions.tolist()))
    assert results[0] == results[1] == results[2]


def test_a_stream_comes_back_from_another_process():
    model = cmcts.Model.from_env(Numbered)
    planner = cmcts.PenalizedMCTS(model, 1.0, SEARCH)
    together, alone = [stream(k) for k in range(3)], [stream(k) for k in range(3)]
    states = np.stack([model.start_state()] * 3)
    planner.plan_batch(states, np.ones(3), iterations=8, rngs=together, threads=2)
    for state, rng in zip(states, alone, strict=True):
        planner.plan(state, 1.0, iterations=8, rng=rng)
    assert [int(rng[0]) for rng in together] == [int(rng[0]) for rng in alone]


def test_the_lake_follows_its_own_table():
    model = cmcts.Model.from_env(lake, costs=hole, **by_square)
    assert (model.name, model.state_size, model.feature_count) == ("FrozenLake-v1", 17, 16)
    state = np.append(np.eye(16)[14], 14.0)  # beside the goal
    outcomes = {}
    for seed in range(600):
        there, reward, cost, ended = step(model, state, 2, stream(seed))
        outcomes.setdefault((int(there[-1]), reward, cost[0], ended), []).append(seed)
    assert set(outcomes) == {(10, 0.0, 0.0, False), (14, 0.0, 0.0, False), (15, 1.0, 0.0, True)}
    assert all(abs(len(seeds) - 200) < 60 for seeds in outcomes.values())
    edge = np.append(np.eye(16)[4], 4.0)
    assert {(step(model, edge, 2, stream(k))[2][0], step(model, edge, 2, stream(k))[3]) for k in range(60)} == {
        (0.0, False),
        (1.0, True),
    }


def test_the_examples_state_the_exact_optimum():
    """From the environments' own tables of transitions."""
    frozen = cmcts.make(f"{EXAMPLES}/frozen_lake.py:task")
    cmdp = enumerate_states(frozen.model, frozen.discount)
    assert cmdp.state_count == 11  # sixteen squares without four holes and the goal
    assert solve(cmdp, frozen.budget).reward == pytest.approx(0.6620, abs=1e-4)
    cliff = cmcts.make(f"{EXAMPLES}/cliff_walking.py:task")
    best = solve(enumerate_states(cliff.model, cliff.discount), cliff.budget)
    assert best.reward == pytest.approx(-(1 - 0.95**13) / 0.05)  # thirteen steps along the edge
    assert best.costs[0] == pytest.approx(0.0, abs=1e-12)


def test_features_masks_and_costs_by_function():
    model = cmcts.Model.from_env(
        lake,
        costs=lambda before, action, after, reward, ended, info: [before, float(action)],
        cost_count=2,
        features=lambda square: [square // 4, square % 4],
        action_mask=lambda square: [square != 0, 1, 1, 1],
        **by_square,
    )
    assert model.feature_count == 2
    start = model.start_state()
    assert model.legal(start).tolist() == [1, 2, 3]
    state = np.concatenate([np.eye(16)[6], np.ones(4), [6.0]])
    assert model.feature_vector(state).tolist() == [1.0, 2.0]
    assert step(model, state, 3, stream(0))[2].tolist() == [6.0, 3.0]


def test_worlds_keep_time_and_speak_in_rows():
    model = cmcts.Model.from_env(partial(gymnasium.make, "FrozenLake-v1", max_episode_steps=3), costs=hole, **by_square)
    world = EnvWorld(model)
    state, _ = world.reset(seed=0)
    assert state.tolist() == model.start_state().tolist()
    ends = []
    for _ in range(3):
        state, _, terminated, truncated, info = world.step(3)
        ends.append((terminated, truncated))
        assert info["cost"] == 0.0
        assert model.validate_state(state)[-1] == np.argmax(state[:16])
    assert ends == [(False, False), (False, False), (False, True)]
    assert EnvWorld(model, render_mode="ansi").render_mode == "ansi"


def test_a_world_may_differ_from_the_model():
    model = cmcts.Model.from_env(partial(lake, is_slippery=False), costs=hole, **by_square)
    world = EnvWorld(model, partial(lake, is_slippery=True))
    reached = set()
    for seed in range(40):
        world.reset(seed=seed)
        reached.add(int(world.step(2)[0][-1]))
    assert reached == {0, 1, 4}
    planned = {int(step(model, model.start_state(), 2, stream(seed))[0][-1]) for seed in range(20)}
    assert planned == {1}
    with pytest.raises(
        InvalidInput, match=r"expected a world with observations in Discrete\(16\).*, got Discrete\(64\)"
    ):
        EnvWorld(model, partial(lake, map_name="8x8"))


def test_vectorised_environments_are_split():
    one = cmcts.Model.from_env(Numbered)
    many = cmcts.Model.from_env(lambda: gymnasium.vector.SyncVectorEnv([Numbered] * 3))
    assert many.start_state().tolist() == one.start_state().tolist()
    planner = cmcts.PenalizedMCTS(one, 1.0, SEARCH)
    alone, _ = run_episodes(planner, partial(EnvWorld, one), 1.0, episodes=4, seed=0, iterations=6)
    worlds = gymnasium.vector.SyncVectorEnv([partial(EnvWorld, one)] * 3)
    split, _ = run_episodes(planner, lambda: worlds, 1.0, episodes=3, seed=0, iterations=6)
    assert split.rewards.tolist() == alone.rewards.tolist()[:3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(cmcts.Model.from_env, 3), "expected a function that makes an environment, got 3"),
        (partial(cmcts.Model.from_env, dict), "expected the factory to make a Gymnasium environment, got {}"),
        (
            partial(cmcts.Model.from_env, partial(gymnasium.make, "Pendulum-v1")),
            "expected .* discrete actions, got Box",
        ),
        (partial(cmcts.Model.from_env, lake, get_state=len), "expected get_state and set_state together, got 'one of"),
        (
            partial(cmcts.Model.from_env, lambda: gymnasium.vector.VectorEnv()),
            r"expected a vectorised environment that holds its environments one by one \(Sync.* got VectorEnv",
        ),
    ],
)
def test_what_cannot_be_a_model_is_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_faults_of_an_environment_are_told():
    class Faulty(Numbered):
        def step(self, action):
            raise KeyError("lost")

    model = cmcts.Model.from_env(Faulty)
    with pytest.raises(ModelError, match="simulating model 'Faulty' raised KeyError: 'lost'"):
        cmcts.PenalizedMCTS(model, 1.0, SEARCH).plan(model.start_state(), 1.0, iterations=3)
    free = cmcts.Model.from_env(lake, **by_square)
    with pytest.raises(ModelError, match=r'expected the environment to report info\["cost"\] or to return six values'):
        cmcts.PenalizedMCTS(free, 1.0, SEARCH).plan(free.start_state(), 1.0, iterations=3)


def test_all_planners_and_the_checker_take_it(recwarn):
    model = cmcts.Model.from_env(Numbered)
    assert cmcts.check_model(model, states=40) == []
    renamed = dataclasses.replace(model, action_names=("throw", "stop"))
    for planner in (
        cmcts.CMCTS(renamed, cmcts.immediate_costs_only(renamed), SEARCH),
        cmcts.CCMCP(renamed, SEARCH),
        cmcts.PenalizedMCTS(renamed, 0.5, SEARCH),
    ):
        assert planner.plan(model.start_state(), 1.0, iterations=20).action_name == "throw"  # all that is legal
    assert [warning for warning in recwarn if "compiled" in str(warning.message)] == []


def test_costs_are_sampled_once_for_a_state_and_an_action(monkeypatch):
    model, taken = cmcts.Model.from_env(Numbered, cost_samples=50), []
    original = type(model.params).step
    monkeypatch.setattr(type(model.params), "step", lambda *arguments: (taken.append(0), original(*arguments))[1])
    start, out = model.start_state(), np.zeros(1)
    with np.errstate(over="ignore"):
        model.expected_costs(model.params, start, 0, out)
        first = out.copy()
        assert len(taken) == 50 and abs(first[0] - 1 / 6) < 0.2  # a one in six throws
        model.expected_costs(model.params, start, 0, out)
        assert len(taken) == 50 and out.tolist() == first.tolist()
        model.expected_costs(model.params, start, 1, out)
        assert len(taken) == 51 and out[0] == 0.0  # to stop throws no dice
        again = cmcts.Model.from_env(Numbered, cost_samples=50)
        again.expected_costs(again.params, start, 0, out)
    assert out.tolist() == first.tolist()  # whoever asks, and whenever
    with pytest.raises(InvalidInput, match="expected cost_samples >= 1, got 0"):
        cmcts.Model.from_env(Numbered, cost_samples=0)

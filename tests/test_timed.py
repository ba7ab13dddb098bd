"""Time as part of the state: `with_time`, worlds that end, and tasks with a number of steps."""

import dataclasses
import re

import gymnasium as gym
import numpy as np
import pytest

import cmcts
from cmcts.critic.identity import model_digest
from cmcts.envs.safe_gridworld.model import safe_gridworld_model
from cmcts.errors import InvalidInput
from cmcts.evaluation.episodes import run_episodes
from cmcts.model.check import check_model
from cmcts.model.interface import Model
from cmcts.model.timed import with_time, without_time
from cmcts.model.worlds import TimedWorld, world_of
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.random import stream
from cmcts.search.settings import SearchSettings
from cmcts.tasks.check import check_worlds
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task
from conftest import compiled_only
from models import random_ensemble, random_table, table_model
from test_search import assert_search_is_naive

GRID = safe_gridworld_model(0.3)
UNDISCOUNTED = SearchSettings(discount=1.0, horizon=40, exploration=5.0)


def test_the_steps_left_are_the_last_number_of_the_state():
    model = with_time(GRID, 7)
    state = model.start_state(3)
    assert state.tolist() == [*GRID.start_state(3), 7.0]
    next_state, costs = np.zeros(3), np.zeros(1)
    reward, terminal = model.uncompiled.step(model.params, state, 1, stream(5), next_state, costs)
    plain_next, plain_costs = np.zeros(2), np.zeros(1)
    assert (reward, terminal) == GRID.uncompiled.step(GRID.params, state[:2], 1, stream(5), plain_next, plain_costs)
    assert next_state.tolist() == [*plain_next, 6.0] and costs.tolist() == plain_costs.tolist()
    assert model.legal(state).tolist() == GRID.legal(state[:2]).tolist()
    assert model.feature_vector([2.0, 1.0, 3.5]).tolist() == [*GRID.feature_vector([2.0, 1.0]), 0.5]


def test_the_last_step_ends_the_episode():
    model = with_time(GRID, 7)
    state, next_state = np.array([1.0, 1.0, 1.0]), np.zeros(3)
    assert model.uncompiled.step(model.params, state, 1, stream(0), next_state, np.zeros(1))[1]
    assert next_state[-1] == 0.0
    assert model.outcomes is not None and model.starts is not None
    *_, ends = model.outcomes(model.params, state, 1)
    assert ends.all()
    _, rows, _, _, ends = model.outcomes(model.params, np.array([1.0, 1.0, 2.0]), 1)
    assert not ends.any() and (rows[:, -1] == 1.0).all()
    assert (model.starts(model.params)[1][:, -1] == 7.0).all()


def test_a_timed_model_keeps_its_contract():
    assert check_model(with_time(GRID, 7)) == []
    assert check_model(with_time(table_model(random_table(2, constraints=2)), 5)) == []


def test_another_number_of_steps_and_other_parameters():
    model = with_time(GRID, 7)
    assert with_time(model, 7) is model
    assert with_time(model, 9).start_state()[-1] == 9.0
    windy = model.with_params(wind=1.0)
    assert (windy.params.model.wind, windy.params.steps) == (1.0, 7)
    assert without_time(windy).params.wind == 1.0
    assert len({model_digest(m) for m in (GRID, model, windy, with_time(model, 9))}) == 4


@compiled_only
def test_one_compilation_serves_all_numbers_of_steps_and_parameters():
    model = with_time(GRID, 7)
    types = {with_time(model, 9)._numba_type_, model._numba_type_, model.with_params(wind=1.0)._numba_type_}
    assert len(types) == 1


@pytest.mark.parametrize("left", [0.0, 8.0, 1.5])
def test_a_time_that_cannot_be_is_refused(left):
    with pytest.raises(InvalidInput, match="expected 1 to 7 steps left, as the last number of the state"):
        with_time(GRID, 7).validate_state([1.0, 1.0, left])


@pytest.mark.parametrize("steps", [0, 2.0, True])
def test_a_number_of_steps_that_is_none_is_refused(steps):
    with pytest.raises(InvalidInput, match="expected steps >= 1"):
        with_time(GRID, steps)
    with pytest.raises(InvalidInput, match="expected steps >= 1"):
        Task("grid", GRID, 0.0, episode_steps=steps)


def test_a_search_with_time_equals_the_naive_one_and_ends_with_the_episode():
    model = with_time(GRID, 20)
    for planner in (
        PenalizedMCTS(model, 3.0, UNDISCOUNTED),
        CMCTS(model, random_ensemble(model, 3, scale=0.3, offset=0.6), UNDISCOUNTED),
    ):
        session, _ = assert_search_is_naive(planner, [4.0, 4.0, 6.0], 0.7, iterations=300)
        assert session.tree.peak_depth[0] <= 6
        deepest = session.tree.states[: session.tree.count[0], -1].min()
        assert deepest >= 0.0


def plain_start(params, rng, state):
    state[0] = 0.0


def plain_step(params, state, action, rng, next_state, costs):
    next_state[0] = state[0] + 1.0
    costs[0] = float([0.0, 1.0][action])  # a list, and a call that Numba does not know, keep it from compiling
    print(end="", file=None)
    return float(str(action)), False


def plain_legal(params, state, out):
    out[0], out[1] = 0, 1
    return 2


def plain_features(params, state, out):
    out[0] = state[0]


@compiled_only
def test_a_timed_model_that_does_not_compile_plans_all_the_same():
    plain = Model("counting", {"any": "thing"}, plain_step, plain_legal, plain_features, plain_start, 1, 2, 1)
    model = with_time(plain, 3)
    search = SearchSettings(discount=1.0, exploration=1.0)
    with pytest.warns(UserWarning, match="counting_timed"):
        decision = PenalizedMCTS(model, 0.5, search).plan(model.start_state(), 1.0, iterations=200, keep_tree=True)
    assert decision.action == 1 and decision.tree_depth == 3
    best = decision.tree.reward_values[0].max()
    assert best == pytest.approx(3.0, abs=0.5), "three steps that earn 1 each"


def test_a_world_with_time_ends_by_itself():
    world = world_of(with_time(GRID, 150))
    state, _ = world.reset(seed=1)
    assert world.observation_space.contains(state) and state[-1] == 150.0
    for left in range(149, -1, -1):
        state, _, terminated, truncated, _ = world.step(8)  # stay
        assert (state[-1], terminated, truncated) == (left, left == 0, False)


class Counter(gym.Env):
    """Counts up to 1000; a step earns 1 and costs 1."""

    observation_space = gym.spaces.Box(0, 1000, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0.0
        return np.array([self.count]), {}

    def step(self, action):
        self.count += 1.0
        return np.array([self.count]), 1.0, False, False, {"cost": 1.0}


def test_any_world_can_be_given_an_end():
    world = TimedWorld(Counter(), 2)
    assert world.reset(seed=0)[0].tolist() == [0.0, 2.0]
    assert world.step(0)[0].tolist() == [1.0, 1.0]
    assert world.step(0)[2:4] == (True, False)


def test_an_environment_of_the_users_can_be_given_an_end():
    model = Model.from_env(Counter, name="counter")  # copies environments: the search must not forget them
    task = Task("counter", model, 3.0, episode_steps=4, search=SearchSettings(discount=1.0, horizon=9, exploration=1.0))
    done, steps = run_episodes(
        PenalizedMCTS(task.model, 0.1, task.search), task.real_world, 3.0, episodes=2, seed=0, iterations=20
    )
    assert done.costs.tolist() == [[4.0], [4.0]] and done.rewards.tolist() == [4.0, 4.0]
    assert steps.terminal.sum() == 2
    assert model_digest(task.model) != model_digest(with_time(GRID, 4))


def test_a_task_with_a_number_of_steps_puts_time_into_models_and_worlds():
    base = make("safe-gridworld")
    task = dataclasses.replace(base, episode_steps=15)
    assert task.model.state_size == 3 and task.real_model.params.steps == 15
    assert task.real_world().reset(seed=0)[0][-1] == task.training_world().reset(seed=0)[0][-1] == 15.0
    assert check_worlds(task) == []
    again = dataclasses.replace(task, budget=(0.5,))
    assert again.model is task.model and again.real_world().reset(seed=0)[0].shape == (3,)
    longer = dataclasses.replace(task, episode_steps=30)
    assert longer.real_world().reset(seed=0)[0].tolist()[-1] == 30.0 and longer.real_model.params.steps == 30
    own = Task("grid", GRID, 0.0, episode_steps=12)
    assert own.model_is_exact and own.real_world().reset(seed=0)[0][-1] == 12.0
    assert dataclasses.replace(own, episode_steps=8).model_is_exact


@pytest.mark.parametrize("discounts", [{"discount": 1.0}, {"cost_discounts": 1.0}])
def test_no_discount_where_episodes_may_go_on_for_ever_is_refused(discounts):
    search = SearchSettings(**discounts)
    message = re.escape("expected discounts below 1 for model 'safe-gridworld', whose episodes may go on for ever")
    with pytest.raises(InvalidInput, match=message):
        PenalizedMCTS(GRID, 0.0, search)
    with pytest.raises(InvalidInput, match=message):
        Task("grid", GRID, 0.0, search=search)
    Task("grid", GRID, 0.0, search=search, episode_steps=50)
    Task("grid", dataclasses.replace(GRID, episodes_end=True), 0.0, search=search)


def test_undiscounted_costs_are_counted_and_carried_as_they_are():
    model = dataclasses.replace(
        table_model(random_table(4, constraints=2, terminal=0)), compilable=False
    )  # 1,000 steps
    task = Task("table", model, (3.0, 2.0), episode_steps=6, search=SearchSettings(cost_discounts=1.0, horizon=6))
    planner = PenalizedMCTS(task.model, [0.0, 0.0], task.search)
    done, steps = run_episodes(planner, task.real_world, task.budget, episodes=20, seed=2, iterations=8)
    assert done.costs == pytest.approx(done.total_costs)
    assert (done.steps == 6).all() and steps.terminal[steps.last].all(), "the end is an end, not a cut"
    agent = cmcts.Agent(planner, task.budget, iterations=8)
    agent.act(task.model.start_state())
    assert agent.observe([1.0, 0.5]).tolist() == [2.0, 1.5]

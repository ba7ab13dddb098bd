"""Searches on a GPU are those of the CPU, node for node.

They run where there is a GPU (`make test-gpu`), or where numba-cuda simulates one (`make test-gpu-simulator`).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import cmcts
from cmcts.critic.support import Support
from cmcts.devices import gpu_fault, is_simulated
from cmcts.envs.rocksample.energy import energy_model
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.errors import InvalidInput, ModelError
from cmcts.evaluation.episodes import run_episodes
from cmcts.model.timed import with_time
from cmcts.planning import gpu
from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
from cmcts.random import stream
from cmcts.search import lanes
from cmcts.search.lanes import lanes_that_fit
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from models import random_ensemble, random_table, table_model

pytestmark = [
    pytest.mark.skipif(bool(gpu_fault()), reason=f"no GPU, and none is simulated: {gpu_fault()}"),
    pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning"),
]

SEARCH = SearchSettings(exploration=3.0, horizon=12)
ROCKS = rocksample_model(5, 7)
TABLE = table_model(random_table(3, states=6, actions=3, outcomes=2))
TWO_COSTS = table_model(random_table(4, constraints=2))


def rocks_critic():
    return random_ensemble(ROCKS, seed=1, scale=0.5, offset=0.4)


def doubting_critic():
    """One that knows two of the seven measurements from training, around the start."""
    visits = np.zeros((1, ROCKS.action_count), np.uint16)
    visits[0, :7] = 1000
    points = ROCKS.feature_vector(ROCKS.start_state())[None]
    support = Support(points, visits, np.ones(ROCKS.feature_count, np.float32), 1.0)
    return dataclasses.replace(rocks_critic(), support=support)


def planners():
    guarded = dataclasses.replace(SEARCH, guarded_rollouts=True)
    expected = PruningSettings(accounting="expected")
    wide = dataclasses.replace(SEARCH, widening_factor=1.0, rollouts=2, stratified=False)
    return {
        "uniform": PenalizedMCTS(ROCKS, 0.7, dataclasses.replace(SEARCH, rollout="uniform")),
        "directed": PenalizedMCTS(ROCKS, 3.0, SEARCH),
        "priced": PenalizedMCTS(ROCKS, 3.0, dataclasses.replace(SEARCH, rollout="priced")),
        "relative exploration": PenalizedMCTS(ROCKS, 3.0, SearchSettings(horizon=12)),
        "widening": PenalizedMCTS(TABLE, 0.5, wide),
        "thrifty": PenalizedMCTS(TABLE, 0.5, dataclasses.replace(SEARCH, thrifty_rollouts=True)),
        "cmcts": CMCTS(ROCKS, rocks_critic(), SEARCH),
        "cmcts as the paper": CMCTS(ROCKS, rocks_critic(), SEARCH, PruningSettings.paper()),
        "cmcts that doubts": CMCTS(ROCKS, doubting_critic(), SEARCH),
        "cmcts guarded": CMCTS(ROCKS, rocks_critic(), guarded),
        "cmcts expected": CMCTS(TABLE, random_ensemble(TABLE, seed=2), guarded, expected),
        "cmcts two costs": CMCTS(TWO_COSTS, random_ensemble(TWO_COSTS, seed=2), SEARCH),
        "cc-mcp": CCMCP(ROCKS, SEARCH),
        "cc-mcp two costs": CCMCP(TWO_COSTS, SEARCH),
        "energy": PenalizedMCTS(energy_model(4, 4), [1.0, 0.5], SEARCH),
        "timed": PenalizedMCTS(with_time(ROCKS, 9), 0.7, SEARCH),
    }


def batch(planner, count=3):
    state = planner.model.start_state()
    return np.tile(state, (count, 1)), np.full((count, planner.model.cost_count), 1.0)


def same_tree(ours, theirs):
    nodes = int(ours.count[0])
    assert (int(theirs.count[0]), theirs.peak_depth[0], theirs.salt[0]) == (nodes, ours.peak_depth[0], ours.salt[0])
    for name in ("states", "parent", "parent_action", "visits", "depth", "terminal", "expanded", "nothing_safe",
                 "reward", "costs", "path_costs"):  # fmt: skip
        np.testing.assert_array_equal(getattr(theirs, name)[:nodes], getattr(ours, name)[:nodes], name)
    opened = np.flatnonzero(ours.expanded[:nodes])
    np.testing.assert_array_equal(theirs.action_visits[opened], ours.action_visits[opened])
    tried = ours.action_visits[opened] > 0
    for name in ("reward_values", "first_child"):
        np.testing.assert_array_equal(getattr(theirs, name)[opened][tried], getattr(ours, name)[opened][tried], name)
    shape = (len(opened), ours.action_visits.shape[1], -1)
    costs = (tree.cost_values[opened].reshape(shape)[tried] for tree in (ours, theirs))
    np.testing.assert_array_equal(*costs)


def same_decision(ours, theirs):
    for field in dataclasses.fields(ours):
        if field.name not in ("model", "pruning", "seconds", "tree"):
            np.testing.assert_array_equal(getattr(theirs, field.name), getattr(ours, field.name), field.name)


@pytest.mark.parametrize("name", planners())
def test_every_planner_grows_the_cpus_tree(name):
    planner = planners()[name]
    states, budgets = batch(planner)
    here, there = ([stream(seed) for seed in range(3)] for _ in range(2))
    ours = planner.plan_batch(states, budgets, iterations=40, rngs=here, threads=1, keep_tree=True)
    theirs = planner.plan_batch(states, budgets, iterations=40, rngs=there, keep_tree=True, device="cuda")
    for mine, other in zip(ours, theirs, strict=True):
        same_tree(mine.tree, other.tree)
        same_decision(mine, other)
    assert [rng[0] for rng in here] == [rng[0] for rng in there]
    assert len({decision.tree.salt[0] for decision in theirs}) in (1, 3)  # lanes are searches of their own


def test_lanes_that_do_not_fit_at_once_are_launched_one_after_the_other(monkeypatch):
    planner = planners()["cmcts"]
    states, budgets = batch(planner, 5)
    whole = planner.plan_batch(states, budgets, iterations=12, rngs=range(5), device="cuda")
    room = planner.lanes.bytes_per_lane(12)
    launches = []
    monkeypatch.setattr(lanes._CARD, "available", lambda: int(2.5 * room / lanes.MEMORY_SHARE))
    launch = planner.lanes._launch
    monkeypatch.setattr(planner.lanes, "_launch", lambda *rows: launches.append(len(rows[0])) or launch(*rows))
    parts = planner.plan_batch(states, budgets, iterations=12, rngs=range(5), device="cuda", keep_tree=True)
    assert launches == [2, 2, 1]
    for one, other in zip(whole, parts, strict=True):
        same_decision(one, other)
        assert len(other.tree.parent) == other.tree_size


def test_a_long_search_is_launched_in_pieces_and_is_the_same(monkeypatch):
    planner = planners()["cc-mcp"]
    states, budgets = batch(planner, 2)
    whole = planner.plan_batch(states, budgets, iterations=20, rngs=[0, 1], device="cuda")
    monkeypatch.setattr(lanes, "ITERATIONS_A_LAUNCH", 7)
    for one, other in zip(
        whole, planner.plan_batch(states, budgets, iterations=20, rngs=[0, 1], device="cuda"), strict=True
    ):
        same_decision(one, other)


def test_what_a_lane_takes_is_its_tree_its_memo_and_what_is_exchanged():
    plain, guarded = planners()["cmcts"].lanes, planners()["cmcts guarded"].lanes
    node = plain.bytes_per_lane(1 << 17) - plain.bytes_per_lane(1 << 16)
    tree = 8 * 9 + 4 * 5 + 3 + 8 + 8 + 8 + 16 + 12 * (4 + 4 + 8 + 8 + 4 + 4 + 8 + 4)
    assert node == pytest.approx(tree << 16, rel=1e-3)
    memo = guarded.bytes_per_lane(64) - plain.bytes_per_lane(64)
    assert memo == pytest.approx(1024 * (1 + 8 * 9 + 2 * 4 * 12), rel=0.01)


def test_a_search_that_fits_no_card_is_refused():
    assert lanes_that_fit(1000, 10_000_000) == 8500
    with pytest.raises(InvalidInput, match=r"expected a search that fits the GPU's memory, 1.0 GiB free, got one of 2"):
        lanes_that_fit(2 << 30, 1 << 30)


def nan_step(params, state, action, rng, next_state, costs):
    for k in range(state.shape[0]):
        next_state[k] = state[k]
    costs[0] = -1.0 if state[0] > 0.0 else 0.0
    next_state[0] = 1.0
    return 1.0, False


def test_a_fault_is_the_cpus_and_says_which_search():
    model = dataclasses.replace(TABLE, step=nan_step)
    planner = PenalizedMCTS(model, 0.0, SEARCH)
    states, budgets = batch(planner)
    with pytest.raises(ModelError) as ours:
        planner.plan(states[1], budgets[1], iterations=10)
    with pytest.raises(ModelError) as theirs:
        planner.plan_batch(states, budgets, iterations=10, rngs=range(3), device="cuda")
    assert str(theirs.value).startswith(str(ours.value))
    assert str(theirs.value).endswith(f"(search 0 of the batch, from state {states[0].tolist()})")


def no_actions(params, state, out):
    return 0


def test_a_state_without_actions_is_refused_as_on_the_cpu():
    planner = PenalizedMCTS(dataclasses.replace(TABLE, legal_actions=no_actions), 0.0, SEARCH)
    states, budgets = batch(planner)
    with pytest.raises(InvalidInput, match="expected a state with a legal action, got"):
        planner.plan_batch(states, budgets, iterations=10, rngs=range(3), device="cuda")


def raising_step(params, state, action, rng, next_state, costs):
    if params.rewards[0, 0, 0] < 10.0:
        raise ValueError("no such step")
    costs[0] = 0.0
    return 1.0, True


@pytest.mark.skipif(is_simulated(), reason="a simulated GPU raises it by itself")
def test_what_a_models_function_raises_is_found_on_the_cpu():
    planner = PenalizedMCTS(dataclasses.replace(TABLE, step=raising_step), 0.0, SEARCH)
    states, budgets = batch(planner)
    with pytest.raises(ModelError, match="raised ValueError: no such step"):
        planner.plan_batch(states, budgets, iterations=10, rngs=range(3), device="cuda")


def overreaching_step(params, state, action, rng, next_state, costs):
    costs[0] = 0.0
    return params.rewards[int(state[0]) + 1000, 0, 0], True


@pytest.mark.skipif(is_simulated(), reason="a simulated GPU raises it by itself")
def test_an_index_out_of_range_in_a_models_function_is_found():
    planner = PenalizedMCTS(dataclasses.replace(TABLE, step=overreaching_step), 0.0, SEARCH)
    states, budgets = batch(planner)
    with pytest.raises(ModelError, match="raised IndexError"):
        planner.plan_batch(states, budgets, iterations=10, rngs=range(3), device="cuda")


def text_step(params, state, action, rng, next_state, costs):
    costs[0] = float(len(str(action)))
    return 1.0, True


@pytest.mark.skipif(is_simulated(), reason="a simulated GPU compiles nothing")
def test_what_cannot_be_compiled_for_a_gpu_is_named_and_planned_on_the_cpu():
    planner = PenalizedMCTS(dataclasses.replace(TABLE, step=text_step), 0.0, SEARCH)
    states, budgets = batch(planner)
    with pytest.warns(UserWarning, match=r"cannot be compiled for a GPU and plans on the CPU \(step: "):
        theirs = planner.plan_batch(states, budgets, iterations=10, rngs=range(3), device="cuda")
    same_decision(planner.plan(states[0], budgets[0], iterations=10, rng=0), theirs[0])


def test_a_model_of_plain_python_is_named_and_planned_on_the_cpu():
    planner = PenalizedMCTS(dataclasses.replace(TABLE, compilable=False), 0.0, SEARCH)
    states, budgets = batch(planner)
    with pytest.warns(UserWarning, match="cannot be compiled for a GPU and plans on the CPU"):
        theirs = planner.plan_batch(states, budgets, iterations=5, rngs=range(3), threads=1, device="cuda")
    same_decision(planner.plan(states[0], budgets[0], iterations=5, rng=0), theirs[0])


def test_episodes_are_the_cpus(monkeypatch):
    task = cmcts.make("rocksample-5-7")
    planner = CMCTS(task.model, rocks_critic(), SEARCH)
    options = {"episodes": 2, "seed": 3, "iterations": 6}
    ours, our_steps = run_episodes(planner, task.real_world, 1.0, **options, threads=1)
    monkeypatch.setattr(gpu, "LANES_A_CORE", 0)
    theirs, their_steps = run_episodes(planner, task.real_world, 1.0, **options, device="cuda")
    np.testing.assert_array_equal(ours.rewards, theirs.rewards)
    np.testing.assert_array_equal(our_steps.states, their_steps.states)


def test_time_limits_are_for_the_cpu():
    planner = planners()["directed"]
    states, budgets = batch(planner)
    with pytest.raises(InvalidInput, match=r'expected iterations with device "cuda", got seconds=0\.1'):
        planner.plan_batch(states, budgets, seconds=0.1, rngs=range(3), device="cuda")

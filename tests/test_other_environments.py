"""Environments of other people, where they are installed: highway-env is accepted, MiniGrid's lava is listed."""

from __future__ import annotations

from functools import partial

import gymnasium
import pytest

import cmcts
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve

pytestmark = pytest.mark.extras


def test_highway_env_is_accepted():
    pytest.importorskip("highway_env")
    model = cmcts.Model.from_env(
        partial(gymnasium.make, "highway-fast-v0"),
        costs=lambda before, action, after, reward, terminated, info: float(info["crashed"]),
    )
    assert cmcts.check_model(model, states=5) == []


def test_minigrid_s_lava_is_listed_and_solved():
    """Three by three squares, a column of lava with one gap: five, six or seven steps and turns, wherever it is."""
    minigrid = pytest.importorskip("minigrid")

    def make():
        env = gymnasium.make("MiniGrid-LavaGapS5-v0")
        env = gymnasium.wrappers.TransformReward(env, lambda reward: float(reward > 0))
        return minigrid.wrappers.ImgObsWrapper(env)

    tables = cmcts.Model.tabulate(
        make,
        costs=lambda before, action, after, reward, terminated, info: float(terminated and reward == 0),
        ignored=("step_count",),
        samples=60,
    )
    assert "certain, by one step each" in tables.origin and "3 starts seen in 60 resets" in tables.origin
    cmdp = enumerate_states(tables, 0.95)
    best = solve(cmdp, 0.0)
    starts = [cmdp.number(state) for state in tables.starts(tables.params)[1]]
    assert sorted(best.reward_values[starts]) == pytest.approx([0.95**6, 0.95**5, 0.95**4])
    assert best.costs[0] == pytest.approx(0.0, abs=1e-9)

"""The unit of the zoo: one planner on one problem at one budget.

Every planner plays episodes in the real world, which say what share of them exceeds the budget and how long a decision
takes. Where a planner decides by the state alone and the states are few, its reward and cost are judged without
episodes: those of a table exactly, those of a frontier's columns by their decisions in every state.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cmcts.critic import bundle
from cmcts.devices import Device
from cmcts.errors import BudgetWarning, InvalidInput
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import EpisodePolicy
from cmcts.exact.finite import enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.solver import solve
from cmcts.executors import Executor
from cmcts.frontier import Frontier, MixedPolicy
from cmcts.frontier.audit import Judge
from cmcts.frontier.measuring import STATES
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CCMCP, CMCTS
from cmcts.planning.threshold_uct import ThresholdUCT
from cmcts.report.tables import Record
from cmcts.reproduction.units import Curve, Trial
from cmcts.tasks.optimum import exact_policy, least_optimum, solve_task
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task
from cmcts.zoo.baselines import baseline

NORMAL = 1.96  # standard errors, of a 95 % interval


class Player(NamedTuple):
    """Who is tried, and what is to be said about it."""

    planner: Planner | EpisodePolicy
    remark: str = ""


def tried(
    unit: Trial,
    trained: Path | None,
    seed: int,
    executor: Executor | None,
    device: Device,
    on_episodes: Callable[[int], None],
) -> Record:
    """The record of a trial; `trained` is the folder of its training, if it needs one."""
    task = make(unit.task)
    player = _player(unit, task, trained)
    episodes, _ = episodes_on(
        executor,
        player.planner,
        task.real_world,
        [unit.budget],
        episodes=unit.episodes,
        seed=seed,
        device=device,
        on_steps=lambda _, finished: on_episodes(finished),
    )
    record = {**episodes.summary().to_dict(), "judged": "episodes", "remark": player.remark}
    if unit.planner == "exact":
        best, least = solve_task(task, [unit.budget]), least_optimum(task)
        record |= _exact(best.reward_lower, best.costs[0])
        record["least_reward"] = None if least is None else least.reward_upper
    elif isinstance(player.planner, TabularPolicy):
        record |= _exact(player.planner.reward, player.planner.costs[0])
    elif isinstance(player.planner, MixedPolicy):
        record |= _judged(unit, task, player.planner, executor)
    return record


def solve_curve(unit: Curve) -> Record:
    """The optimum for budgets up to the largest, or to a little more than what the best policy spends."""
    task, least = make(unit.task), least_optimum(make(unit.task))
    assert task.real_model is not None and least is not None
    cmdp = enumerate_states(task.real_model, task.discount, cost_discounts=task.cost_discounts)
    most = min(1.05 * float(solve(cmdp, [np.inf]).costs[0]), unit.largest)
    # A budget of a rounding error more than the least can surely be kept.
    budgets = np.linspace(least.costs[0] + 1e-9, most, unit.points)
    return {"budgets": budgets.tolist(), "rewards": [solve(cmdp, [budget]).reward for budget in budgets]}


def _player(unit: Trial, task: Task, trained: Path | None) -> Player:
    if unit.planner == "exact":
        return Player(exact_policy(task, [unit.budget]))
    if unit.planner == "baseline":
        rule = baseline(task, unit.budget)
        assert rule is not None
        return Player(rule.policy, rule.name)
    if unit.planner == "frontier":
        assert trained is not None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BudgetWarning)
            mixed = Frontier.load(trained, task.model).nearest([unit.budget])
        return Player(mixed, "" if not caught else "cannot keep the budget" if not mixed.kept else "")
    if unit.planner == "cmcts":
        assert trained is not None
        loaded = bundle.load(trained)
        remark = "" if loaded.critic is not None else "no critic paid: prunes by immediate costs alone"
        return Player(CMCTS(task.model, loaded.critic_for(task.model), loaded.search, loaded.pruning), remark)
    if unit.planner == "cc-mcp":
        return Player(CCMCP(task.model, task.search, task.ccmcp_settings, cost_scale=task.cost_scale or ()))
    return Player(ThresholdUCT(task.model, task.search, cost_scale=task.cost_scale or ()))


def _exact(reward: float, cost: float) -> dict[str, Any]:
    return {
        "reward_mean": reward,
        "reward_interval": [reward, reward],
        "cost_mean": cost,
        "cost_interval": [cost, cost],
        "judged": "exactly",
    }


def _judged(unit: Trial, task: Task, policy: MixedPolicy, executor: Executor | None) -> dict[str, Any]:
    """What a mixture's decisions in every state are worth; nothing where the states are many."""
    assert task.real_model is not None
    try:
        cmdp = enumerate_states(task.real_model, task.discount, STATES, task.cost_discounts)
    except InvalidInput:  # too many
        return {}
    judge = Judge(cmdp, unit.plans, unit.episodes, executor)
    (reward, cost), (reward_error, cost_error) = judge.figures(policy, task, task.real_world).tolist()
    return {
        "reward_mean": reward,
        "reward_interval": [reward - NORMAL * reward_error, reward + NORMAL * reward_error],
        "cost_mean": cost,
        "cost_interval": [cost - NORMAL * cost_error, cost + NORMAL * cost_error],
        "judged": "decisions",
    }

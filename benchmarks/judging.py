"""A frontier's mixture on a finite problem, judged without the noise of episodes as far as that goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.tabulated import exact_values
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import Values
from cmcts.executors import Executor, Here, Work
from cmcts.frontier import MixedPolicy
from cmcts.planning.planner import Planner
from cmcts.tasks.task import Task


@dataclass(frozen=True)
class Judge:
    """How columns are judged: decisions over so many seeds a state, and episodes of those that mind what is left."""

    cmdp: FiniteCMDP
    seeds: int
    episodes: int
    executor: Executor | None = None

    def figures(self, policy: MixedPolicy, task: Task, world: Callable[..., Any]) -> NDArray[np.float64]:
        """[2, 1 + M] the reward and costs of a mixture, and their standard errors; what is tabulated has none."""
        rows = [self._column(policy, k, task, world) for k in range(len(policy.columns))]
        means, errors = np.array(rows).transpose(1, 0, 2)
        return np.stack([policy.weights @ means, np.sqrt(policy.weights**2 @ errors**2)])

    def _column(self, policy: MixedPolicy, k: int, task: Task, world: Callable[..., Any]) -> NDArray[np.float64]:
        column, planner = policy.columns[k].settings, policy.planners[k]
        if column.guard == "none":
            work = Work(partial(_values, planner, self.cmdp), f"decisions of {planner.model.name}, seeds")
            ((_, values),) = (self.executor or Here()).run(work, [self.seeds])
            means = np.array([values.reward, *values.costs])
            return np.stack([means, np.zeros_like(means)])
        done, _ = episodes_on(self.executor, planner, world, column.budget, episodes=self.episodes, seed=1)
        played = np.column_stack([done.rewards, done.costs])
        return np.stack([played.mean(axis=0), played.std(axis=0, ddof=1) / np.sqrt(len(played))])


def _values(planner: Planner, cmdp: FiniteCMDP, seeds: int) -> Values:
    return exact_values(planner, cmdp, seeds=seeds, seed=9)

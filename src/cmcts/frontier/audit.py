"""A finished mixture on a finite problem, judged by plans that no training made, without the noise of episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.tabulated import judged
from cmcts.exact.finite import FiniteCMDP
from cmcts.executors import Executor
from cmcts.frontier.policy import MixedPolicy
from cmcts.tasks.task import Task

PRECISION = 0.001
SMALL = 0.1  # of the budget, or of 1 if it is 0: what costs less need not be known better
SEED = 9  # which no training plans with


@dataclass(frozen=True)
class Judge:
    """How columns are judged: by decisions in every state, until they are known to a thousandth or so many plans are
    made in a state on average, and by episodes if they mind what is left of the budget and something is."""

    cmdp: FiniteCMDP
    seeds: int
    """Plans a state, on average and at most."""
    episodes: int
    """Of columns that mind what is left of the budget."""
    executor: Executor | None = None

    def figures(self, policy: MixedPolicy, task: Task, world: Callable[..., Any]) -> NDArray[np.float64]:
        """[2, 1 + M] the reward and costs of a mixture, and their standard errors."""
        rows = [self._column(policy, k, task, world) for k in range(len(policy.columns))]
        means, errors = np.array(rows).transpose(1, 0, 2)
        return np.stack([policy.weights @ means, np.sqrt(policy.weights**2 @ errors**2)])

    def _column(self, policy: MixedPolicy, k: int, task: Task, world: Callable[..., Any]) -> NDArray[np.float64]:
        column, planner = policy.columns[k].settings, policy.planners[k]
        if planner.decides_by_state(column.budget):
            found = judged(
                planner,
                self.cmdp,
                precision=PRECISION,
                units=np.concatenate([[0.0], SMALL * np.where(policy.budget > 0, policy.budget, 1.0)]),
                plans=self.seeds * self.cmdp.state_count,
                seed=SEED,
                executor=self.executor,
                budget=np.array(column.budget) if column.budget else None,
            )
            return np.stack([found.means, found.errors])
        done, _ = episodes_on(self.executor, planner, world, column.budget, episodes=self.episodes, seed=1)
        played = np.column_stack([done.rewards, done.costs])
        return np.stack([played.mean(axis=0), played.std(axis=0, ddof=1) / np.sqrt(len(played))])

"""How well a task can be done at all: its constrained optimum, or proven bounds on it, in its real world."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from cmcts.envs.rocksample import RockSampleParams
from cmcts.errors import InvalidInput, expect
from cmcts.exact import solve
from cmcts.finite import STATE_LIMIT, enumerate_states
from cmcts.rocksample_bounds import rocksample_bounds

if TYPE_CHECKING:
    from cmcts.tasks import Task

_EQUAL = 1e-6


@dataclass(frozen=True)
class Optimum:
    """No policy within the budget earns more than `reward_upper` on average, and one earns `reward_lower`."""

    reward_lower: float
    reward_upper: float
    costs: tuple[float, ...]
    """What the policy behind `reward_lower` spends of each constraint."""
    multipliers: tuple[float, ...]
    """lambda*: what one more unit of budget would earn."""
    states: int
    seconds: float

    @property
    def exact(self) -> bool:
        """Whether the bounds meet."""
        return self.reward_upper - self.reward_lower <= _EQUAL * (1.0 + abs(self.reward_upper))

    def regret(self, reward: float) -> float:
        """The most that a mean reward can fall short of the optimum. Negative only by chance or by overspending."""
        return self.reward_upper - reward

    def to_dict(self) -> dict[str, Any]:
        """For JSON: `reward` only if it is known exactly, the bounds always; a single cost as a number."""
        return {
            **({"reward": self.reward_lower} if self.exact else {}),
            "reward_lower": self.reward_lower,
            "reward_upper": self.reward_upper,
            "cost": self.costs[0] if len(self.costs) == 1 else list(self.costs),
            "multipliers": list(self.multipliers),
            "states": self.states,
            "seconds": self.seconds,
        }


def solve_task(task: Task, budget: ArrayLike | None = None, state_limit: int = STATE_LIMIT) -> Optimum:
    """The optimum of a task's real world, with the task's budget or another; an error says why there is none."""
    began = time.perf_counter()
    model = task.real_model
    if model is None:
        raise InvalidInput(
            f"expected task {task.name!r} to have a real_model, which its optimum follows from, got None"
        )
    limits = np.atleast_1d(np.asarray(task.budget if budget is None else budget, np.float64))
    expect(limits.shape == (model.cost_count,), f"a budget of {model.cost_count} numbers", budget)
    if isinstance(model.params, RockSampleParams):
        bounds = rocksample_bounds(model.params, float(limits[0]), task.discount)
        return Optimum(
            reward_lower=bounds.reward_lower,
            reward_upper=bounds.reward_upper,
            costs=(bounds.cost,),
            multipliers=(bounds.multiplier,),
            states=bounds.states,
            seconds=time.perf_counter() - began,
        )
    cmdp = enumerate_states(model, task.discount, state_limit)
    solution = solve(cmdp, limits)
    return Optimum(
        reward_lower=solution.reward,
        reward_upper=solution.reward + solution.gap,
        costs=tuple(solution.costs.tolist()),
        multipliers=tuple(solution.multipliers.tolist()),
        states=cmdp.state_count,
        seconds=time.perf_counter() - began,
    )


def optimum(task: Task, budget: ArrayLike | None = None) -> Optimum | None:
    """The same, or None where it is not known: no real model, too many states, or a budget that cannot be kept."""
    model = task.real_model
    if model is None or model.outcomes is None or model.starts is None:
        return None
    try:
        return solve_task(task, budget)
    except InvalidInput:
        return None

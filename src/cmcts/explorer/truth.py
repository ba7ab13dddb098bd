"""What actions really cost, where that is known: the least that must still be spent, in the real world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.errors import InvalidInput
from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.solver import least_cost_to_go
from cmcts.tasks.task import Task

STATE_LIMIT = 2000  # more take longer to list than a reader likes to wait


@dataclass(frozen=True, eq=False)
class Truth:
    """The least cost-to-go of every state and action of a finite world."""

    cmdp: FiniteCMDP
    tables: NDArray[np.float64]  # [S, A, M], not a number where an action is not legal

    def of(self, state: ArrayLike) -> NDArray[np.float64] | None:
        """[A, M] of a state, or None if it cannot be reached."""
        try:
            return np.asarray(self.tables[self.cmdp.number(state)])
        except InvalidInput:
            return None


def truth(task: Task) -> Truth | None:
    """The truth about a task's real world; None where it has no model, or too many states to list."""
    model = task.real_model
    if model is None or model.outcomes is None or model.starts is None:
        return None
    try:
        cmdp = enumerate_states(model, task.discount, STATE_LIMIT, task.cost_discounts)
        least = least_cost_to_go(cmdp)
    except InvalidInput:
        return None
    tables = [cmdp.table(least[:, m], missing=np.nan) for m in range(cmdp.cost_count)]
    return Truth(cmdp, np.stack(tables, axis=-1))

"""What people of the trade do: rules that need no planner, as policies with exact figures.

`icu-sepsis`: what clinicians did. `queue`: fast service when so many wait. `inventory`: order up to a level when so few
are left. Of a family of rules the best one that keeps the budget is taken, or the thriftiest if none does. A rule
tosses no coins, so it leaves some of the budget unspent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.solver import Values, evaluate
from cmcts.tasks.task import Task
from cmcts.zoo.icu_sepsis import clinicians
from cmcts.zoo.inventory import MOST_ORDERED
from cmcts.zoo.queue import FAST, SLOW


class Baseline(NamedTuple):
    """A rule, and what it is called."""

    name: str
    policy: TabularPolicy


Rule = tuple[str, NDArray[np.int64]]  # its name, and [S] the action in every state


def baseline(task: Task, budget: float) -> Baseline | None:
    """What the trade does within a budget of the first cost; None where the problem has no trade."""
    if task.name.startswith("icu-sepsis"):
        return Baseline("clinicians, as recorded", clinicians(task))
    families = {"queue": queue_rules, "inventory": inventory_rules}
    if task.name not in families:
        return None
    cmdp = enumerate_states(task.model, task.discount)
    rules = list(families[task.name](task, cmdp))
    name, actions = rules[_best([evaluate(cmdp, _table(cmdp, actions)) for _, actions in rules], budget)]
    return Baseline(name, TabularPolicy.playing(cmdp, _table(cmdp, actions), task.model))


def queue_rules(task: Task, cmdp: FiniteCMDP) -> Iterable[Rule]:
    """Fast service when k customers wait or more."""
    waiting = cmdp.states[:, 0].astype(np.int64)
    room = task.model.params.room
    for least in range(1, room + 2):
        words = "never fast" if least > room else f"fast when {least} wait"
        yield words, np.where(waiting >= least, FAST, SLOW)


def inventory_rules(task: Task, cmdp: FiniteCMDP) -> Iterable[Rule]:
    """Order up to S items when s or fewer are left, as far as one order goes."""
    stock = cmdp.states[:, 0].astype(np.int64)
    for few in range(task.model.params.room):
        for level in range(few + 1, min(few + MOST_ORDERED, task.model.params.room) + 1):
            wanted = np.where(stock <= few, np.minimum(level - stock, MOST_ORDERED), 0)
            yield f"up to {level} when {few} are left", wanted


def _table(cmdp: FiniteCMDP, actions: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(np.eye(cmdp.action_count)[actions])


def _best(found: list[Values], budget: float) -> int:
    """The number of the best that keeps the budget, or of the thriftiest."""
    kept = [k for k, values in enumerate(found) if values.costs[0] <= budget + 1e-9]
    if kept:
        return max(kept, key=lambda k: found[k].reward)
    return min(range(len(found)), key=lambda k: float(found[k].costs[0]))

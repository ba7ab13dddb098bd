"""How well a task can be done at all: its constrained optimum, or proven bounds on it, in its real world."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from cmcts.errors import InvalidInput
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.exact.finite import STATE_LIMIT, enumerate_states
from cmcts.exact.optimum import Optimum, solve_model
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.solver import solve
from cmcts.model.interface import Model
from cmcts.tasks.task import Task

__all__ = ["Optimum", "exact_policy", "least_optimum", "optimum", "solve_task", "solve_training"]


def solve_task(task: Task, budget: ArrayLike | None = None, state_limit: int = STATE_LIMIT) -> Optimum:
    """The optimum of a task's real world, with the task's budget or another; an error says why there is none."""
    return _solve(task, task.real_model, "real_model", budget, state_limit)


def solve_training(task: Task, budget: ArrayLike | None = None, state_limit: int = STATE_LIMIT) -> Optimum:
    """The same in its training world, which is where a frontier is measured."""
    return _solve(task, task.training_model, "training_model", budget, state_limit)


def _solve(task: Task, model: Model | None, name: str, budget: ArrayLike | None, state_limit: int) -> Optimum:
    if model is None:
        raise InvalidInput(f"expected task {task.name!r} to have a {name}, which its optimum follows from, got None")
    limits = task.budget if budget is None else budget
    if task.optimum is not None and set(task.cost_discounts) == {task.discount}:
        return task.optimum(model, limits, task.discount)
    return solve_model(model, limits, task.discount, state_limit, task.cost_discounts)


def exact_policy(task: Task, budget: ArrayLike | None = None, state_limit: int = STATE_LIMIT) -> TabularPolicy:
    """The optimal policy of a task's real world; an error says why there is none.

    It acts in the world it was solved for, whose states are those of the planning model.
    """
    model = task.real_model
    if model is None or model.outcomes is None or model.starts is None:
        raise InvalidInput(
            f"expected task {task.name!r} to have a real_model that knows its outcomes and starts, got none"
        )
    limits = model.validate_costs(task.budget if budget is None else budget, "budget")
    cmdp = enumerate_states(model, task.discount, state_limit, task.cost_discounts)
    return TabularPolicy.of(solve(cmdp, limits), model)


def least_optimum(task: Task, solver: Callable[[Task, ArrayLike | None], Optimum] = solve_task) -> Optimum | None:
    """The optimum at the least budget that can be kept, which costs what cannot be avoided; None if it is not known.

    What a budget buys is its optimum minus this one. `solver` is `solve_training` for the training world.
    """
    nothing = [0.0] * task.model.cost_count
    try:
        try:
            return solver(task, nothing)
        except InfeasibleBudget as error:
            return solver(task, error.least)
    except InvalidInput:  # the least budgets of several constraints need not be possible together
        return None


def optimum(task: Task, budget: ArrayLike | None = None) -> Optimum | None:
    """The same, or None where it is not known: no real model, too many states, or a budget that cannot be kept."""
    model = task.real_model
    if model is None or model.outcomes is None or model.starts is None:
        return None
    try:
        return solve_task(task, budget)
    except InvalidInput:
        return None

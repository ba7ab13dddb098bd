"""A planner on a finite problem, judged without the noise of episodes: its decisions in every state, evaluated exactly.

A search is random, so a planner is a randomised policy: the shares of its decisions over many seeds are its action
probabilities, and a linear system gives their reward and costs. What is left of chance is how well the shares are
known. That takes a planner whose decisions depend on the state alone; one that prunes by what is left of the budget, or
carries multipliers from step to step, is another policy after every history.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput, expect
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import Values, evaluate
from cmcts.planning.planner import Planner
from cmcts.random import stage_seed


def tabulated(
    planner: Planner, cmdp: FiniteCMDP, *, seeds: int, seed: int = 0, iterations: int | None = None
) -> NDArray[np.float64]:
    """[P] how often the planner takes each pair's action in the pair's state, over so many seeds."""
    expect(isinstance(seeds, int) and seeds >= 1, "seeds >= 1", seeds)
    if planner.minds_budget:
        raise InvalidInput(
            f"expected a planner that decides by the state alone (PenalizedMCTS), got {type(planner).__name__}"
        )
    states = np.repeat(cmdp.states, seeds, axis=0)
    budgets = np.zeros((len(states), cmdp.cost_count))
    prices = np.tile(planner.initial_multipliers(), (cmdp.state_count, 1))
    if (planner.price_growth != 1.0).any():
        if cmdp.times is None:
            raise InvalidInput("expected states with a time of their own where discounts differ, got others")
        prices = prices * planner.price_growth ** cmdp.times[:, None]
    rngs: list[int] = [stage_seed(seed, state, k) for state in range(cmdp.state_count) for k in range(seeds)]
    decisions = planner.plan_batch(
        states, budgets, rngs=rngs, iterations=iterations, multipliers=np.repeat(prices, seeds, axis=0)
    )
    table = np.zeros((cmdp.state_count, cmdp.action_count))
    for row, decision in enumerate(decisions):
        table[row // seeds, decision.action] += 1.0 / seeds
    return cmdp.pairs(table)


def exact_values(
    planner: Planner, cmdp: FiniteCMDP, *, seeds: int, seed: int = 0, iterations: int | None = None
) -> Values:
    """Reward and costs of a planner on a finite problem, from its decisions in every state over so many seeds."""
    return evaluate(cmdp, tabulated(planner, cmdp, seeds=seeds, seed=seed, iterations=iterations))

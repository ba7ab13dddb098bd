"""Small random constrained MDPs with known solutions: a gymnasium for planners under development.

    >>> problem = random_problem(seed=7, kind="sparse")
    >>> problem.model.action_count
    3
    >>> bool(problem.solution.costs[0] <= problem.budget[0] + 1e-9)
    True

Every problem is a `Model` that planners can simulate, the same thing as tables (`FiniteCMDP`), a budget that binds but
can be kept, and the exact `solution`. All share their functions, so the search is compiled once for all of them.

Three kinds. *dense*: every state can follow every pair. *sparse*: three can. *absorbing*: three can, and every step may
be the last. Rewards rise with the costs of a pair on average, so that keeping the budget means giving something up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import expect
from cmcts.exact.finite import FiniteCMDP, tabular_cmdp
from cmcts.exact.solver import Solution, best_policy, evaluate, solve
from cmcts.model.interface import Model
from cmcts.model.tabular import TabularParams, tabular_model

Kind = Literal["dense", "sparse", "absorbing"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SHAPE = (8, 3, 1)  # states, actions and constraints of a problem that is named without them
_SUCCESSORS = 3  # of a pair, unless the problem is dense


@dataclass(frozen=True, eq=False)
class RandomProblem:
    """A random constrained MDP, its budget and, on demand, its solution."""

    name: str
    model: Model
    cmdp: FiniteCMDP
    budget: NDArray[np.float64]  # [M]

    @property
    def discount(self) -> float:
        """The discount gamma of rewards and costs."""
        return self.cmdp.discount

    @cached_property
    def solution(self) -> Solution:
        """The constrained optimum at `budget`, solved when it is first asked for."""
        return solve(self.cmdp, self.budget)


def random_params(
    rng: np.random.Generator, kind: Kind, states: int, actions: int, constraints: int, start_states: int = 1
) -> TabularParams:
    """Random tables of one kind; episodes begin in one of the first `start_states` states."""
    if kind == "dense":
        successors = np.broadcast_to(np.arange(states), (states, actions, states)).copy()
    else:
        successors = rng.integers(states, size=(states, actions, _SUCCESSORS))
    probabilities = rng.exponential(size=successors.shape)
    probabilities /= probabilities.sum(axis=2, keepdims=True)
    cumulative = np.cumsum(probabilities, axis=2)
    cumulative[:, :, -1] = 1.0
    if kind == "absorbing":
        cumulative *= 1.0 - 0.4 * rng.random((states, actions, 1))
    costs = rng.random((states, actions, constraints)) * (rng.random((states, actions, constraints)) < 0.5)
    rewards = rng.uniform(-0.5, 0.5, (states, actions)) + costs.mean(axis=2) * rng.uniform(0.0, 2.0, (states, actions))
    start_cumulative = np.ones(states)
    start_cumulative[: start_states - 1] = np.cumsum(rng.dirichlet(np.ones(start_states)))[:-1]
    return TabularParams(successors.astype(np.int64), cumulative, rewards, costs, start_cumulative)


def random_problem(
    seed: int,
    kind: Kind = "dense",
    states: int = 8,
    actions: int = 3,
    constraints: int = 1,
    discount: float = 0.9,
    start_states: int = 1,
) -> RandomProblem:
    """The problem of that seed and shape, always the same.

    The budget lies between what a frugal policy (least sum of costs) and the best unconstrained policy spend: their
    mixture keeps it, so it can be kept, and unless the two spend alike it binds. With several start states it is kept
    on average over them; a planner that sees one of them cannot know how much the others leave.
    """
    expect(kind in KINDS, f"kind to be one of {KINDS}", kind)
    for name, value, least in (("states", states, 1), ("actions", actions, 1), ("constraints", constraints, 1)):
        expect(isinstance(value, int) and value >= least, f"{name} >= {least}", value)
    expect(1 <= start_states <= states, f"start_states from 1 to {states}", start_states)
    rng = np.random.default_rng([seed, KINDS.index(kind), states, actions, constraints])
    params = random_params(rng, kind, states, actions, constraints, start_states)
    cmdp = tabular_cmdp(params, discount)
    spent = frugal_costs(cmdp), _spending(cmdp, cmdp.rewards)
    share = rng.uniform(0.2, 0.8)
    budget = (1.0 - share) * spent[0] + share * spent[1]
    shape = (states, actions, constraints)
    more = "" if shape == _SHAPE else "-" + "-".join(map(str, shape))
    return RandomProblem(f"random-{kind}-{seed}{more}", tabular_model(params), cmdp, budget)


def frugal_costs(cmdp: FiniteCMDP) -> NDArray[np.float64]:
    """[M] what the policy of the least sum of costs spends: the least budget, where there is one constraint."""
    return _spending(cmdp, -cmdp.costs.sum(axis=1))


def _spending(cmdp: FiniteCMDP, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """[M] the costs of the best policy for `gains`."""
    policy = np.zeros(cmdp.pair_count)
    policy[best_policy(cmdp, gains)[1]] = 1.0
    return evaluate(cmdp, policy).costs

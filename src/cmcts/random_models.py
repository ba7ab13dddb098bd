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
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation import kernel
from cmcts.errors import expect
from cmcts.exact import Solution, best_policy, evaluate, solve
from cmcts.finite import FiniteCMDP
from cmcts.model import Model
from cmcts.random import uniform

Kind = Literal["dense", "sparse", "absorbing"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_SUCCESSORS = 3  # of a pair, unless the problem is dense


class TabularParams(NamedTuple):
    """S states, A actions, K successors of every pair; a row of `cumulative` that ends below 1 may end the episode."""

    successors: NDArray[np.int64]  # [S, A, K]
    cumulative: NDArray[np.float64]  # [S, A, K] running sums of P(s' | s, a)
    rewards: NDArray[np.float64]  # [S, A]
    costs: NDArray[np.float64]  # [S, A, M]
    start_cumulative: NDArray[np.float64]  # [S] running sums of mu


@kernel
def start(params, rng, state):
    """Drawn from mu."""
    u = uniform(rng)
    last = params.start_cumulative.shape[0] - 1
    number = 0
    while number < last and u >= params.start_cumulative[number]:
        number += 1
    state[0] = float(number)


@kernel
def legal_actions(params, state, out):
    """All of them."""
    for action in range(params.rewards.shape[1]):
        out[action] = action
    return params.rewards.shape[1]


@kernel
def step(params, state, action, rng, next_state, costs):
    """Pay, earn, and draw a successor; what probability they leave ends the episode, in state number S."""
    number = int(state[0])
    for m in range(costs.shape[0]):
        costs[m] = params.costs[number, action, m]
    next_state[0] = float(params.rewards.shape[0])
    u = uniform(rng)
    for k in range(params.successors.shape[2]):
        if u < params.cumulative[number, action, k]:
            next_state[0] = float(params.successors[number, action, k])
            return params.rewards[number, action], False
    return params.rewards[number, action], True


@kernel
def features(params, state, out):
    """Which state: one of S, or none of them after the end."""
    for number in range(out.shape[0]):
        out[number] = 1.0 if number == state[0] else 0.0


@kernel
def expected_costs(params, state, action, out):
    """C(s, a), which is certain."""
    for m in range(out.shape[0]):
        out[m] = params.costs[int(state[0]), action, m]


def outcomes(params: TabularParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """The successors of a pair, and the end if it is possible."""
    number = int(state[0])
    cumulative = params.cumulative[number, action]
    count = len(cumulative) + 1
    probabilities, next_states = np.empty(count), np.empty((count, 1))
    probabilities[0], probabilities[-1] = cumulative[0], 1.0 - cumulative[-1]
    probabilities[1:-1] = cumulative[1:] - cumulative[:-1]
    next_states[:-1, 0], next_states[-1, 0] = params.successors[number, action], len(params.rewards)
    ends = np.zeros(count, np.bool_)
    ends[-1] = True
    costs = np.broadcast_to(params.costs[number, action], (count, params.costs.shape[2]))
    return probabilities, next_states, np.full(count, params.rewards[number, action]), costs, ends


def starts(params: TabularParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The states that have a probability in mu."""
    chances = np.diff(params.start_cumulative, prepend=0.0)
    states = np.flatnonzero(chances)
    return chances[states], states[:, None].astype(np.float64)


def state_fault(params: TabularParams, state: NDArray[np.float64]) -> str:
    """What makes a state impossible."""
    count = len(params.rewards)
    if state[0] != int(state[0]) or not 0 <= state[0] < count:
        return f"expected a state number from 0 to {count - 1}, got {state[0]}"
    return ""


def tabular_model(params: TabularParams, name: str = "tabular") -> Model:
    """Tables as a model that planners can simulate; the state is its number."""
    states, actions = params.rewards.shape
    return Model(
        name=name,
        params=params,
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        expected_costs=expected_costs,
        outcomes=outcomes,
        starts=starts,
        state_fault=state_fault,
        state_size=1,
        action_count=actions,
        feature_count=states,
        cost_count=params.costs.shape[2],
        feature_description="one number for each state: 1 for the current one, else 0",
    )


def tabular_cmdp(params: TabularParams, discount: float) -> FiniteCMDP:
    """The same tables for the exact solver, without listing states one by one."""
    from scipy.sparse import csr_array

    states, actions, successors = params.successors.shape
    pairs = states * actions
    probabilities = np.diff(params.cumulative, axis=2, prepend=0.0)
    rows = np.arange(0, pairs * successors + 1, successors)
    transition = csr_array((probabilities.ravel(), params.successors.ravel().copy(), rows), shape=(pairs, states))
    transition.sum_duplicates()
    return FiniteCMDP(
        states=np.arange(states, dtype=np.float64)[:, None],
        pair_state=np.repeat(np.arange(states), actions),
        pair_action=np.tile(np.arange(actions), states),
        transition=transition,
        rewards=params.rewards.ravel(),
        costs=params.costs.reshape(pairs, -1),
        start=np.diff(params.start_cumulative, prepend=0.0),
        discount=discount,
        action_count=actions,
    )


@dataclass(frozen=True, eq=False)
class RandomProblem:
    """A random constrained MDP, its budget and, on demand, its solution."""

    name: str
    model: Model
    cmdp: FiniteCMDP
    budget: NDArray[np.float64]  # [M]

    @property
    def discount(self) -> float:
        """gamma."""
        return self.cmdp.discount

    @cached_property
    def solution(self) -> Solution:
        """The constrained optimum."""
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
    spent = [_spending(cmdp, gains) for gains in (-cmdp.costs.sum(axis=1), cmdp.rewards)]
    share = rng.uniform(0.2, 0.8)
    budget = (1.0 - share) * spent[0] + share * spent[1]
    return RandomProblem(f"random-{kind}-{seed}", tabular_model(params), cmdp, budget)


def _spending(cmdp: FiniteCMDP, gains: NDArray[np.float64]) -> NDArray[np.float64]:
    """[M] the costs of the best policy for `gains`."""
    policy = np.zeros(cmdp.pair_count)
    policy[best_policy(cmdp, gains)[1]] = 1.0
    return evaluate(cmdp, policy).costs

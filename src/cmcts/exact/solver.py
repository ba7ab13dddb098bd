"""Exact solutions of finite constrained MDPs: the optimum that planners are measured against.

With x(s, a) >= 0 the discounted number of times that a policy takes a in s (its occupation measure), the constrained
problem is a linear program (Altman 1999, chapter 3):

    maximise    sum_p x_p R_p
    subject to  sum_{p of s} x_p - gamma sum_p P(s | p) x_p = mu(s)      for every state s
                sum_p x_p C_{p,m} <= c_hat_m                             for every constraint m

Its extreme points without the last line are the deterministic policies, so it is solved by their columns
(column_generation.py), each found by policy iteration on the penalised reward R - lambda C.

Where every state belongs to one step t of the episode, backward induction over t takes the place of policy iteration.
Discounts may then differ: x counts visits as they are, a reward weighs gamma^t and a cost gamma_m^t, and seen from step
t the price of a cost is lambda gamma_m^t / gamma^t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cmcts.errors import InvalidInput, expect, shown
from cmcts.exact.column_generation import Column, linear_program, mix_columns
from cmcts.exact.finite import FiniteCMDP, Floats, Integers

_DENSE_STATES = 64  # up to here a dense solve is faster, and no BLAS starts threads for it
_PRECISION = 1e-12  # of linear systems, relative to their right-hand sides
_IMPROVEMENT = 1e-10  # a policy must be this much better, relative to the largest value, to be worth a change
_VERTEX_PAIRS = 20_000  # a policy that uses more is left as the mixture it was found as


class Values(NamedTuple):
    """What a policy earns and pays, from the start and from every state."""

    reward: float  # V_R from the start distribution
    costs: Floats  # [M] V_C from the start distribution
    reward_values: Floats  # [S] V_R(s)
    cost_values: Floats  # [S, M] V_C(s)


@dataclass(frozen=True, eq=False)
class Solution:
    """An optimal policy of the constrained problem. It may have to be stochastic, though M states are enough for that.

    Policies of up to 20,000 pairs toss coins in no more than M of the states they visit; larger ones may do so in more.
    """

    cmdp: FiniteCMDP
    budget: Floats  # [M] c_hat
    reward: float
    """V_R of the policy, at most `gap` below the optimum."""
    costs: Floats  # [M] V_C of the policy
    multipliers: Floats  # [M] lambda*, what one more unit of budget would earn
    gap: float
    """Dual minus primal value: a proven bound on the error of `reward`."""
    occupation: Floats  # [P] x(s, a); not discounted if reward and costs have different discounts
    policy: Floats  # [P] pi(a | s); in states it never visits, the best action for R - lambda* C
    reward_values: Floats  # [S]
    cost_values: Floats  # [S, M]

    def probabilities(self, state: ArrayLike) -> Floats:
        """[A] the action probabilities in a state."""
        number = self.cmdp.number(state)
        pairs = np.flatnonzero(self.cmdp.pair_state == number)
        out = np.zeros(self.cmdp.action_count)
        out[self.cmdp.pair_action[pairs]] = self.policy[pairs]
        return out


def solve(cmdp: FiniteCMDP, budget: ArrayLike) -> Solution:
    """The constrained optimum. Infinite budgets are allowed: the problem is then unconstrained."""
    limits = _checked_budget(cmdp, budget)
    pricing = _PolicyPricing(cmdp)
    mixture = mix_columns(pricing, limits, cmdp.cost_count)
    weights = [(weight, column.policy) for weight, column in zip(mixture.weights, mixture.columns, strict=True)]
    occupation = np.zeros(cmdp.pair_count)
    for weight, pairs in weights:
        if weight > 0.0:
            occupation[pairs] += weight * occupation_measure(cmdp, pairs)
    occupation = _with_least_chance(cmdp, limits, occupation)
    visits = np.add.reduceat(occupation, cmdp.first_pair)
    fallback = np.zeros(cmdp.pair_count)
    fallback[pricing(1.0, mixture.multipliers).policy] = 1.0
    visited = visits[cmdp.pair_state] > 0.0
    policy = np.where(visited, occupation / np.where(visited, visits[cmdp.pair_state], 1.0), fallback)
    values = evaluate(cmdp, policy)
    return Solution(
        cmdp=cmdp,
        budget=limits,
        reward=mixture.reward,
        costs=mixture.costs,
        multipliers=mixture.multipliers,
        gap=mixture.gap,
        occupation=occupation,
        policy=policy,
        reward_values=values.reward_values,
        cost_values=values.cost_values,
    )


def _with_least_chance(cmdp: FiniteCMDP, budget: Floats, occupation: Floats) -> Floats:
    """An equally good occupation measure that is a vertex of the program, and so splits at most M of its states.

    The mixture of two policies that differ in many states is optimal but tosses a coin in each of them. The program
    restricted to the pairs it uses is small, and the simplex method ends in a vertex.
    """
    from scipy.sparse import csr_array

    used = np.flatnonzero(occupation > 0.0)
    visited, row = np.unique(cmdp.pair_state[used], return_inverse=True)
    if len(used) == len(visited) or len(used) > _VERTEX_PAIRS:
        return occupation
    rewards, costs = cmdp.rewards, cmdp.costs
    if not cmdp.same_discounts:
        rewards, costs = rewards * cmdp.powers([cmdp.discount])[:, 0], costs * cmdp.powers(cmdp.cost_discounts)
    own = csr_array((np.ones(len(used)), (row, np.arange(len(used)))), shape=(len(visited), len(used)))
    finite = np.isfinite(budget)
    try:
        result = linear_program(
            -rewards[used],
            A_ub=costs[used][:, finite].T,
            b_ub=np.maximum(budget, occupation @ costs)[finite],
            A_eq=own - _visit_discount(cmdp) * cmdp.transition[used][:, visited].T,
            b_eq=cmdp.start[visited],
        )
    except InvalidInput:
        # HiGHS drops numbers below 1e-9, which can leave a program this tight without a solution: the mixture stands.
        return occupation
    vertex = np.zeros(cmdp.pair_count)
    vertex[used] = np.where(result.x > 1e-12, result.x, 0.0)
    return vertex


def evaluate(cmdp: FiniteCMDP, policy: ArrayLike) -> Values:
    """V_R and V_C of any policy, [P] (or a table [S, A]) of probabilities: (I - gamma P_pi) V = R_pi.

    Values of a state are seen from that state: nothing is discounted yet.
    """
    chances = np.asarray(policy, np.float64)
    chances = chances if chances.ndim == 1 else cmdp.pairs(chances)
    expect(chances.shape == (cmdp.pair_count,), f"a policy of {cmdp.pair_count} probabilities", chances.shape)
    total = np.add.reduceat(chances, cmdp.first_pair)
    if (np.abs(total - 1.0) > 1e-6).any() or (chances < 0).any():
        worst = int(np.argmax(np.abs(total - 1.0)))
        raise InvalidInput(
            f"expected action probabilities >= 0 with sum 1, got sum {total[worst]} in state "
            f"{shown(cmdp.states[worst])}"
        )
    weights = _pair_selector(cmdp, chances)
    right = np.column_stack([weights @ cmdp.rewards, weights @ cmdp.costs])
    values = _values(cmdp, weights @ cmdp.transition, right)
    rewards, costs = values[:, 0], np.maximum(values[:, 1:], 0.0)
    return Values(float(cmdp.start @ rewards), cmdp.start @ costs, rewards, costs)


def action_values(cmdp: FiniteCMDP, immediate: Floats, values: Floats, discounts: ArrayLike | None = None) -> Floats:
    """Q(s, a) = g(s, a) + gamma sum_s' P(s' | s, a) V(s'), for every pair: [P] from [P] and [S], or [P, K] alike.

    gamma is the discount of the reward, unless others are given.
    """
    factors = cmdp.discount if discounts is None else np.asarray(discounts)
    return np.asarray(immediate + factors * (cmdp.transition @ values))


def policy_cost_to_go(cmdp: FiniteCMDP, policy: ArrayLike) -> Floats:
    """Q_C^pi(s, a), [P, M]: what a critic learns from a policy's own transitions (SARSA)."""
    return action_values(cmdp, cmdp.costs, evaluate(cmdp, policy).cost_values, cmdp.cost_discounts)


def least_cost_to_go(cmdp: FiniteCMDP) -> Floats:
    """min over policies of Q_C^pi(s, a), [P, M], each constraint by itself: the least that must still be spent."""
    columns = []
    for m, discount in enumerate(cmdp.cost_discounts):
        values, _ = best_policy(cmdp, -cmdp.costs[:, m], discount=discount)
        columns.append(action_values(cmdp, cmdp.costs[:, m], -values, discount))
    return np.column_stack(columns)


def least_costs(cmdp: FiniteCMDP) -> Floats:
    """[M] the least that any policy costs, each constraint by itself."""
    least = cmdp.start @ np.minimum.reduceat(least_cost_to_go(cmdp), cmdp.first_pair, axis=0)
    return np.maximum(least, 0.0)


def penalized_values(cmdp: FiniteCMDP, multipliers: ArrayLike) -> tuple[Floats, Floats]:
    """The optimum of R - lambda C for a fixed lambda: V [S] and Q [P], both seen from the state's own time."""
    penalized = cmdp.rewards - (cmdp.costs * cmdp.cost_weights) @ _checked_multipliers(cmdp, multipliers)
    values, _ = best_policy(cmdp, penalized)
    return values, action_values(cmdp, penalized, values)


def best_policy(
    cmdp: FiniteCMDP, gains: Floats, initial: Integers | None = None, discount: float | None = None
) -> tuple[Floats, Integers]:
    """Maximise the discounted sum of `gains` [P]: values [S] and one pair a state [S].

    By policy iteration, or by backward induction where states have a time.
    """
    gamma = cmdp.discount if discount is None else discount
    if cmdp.levels is not None:
        return _backwards(cmdp, gains, gamma)
    pairs = cmdp.best(gains)[1] if initial is None else initial
    values = np.zeros(cmdp.state_count)
    while True:
        values = _solve_linear(cmdp.transition[pairs], gamma, gains[pairs][:, None], values[:, None])[:, 0]
        ahead = action_values(cmdp, gains, values, gamma)
        top, best = cmdp.best(ahead)
        # Only real improvements change the policy, so rounding cannot make it go round in circles.
        better = top > ahead[pairs] + _IMPROVEMENT * (1.0 + np.abs(values).max())
        if not better.any():
            return values, pairs
        pairs = np.where(better, best, pairs)


def _backwards(cmdp: FiniteCMDP, gains: Floats, discount: float) -> tuple[Floats, Integers]:
    """The same from the last step of the episode to the first."""
    values, ahead = np.zeros(cmdp.state_count), gains.astype(np.float64)
    for states, pairs in reversed(cmdp.levels or []):
        ahead[pairs] += discount * (cmdp.transition[pairs] @ values)
        values[states] = np.maximum.reduceat(ahead[pairs], cmdp.first_pair[states] - pairs.start)
    return cmdp.best(ahead)


def _visit_discount(cmdp: FiniteCMDP) -> float:
    """What visits are discounted by: the one discount, if there is one."""
    return cmdp.discount if cmdp.same_discounts else 1.0


def occupation_measure(cmdp: FiniteCMDP, pairs: Integers) -> Floats:
    """[S] the visits of a deterministic policy: (I - gamma P_pi^T) d = mu.

    They are discounted, unless reward and costs have different discounts.
    """
    return _visits(cmdp, cmdp.transition[pairs])


def visits(cmdp: FiniteCMDP, policy: Floats) -> Floats:
    """[S, 1 + M] the visits of any policy, [P], as reward and costs count them: each by its own discount."""
    once = _visits(cmdp, _pair_selector(cmdp, policy) @ cmdp.transition)
    if cmdp.same_discounts:
        return np.tile(once[:, None], (1, 1 + cmdp.cost_count))
    assert cmdp.times is not None
    return np.asarray(once[:, None] * np.array([cmdp.discount, *cmdp.cost_discounts]) ** cmdp.times[:, None])


def _visits(cmdp: FiniteCMDP, moves: Any) -> Floats:
    """[S] the same, with P_pi given."""
    discount = _visit_discount(cmdp)
    if cmdp.levels is None:
        return np.maximum(_solve_linear(moves.T.tocsr(), discount, cmdp.start[:, None])[:, 0], 0.0)
    counts = cmdp.start.copy()
    for states, _ in cmdp.levels:
        counts += discount * (moves[states].T @ counts[states])
    return counts


class _PolicyPricing:
    """The best deterministic policy for given weights; starts from the last one found."""

    def __init__(self, cmdp: FiniteCMDP) -> None:
        self.cmdp = cmdp
        self._last: Integers | None = None

    def __call__(self, reward_weight: float, weights: Floats) -> Column:
        cmdp = self.cmdp
        gains = reward_weight * cmdp.rewards - (cmdp.costs * cmdp.cost_weights) @ weights
        _, pairs = best_policy(cmdp, gains, self._last)
        self._last = pairs
        right = np.column_stack([cmdp.rewards[pairs], cmdp.costs[pairs]])
        values = cmdp.start @ _values(cmdp, cmdp.transition[pairs], right)
        return Column(float(values[0]), np.maximum(values[1:], 0.0), pairs)


def _pair_selector(cmdp: FiniteCMDP, weights: Floats) -> Any:
    """[S, P] sparse: row s holds the weights of the pairs of s."""
    from scipy.sparse import csr_array

    edges = np.append(cmdp.first_pair, cmdp.pair_count)
    return csr_array((weights, np.arange(cmdp.pair_count), edges), shape=(cmdp.state_count, cmdp.pair_count))


def _values(cmdp: FiniteCMDP, matrix: Any, right: Floats) -> Floats:
    """[S, 1 + M] what a policy earns and pays from every state, with P_pi and its immediate reward and costs given."""
    if cmdp.levels is None:
        return _solve_linear(matrix, cmdp.discount, right)
    values, discounts = right.copy(), np.array([cmdp.discount, *cmdp.cost_discounts])
    for states, _ in reversed(cmdp.levels):
        values[states] += discounts * (matrix[states] @ values)
    return values


def _solve_linear(matrix: Any, discount: float, right: Floats, guess: Floats | None = None) -> Floats:
    """x with (I - gamma P) x = b, for every column of b [S, K].

    Dense if small. Else BiCGSTAB, and should it stall, the sweeps x <- b + gamma P x, which always
    converge; either way until the residual is at the limit of float64.
    """
    size = right.shape[0]
    if size <= _DENSE_STATES:
        return np.asarray(np.linalg.solve(np.eye(size) - discount * matrix.toarray(), right))
    from scipy.sparse.linalg import LinearOperator, bicgstab

    operator = LinearOperator((size, size), matvec=lambda x: x - discount * (matrix @ x), dtype=np.float64)
    out = np.zeros_like(right) if guess is None else guess.astype(np.float64).copy()
    for k in range(right.shape[1]):
        b = right[:, k]
        limit = _PRECISION * max(np.abs(b).max(), 1e-300)
        x, _ = bicgstab(operator, b, x0=out[:, k], rtol=0.0, atol=limit * np.sqrt(size), maxiter=500)
        x = x if np.isfinite(x).all() else np.zeros(size)
        residual = b + discount * (matrix @ x) - x
        while np.abs(residual).max() > limit:
            x = x + residual
            residual = discount * (matrix @ residual)
        out[:, k] = x
    return out


def _checked_budget(cmdp: FiniteCMDP, budget: ArrayLike) -> Floats:
    limits = np.atleast_1d(np.asarray(budget, np.float64))
    expect(limits.shape == (cmdp.cost_count,), f"a budget of {cmdp.cost_count} numbers", budget)
    expect(bool((limits >= 0).all()), "budgets >= 0", budget)
    return limits


def _checked_multipliers(cmdp: FiniteCMDP, multipliers: ArrayLike) -> Floats:
    weights = np.atleast_1d(np.asarray(multipliers, np.float64))
    expect(weights.shape == (cmdp.cost_count,), f"{cmdp.cost_count} multipliers", multipliers)
    expect(bool(np.isfinite(weights).all() and (weights >= 0).all()), "finite multipliers >= 0", multipliers)
    return weights

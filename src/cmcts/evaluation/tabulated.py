"""A planner on a finite problem, judged without the noise of episodes: its decisions in every state, evaluated exactly.

A search is random, so a planner is a randomised policy: the shares of its decisions over many seeds are its action
probabilities, and a linear system gives their reward and costs. What is left of chance is how well the shares are
known: K(s) plans in a state of d(s) visits, whose actions differ in what they lead to by Var_a Q(s, a), leave

    sum_s d(s)^2 Var_a Q(s, a) / K(s)

of variance, for the gradient of a policy's value with respect to its probabilities in s is d(s) Q(s, .). So `judged`
plans where d(s) sd_a Q(s, a) is large, over all legal actions nearly alike: most states are visited rarely, or nothing
matters in them. Whether the plans so far agree must have no say. Were there no more of them where they do, what is done
now and then would most often not be seen, and never made good: a policy that does the dearer thing in every tenth case
was judged to spend 40 % less than it does, by four plans a state.

All that takes a planner whose decisions depend on the state alone; one that prunes by what is left of the budget, or
carries multipliers from step to step, is another policy after every history. Of a budget of 0 nothing is ever left:
there, who prunes by it is judged as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.devices import Device
from cmcts.errors import InvalidInput, expect
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import Values, action_values, evaluate, visits
from cmcts.executors import Executor, Here, Work
from cmcts.planning.planner import Planner
from cmcts.random import stage_seed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNSEEN = 20.0  # plans a state, shared by its actions, that are added to those made where more are shared out
FEWEST = 2  # plans in every state, before it shows where more are wanted
BATCH = 500  # plans at once, of those that are wanted


class Judged(NamedTuple):
    """A planner's decisions in every state, what they are worth, and how sure that is."""

    policy: Floats  # [P] shares of plans
    values: Values
    errors: Floats  # [1 + M] standard errors of reward and costs
    plans: int

    @property
    def means(self) -> Floats:
        """[1 + M] reward and costs."""
        return np.array([self.values.reward, *self.values.costs])


def tabulated(
    planner: Planner, cmdp: FiniteCMDP, *, seeds: int, seed: int = 0, iterations: int | None = None
) -> Floats:
    """[P] how often the planner takes each pair's action in the pair's state, over so many seeds."""
    expect(isinstance(seeds, int) and seeds >= 1, "seeds >= 1", seeds)
    tally = _Tally(planner, cmdp, seed, iterations)
    tally.add(np.full(cmdp.state_count, seeds))
    return tally.policy


def exact_values(
    planner: Planner, cmdp: FiniteCMDP, *, seeds: int, seed: int = 0, iterations: int | None = None
) -> Values:
    """Reward and costs of a planner on a finite problem, from its decisions in every state over so many seeds."""
    return evaluate(cmdp, tabulated(planner, cmdp, seeds=seeds, seed=seed, iterations=iterations))


def judged(
    planner: Planner,
    cmdp: FiniteCMDP,
    *,
    precision: float,
    units: Floats,
    plans: int,
    seed: int = 0,
    device: Device = "cpu",
    executor: Executor | None = None,
    on_plans: Callable[[int], None] | None = None,
    budget: Floats | None = None,
) -> Judged:
    """The planner's decisions, with plans where they matter, until reward and costs are known to a share `precision`.

    A share of their means or of `units` [1 + M], whichever is larger. At most so many `plans`, though two in every
    state. `on_plans` hears of those that are made. `budget` is what an episode may spend, if the planner minds it.
    """
    tally = _Tally(planner, cmdp, seed, None, device, executor, on_plans, budget)
    tally.add(np.full(cmdp.state_count, FEWEST))
    while True:
        so_far = tally.judged()
        left = plans - so_far.plans
        if left <= 0 or (so_far.errors <= precision * np.maximum(np.abs(so_far.means), units)).all():
            return so_far
        wanted = _shared_out(tally.counts.sum(axis=1), tally.importance(so_far, units), min(BATCH, left))
        if not wanted.any():
            return so_far
        tally.add(wanted)


class _Tally:
    """How often each action was planned in each state."""

    def __init__(
        self,
        planner: Planner,
        cmdp: FiniteCMDP,
        seed: int,
        iterations: int | None,
        device: Device = "cpu",
        executor: Executor | None = None,
        on_plans: Callable[[int], None] | None = None,
        budget: Floats | None = None,
    ) -> None:
        if planner.minds_budget if budget is None else not planner.decides_by_state(budget):
            raise InvalidInput(
                "expected a planner that decides by the state alone (PenalizedMCTS), got "
                f"{type(planner).__name__}{'' if budget is None else f' with budget {budget}'}"
            )
        prices = np.tile(planner.initial_multipliers(), (cmdp.state_count, 1))
        if (planner.price_growth != 1.0).any():
            if cmdp.times is None:
                raise InvalidInput("expected states with a time of their own where discounts differ, got others")
            prices = prices * planner.price_growth ** cmdp.times[:, None]
        self.cmdp, self.on_plans = cmdp, on_plans
        self.executor = executor or Here()
        self.counts = np.zeros((cmdp.state_count, cmdp.action_count), np.int64)
        left = np.zeros(planner.model.cost_count) if budget is None else budget
        plans = _Plans(planner, cmdp.states, prices, left, seed, iterations, device, self.executor.threads)
        self.work = Work(plans.actions, f"decisions of {planner.model.name} in states, plans")

    def add(self, wanted: Integers) -> None:
        """So many plans more in each state, [S]."""
        states = np.repeat(np.arange(len(wanted)), wanted)
        firsts = np.repeat(np.cumsum(wanted) - wanted, wanted)
        numbers = self.counts.sum(axis=1)[states] + np.arange(len(states)) - firsts
        size = max(1, min(BATCH, -(-len(states) // self.executor.slots)))
        units = [
            (tuple(states[begin : begin + size].tolist()), tuple(numbers[begin : begin + size].tolist()))
            for begin in range(0, len(states), size)
        ]
        for unit, actions in self.executor.run(self.work, units):
            np.add.at(self.counts, (np.array(unit[0]), actions), 1)
            if self.on_plans is not None:
                self.on_plans(len(actions))

    @property
    def policy(self) -> Floats:
        """[P] shares of the plans in each state."""
        return self.cmdp.pairs(self.counts / self.counts.sum(axis=1, keepdims=True))

    def judged(self) -> Judged:
        """What the decisions so far are worth."""
        values, plans = evaluate(self.cmdp, self.policy), self.counts.sum(axis=1)
        variance = (self._doubts(values) ** 2 / plans[:, None]).sum(axis=0)
        return Judged(self.policy, values, np.sqrt(variance), int(plans.sum()))

    def importance(self, so_far: Judged, units: Floats) -> Floats:
        """[S] what one plan leaves in doubt, as a share of what is doubted.

        It hardly depends on whether the plans so far agree: were there no more where they do, an action that is taken
        now and then would most often never be seen, and the policy be judged as one that takes it less.
        """
        shares = self._doubts(so_far.values, UNSEEN) / np.maximum(np.maximum(np.abs(so_far.means), units), 1e-12)
        return np.asarray(np.sqrt((shares**2).sum(axis=1)))

    def _doubts(self, values: Values, unseen: float | None = None) -> Floats:
        """[S, 1 + M] d(s) sd_a Q(s, a) of reward and costs, reckoning with actions that no plan has taken yet.

        Few plans may agree by chance. By Good and Turing, what was never seen is about as probable as what was seen
        once: so many plans a state, on average, are added to those that were made, shared by all its actions.
        """
        legal = self.cmdp.table(np.ones(self.cmdp.pair_count))
        if unseen is None:
            unseen = min(1.0, (1.0 + (self.counts == 1).sum()) / len(self.counts))
        counts = self.counts + unseen * legal / legal.sum(axis=1, keepdims=True)
        chances = self.cmdp.pairs(counts / counts.sum(axis=1, keepdims=True))
        return np.asarray(visits(self.cmdp, self.policy) * np.sqrt(_spread(self.cmdp, chances, values)))


@dataclass(frozen=True)
class _Plans:
    """Plans by their state and their number there, each from a stream of its own."""

    planner: Planner
    states: Floats
    prices: Floats
    budget: Floats
    seed: int
    iterations: int | None
    device: Device
    threads: int | None

    def actions(self, unit: tuple[tuple[int, ...], tuple[int, ...]]) -> Integers:
        """What each plan of a unit, states and numbers, decides on."""
        rows = np.array(unit[0])
        decisions = self.planner.plan_batch(
            self.states[rows],
            np.tile(self.budget, (len(rows), 1)),
            rngs=[stage_seed(self.seed, state, number) for state, number in zip(*unit, strict=True)],
            iterations=self.iterations,
            multipliers=self.prices[rows],
            threads=self.threads,
            device=self.device,
        )
        return np.array([decision.action for decision in decisions], np.int64)


def _spread(cmdp: FiniteCMDP, policy: Floats, values: Values) -> Floats:
    """[S, 1 + M] Var_a Q(s, a) of reward and costs over a policy's actions."""
    rewards = action_values(cmdp, cmdp.rewards, values.reward_values)
    costs = action_values(cmdp, cmdp.costs, values.cost_values, cmdp.cost_discounts)
    led_to = np.column_stack([rewards, costs])
    means = np.add.reduceat(policy[:, None] * led_to, cmdp.first_pair)
    return np.asarray(np.add.reduceat(policy[:, None] * (led_to - means[cmdp.pair_state]) ** 2, cmdp.first_pair))


def _shared_out(plans: Integers, importance: Floats, more: int) -> Integers:
    """[S] so many plans more, or a little fewer, such that all are in proportion to importance as far as they can be.

    sum_s w_s^2 / K_s is least, for a given sum of K_s, where K_s is in proportion to w_s.
    """
    low, high = 0.0, (plans.sum() + more) / max(importance.max(), 1e-300)
    for _ in range(100):
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(plans, level * importance).sum() <= plans.sum() + more else (low, level)
    return np.asarray(np.floor(np.maximum(plans, low * importance) - plans), np.int64)

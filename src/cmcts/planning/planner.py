"""What every planner does, whatever it prunes and chooses: memory, time limits, batches.

A planner is thread-safe, and the same seed gives the same decision whatever the threads, the batch or the order.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import config
from numpy.typing import ArrayLike, NDArray

from cmcts.compilation.content import uncompiled
from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.errors import InvalidInput, expect
from cmcts.model.interface import Model
from cmcts.planning.decision import Decision
from cmcts.planning.parallel import side_by_side
from cmcts.random import Stream, stream, uniform
from cmcts.search.kernels import Rules
from cmcts.search.pruning import LOWEST_MEAN, LOWEST_PESSIMISTIC, ROUNDING, PruningSettings
from cmcts.search.session import SearchSession
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import PRUNED, ROOT, in_use

Probabilities = NDArray[np.float64]  # [A]

_uniform = uncompiled(uniform)  # one draw a decision is not worth a compilation
_CHUNK_SECONDS = 0.001  # a timed search looks at the clock about this often


def _fixed(name: str, doc: str) -> Any:
    """A setting that cannot be changed: searches that are under way, or wait for the next plan, rely on it."""

    def refuse(planner: Planner, value: object) -> None:
        raise AttributeError(f"expected {name} to be given to a new planner, got an assignment: it is fixed")

    return property(lambda planner: getattr(planner, f"_{name}"), refuse, doc=doc)


class Planner:
    """What the planners share: validation, memory, time limits and batches."""

    model: Model = _fixed("model", "What is simulated.")
    search: SearchSettings = _fixed("search", "How the tree is grown.")
    critic: SafetyCritic = _fixed("critic", "What judges actions, where there is pruning.")
    pruning: PruningSettings | None = _fixed("pruning", "What counts as unsafe; None for planners that prune nothing.")

    def __init__(
        self,
        model: Model,
        search: SearchSettings | None = None,
        *,
        critic: SafetyCritic | None = None,
        pruning: PruningSettings | None = None,
    ) -> None:
        self._model = model
        self._search = search or SearchSettings()
        self._critic = critic or immediate_costs_only(model)
        self._pruning = pruning
        self._critic.validate_for(model)
        self._cost_discounts = np.array(self._search.discounts_for(model))
        self._idle: list[SearchSession] = []
        self._has_searched = False
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """For copies and other processes: settings travel; memory, and the lock on it, are made anew."""
        return self.__dict__ | {"_idle": [], "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @property
    def cost_discounts(self) -> NDArray[np.float64]:
        """[M] gamma of each cost."""
        return self._cost_discounts.copy()

    @property
    def price_growth(self) -> NDArray[np.float64]:
        """[M] gamma_m / gamma: by how much one policy's price of a cost grows from one step to the next.

        What is worth lambda now is worth lambda gamma_m^t / gamma^t in t steps, when a reward counts gamma^t and a cost
        gamma_m^t. It is 1 if the discounts are the same.
        """
        return self._cost_discounts / self.search.discount

    @property
    def charges_expected_costs(self) -> bool:
        """Whether a step takes from the budget what the critic expected it to cost, instead of what it did."""
        return self.pruning is not None and self.pruning.accounting == "expected"

    @property
    def least_budget(self) -> NDArray[np.float64]:
        """[M] the least that can be left: 0, or minus the tolerance where expected accounting has granted it."""
        if self.pruning is None or not self.charges_expected_costs:
            return np.zeros(self.model.cost_count)
        return -self.pruning.tolerance * np.asarray(self.critic.cost_scale)

    def least_charges(self, state: ArrayLike, rng: Stream) -> NDArray[np.float64]:
        """V(s), [M]: the least that any action in `state` takes from the budget, by expected accounting."""
        checked = self.model.validate_state(state)
        session = self._borrow()
        try:
            return session.least_charges(checked, rng)
        finally:
            self._give_back(session)

    def immediate_costs(self, state: ArrayLike, action: int, rng: Stream) -> NDArray[np.float64]:
        """E[c(s, a)], [M]: what the planning model expects an action to cost at once."""
        checked = self.model.validate_state(state)
        session = self._borrow()
        try:
            return session.immediate_costs(checked, action, rng)
        finally:
            self._give_back(session)

    def next_budget(self, decision: Decision, paid: NDArray[np.float64], rng: Stream) -> NDArray[np.float64]:
        """[M] what is left after the decision's action cost `paid`, in discounted units of the next step.

        By expected accounting that is still without what the next state needs: `least_charges` of it is to be added.
        """
        if self.charges_expected_costs:
            return decision.slack(self.cost_discounts)
        return decision.next_budget(paid, self.cost_discounts)

    def initial_multipliers(self) -> NDArray[np.float64]:
        """lambda at the start of an episode."""
        return np.zeros(self.model.cost_count)

    def begin_with(self, budget: NDArray[np.float64]) -> None:
        """Called with what an episode may spend, before it begins: the place to say that this does not fit."""

    def _validate_budget(self, budget: ArrayLike) -> NDArray[np.float64]:
        """[M] what is left; not below 0, but for a tolerance that was granted before."""
        least = self.least_budget
        if not least.any():
            return self.model.validate_costs(budget, "budget")
        left = self.model.validate_numbers(budget, "budget")
        if (left < least * (1.0 + ROUNDING)).any():
            raise InvalidInput(f"expected budget >= {least.tolist()}, got {budget!r}")
        return left

    def _rules(self) -> Rules:
        search, pruning = self.search, self.pruning or PruningSettings()
        guarded = search.guarded_rollouts and self.pruning is not None
        width = search.exploration
        return Rules(
            # A whole number would be another type to Numba, and another compilation.
            discount=float(search.discount),
            exploration=float(search.relative_exploration if width is None else width * search.reward_scale),
            relative_exploration=width is None,
            horizon=search.steps_ahead(self.model.cost_count),
            own_rollout=search.rollout == "directed" and self.model.has_rollout_action,
            thrifty_rollout=search.thrifty_rollouts or guarded,
            guarded_rollout=guarded,
            rollouts=search.rollouts,
            stratified=search.stratified,
            widening_factor=float(search.widening_factor),
            widening_power=float(search.widening_power),
            has_expected_costs=self.model.has_expected_costs,
            cost_samples=search.cost_samples,
            use_critic=self.pruning is not None,
            sigma_max=float(pruning.sigma_max),
            tolerance=float(pruning.tolerance),
            cost_floor=pruning.cost_floor,
            fallback=LOWEST_MEAN if pruning.fallback == "lowest_mean" else LOWEST_PESSIMISTIC,
            expected_accounting=pruning.accounting == "expected",
            tune_multipliers=False,
            reward_scale=float(search.reward_scale),
            multiplier_max=math.inf,
        )

    def plan(
        self,
        state: ArrayLike,
        budget: ArrayLike,
        *,
        iterations: int | None = None,
        seconds: float | None = None,
        rng: int | Stream = 0,
        multipliers: ArrayLike | None = None,
        keep_tree: bool = False,
    ) -> Decision:
        """Search from `state` with `budget` left, for a number of iterations, seconds, or both, whichever ends first.

        `rng` is a seed, or a stream that is advanced in place. With `keep_tree` the decision holds the whole tree.
        """
        checked = self.model.validate_state(state)
        session = self._borrow()
        try:
            return self.plan_in(
                session,
                checked,
                budget,
                iterations=iterations,
                seconds=seconds,
                rng=rng,
                multipliers=multipliers,
                keep_tree=keep_tree,
            )
        finally:
            self._give_back(session)

    def plan_in(
        self,
        session: SearchSession,
        state: NDArray[np.float64],
        budget: ArrayLike,
        *,
        iterations: int | None = None,
        seconds: float | None = None,
        rng: int | Stream = 0,
        multipliers: ArrayLike | None = None,
        keep_tree: bool = False,
        after: int | None = None,
    ) -> Decision:
        """Plan in a session of the caller's own; with `after`, keep the subtree that this action led to."""
        began = time.perf_counter()
        left = self._validate_budget(budget)
        weights = self.initial_multipliers() if multipliers is None else multipliers
        weights = self.model.validate_costs(weights, "multipliers")
        if iterations is None and seconds is None:
            iterations = self.search.iterations
        if iterations is not None:
            expect(isinstance(iterations, (int, np.integer)) and iterations >= 1, "iterations >= 1", iterations)
        if seconds is not None:
            expect(math.isfinite(seconds) and seconds > 0, "seconds > 0", seconds)
        capacity = self.search.max_nodes if iterations is None else int(iterations) + 1
        if seconds is not None:
            capacity = min(capacity, self.search.max_nodes)  # time may end it long before its iterations do
        draws = stream(rng)
        if after is None or not session.resume_at(after, state, left, weights, draws, capacity):
            session.begin(state, left, weights, draws, capacity)
        if seconds is None:
            session.run(int(iterations or 0))
        else:
            self._run_until(session, began + seconds, iterations)
        return self._decide(session, time.perf_counter() - began, keep_tree)

    def plan_batch(
        self,
        states: ArrayLike,
        budgets: ArrayLike,
        *,
        iterations: int | None = None,
        seconds: float | None = None,
        rngs: Sequence[int | Stream],
        multipliers: ArrayLike | None = None,
        threads: int | None = None,
    ) -> list[Decision]:
        """Plan for many states at once, over all cores; one seed or stream for each."""
        count = len(np.asarray(states))
        rows = _rows(budgets, count, "budgets")
        weights = [None] * count if multipliers is None else list(_rows(multipliers, count, "multipliers"))
        expect(len(rngs) == count, f"{count} seeds or streams, one a state", len(rngs))
        draws = [stream(rng) for rng in rngs]

        def plan_one(index: int) -> Decision:
            return self.plan(
                np.asarray(states)[index],
                rows[index],
                iterations=iterations,
                seconds=seconds,
                rng=draws[index],
                multipliers=weights[index],
            )

        return side_by_side(self, plan_one, count, threads, draws)

    @property
    def runs_compiled(self) -> bool:
        """Whether searches are compiled, as far as is known: the first one tells."""
        return self.model.compiles and self.critic.compiles and not config.DISABLE_JIT

    @property
    def has_searched(self) -> bool:
        """Whether this planner has decided before, and so knows whether its searches are compiled."""
        return self._has_searched

    def session(self) -> SearchSession:
        """A search of the caller's own, for `plan_in`."""
        return SearchSession(
            self.model,
            self.critic,
            self._rules(),
            self.critic.cost_scale,
            self.cost_discounts.tolist(),
            self.search.max_nodes,
        )

    def warm_up(self, threads: int = 1) -> None:
        """Get ready to decide on time: load or compile the search, and touch the memory of `threads` searches at once.

        Memory is that of searches limited by time, `max_nodes` nodes each; later decisions allocate no tree.
        """
        expect(threads >= 1, "threads >= 1", threads)
        sessions = [self._borrow() for _ in range(threads)]
        nothing, state = np.zeros(self.model.cost_count), self.model.start_state()
        for session in sessions:
            session.reserve(self.search.max_nodes)
            session.begin(state, nothing, self.initial_multipliers(), stream(0), self.search.max_nodes)
            session.run(1)
        with self._lock:
            self._idle += sessions

    def _borrow(self) -> SearchSession:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self.session()

    def _give_back(self, session: SearchSession) -> None:
        with self._lock:
            self._idle.append(session)

    def _run_until(self, session: SearchSession, deadline: float, iterations: int | None) -> None:
        chunk = 1  # a slow model may take long for one simulation; what it takes says how many fit
        while iterations is None or session.iterations < iterations:
            if iterations is not None:
                chunk = min(chunk, iterations - session.iterations)
            before = time.perf_counter()
            session.run(chunk)
            now = time.perf_counter()
            if now >= deadline:
                return
            rate = chunk / max(now - before, 1e-9)
            chunk = max(1, int(rate * min(_CHUNK_SECONDS, deadline - now)))

    def _policy(self, session: SearchSession, values: NDArray[np.float64], open_: NDArray[np.bool_]) -> Probabilities:
        """Root probabilities: all on the best penalised value among the open actions."""
        return _one(int(np.argmax(np.where(open_, values, -np.inf))), len(values))

    def _decide(self, session: SearchSession, seconds: float, keep_tree: bool) -> Decision:
        self._has_searched = True
        model, tree = self.model, session.tree
        raw_visits = tree.action_visits[ROOT].astype(np.int64)
        legal = np.zeros(model.action_count, np.bool_)
        legal[model.legal(tree.states[ROOT])] = True
        visits = np.where(legal & (raw_visits > 0), raw_visits, 0)
        shape = (model.action_count, model.cost_count)
        rewards = np.where(visits > 0, tree.reward_values[ROOT], 0.0)
        costs = np.where(visits[:, None] > 0, tree.cost_values[ROOT].reshape(shape), 0.0)
        kept = legal & (raw_visits != PRUNED)
        # With fewer simulations than actions, only tried actions have values to compare.
        tried = kept & (visits > 0)
        values = rewards - costs @ session.multipliers
        policy = self._policy(session, values, tried if tried.any() else kept)
        action = draw_action(policy, session.rng)
        judged = np.where(legal, tree.pruned_by[ROOT], 0) if self.pruning else np.zeros(model.action_count, np.int64)
        mean = tree.critic_mean[ROOT].astype(np.float64).reshape(shape) if self.pruning else None
        sigma = tree.critic_sigma[ROOT].astype(np.float64).reshape(shape) if self.pruning else None
        return Decision(
            model=model,
            state=tree.states[ROOT].copy(),
            budget=session.budget.copy(),
            action=action,
            probabilities=policy,
            legal=legal,
            pruned=judged > 0,
            pruned_by=(judged[:, None] >> np.arange(model.cost_count)) & 1 == 1,
            nothing_safe=bool(tree.nothing_safe[ROOT]),
            visits=visits,
            reward_values=rewards,
            cost_values=costs,
            critic_mean=mean,
            critic_sigma=sigma,
            charges=tree.charges[ROOT].reshape(shape).copy() if self.charges_expected_costs else None,
            multipliers=session.multipliers.copy(),
            iterations=session.iterations,
            seconds=seconds,
            tree_size=int(tree.count[0]),
            tree_depth=int(tree.peak_depth[0]),
            pruning=self.pruning,
            cost_scale=np.asarray(self.critic.cost_scale),
            cost_discounts=self._cost_discounts.copy(),
            tree=in_use(tree) if keep_tree else None,
        )


def draw_action(policy: Probabilities, rng: Stream) -> int:
    """An action drawn from the policy; one that is certain takes no draw."""
    action = int(np.argmax(policy))
    if policy[action] < 1.0:
        with np.errstate(over="ignore"):  # unsigned arithmetic is meant to wrap
            draw = _uniform(rng)
        action = int(np.searchsorted(np.cumsum(policy), draw * policy.sum(), side="right"))
    return action


def _rows(values: ArrayLike, count: int, name: str) -> NDArray[np.float64]:
    """[count, M] from one number or one row for each of `count` states."""
    array = np.asarray(values, np.float64)
    expect(array.ndim in (1, 2) and len(array) == count, f"{name} for {count} states, one row each", array.shape)
    return array.reshape(count, -1) if count else np.zeros((0, 1))


def _one(action: int, actions: int) -> Probabilities:
    policy = np.zeros(actions)
    policy[action] = 1.0
    return policy

"""What every planner does, whatever it prunes and chooses: memory, time limits, batches.

A planner is thread-safe, and the same seed gives the same decision whatever the threads, the batch or the order.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numba import config
from numpy.typing import ArrayLike, NDArray

from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.critic.values import GuardAndValues, LeafValues
from cmcts.devices import Device
from cmcts.errors import InvalidInput, expect
from cmcts.model.interface import Model
from cmcts.planning.deadlines import deadline, next_margin
from cmcts.planning.decision import Decision
from cmcts.planning.gpu import goes_to_gpu, plan_lanes
from cmcts.planning.parallel import side_by_side
from cmcts.planning.question import Question
from cmcts.planning.roots import Probabilities, Roots, decisions, session_root
from cmcts.planning.rules import rules_for
from cmcts.planning.together import expect_workers, plan_together
from cmcts.random import Stream, stream
from cmcts.search.kernels import Rules
from cmcts.search.lanes import Lanes
from cmcts.search.pruning import ROUNDING, PruningSettings
from cmcts.search.session import Critic, SearchSession
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import Tree, in_use


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
    values: LeafValues | None = _fixed("values", "What judges leaves before rollouts do; None where rollouts alone do.")
    keeps_prices = False  # the multipliers are the planner's from its making, so that its model may know them

    def __init__(
        self,
        model: Model,
        search: SearchSettings | None = None,
        *,
        critic: SafetyCritic | None = None,
        pruning: PruningSettings | None = None,
        values: LeafValues | None = None,
    ) -> None:
        self._model = model
        self._search = search or SearchSettings()
        if self._search.rollout == "priced" and not self.keeps_prices:
            raise InvalidInput(
                f'expected rollout "directed" or "uniform" for {type(self).__name__}, whose multipliers move, got '
                '"priced"'
            )
        self._critic = critic or immediate_costs_only(model)
        self._pruning = pruning
        self._critic.validate_for(model)
        self._values = values
        self._cost_discounts = np.array(self._search.discounts_for(model))
        self._price_growth = self._cost_discounts / self._search.discount
        if values is not None:
            values.validate_for(model)
            same = bool((self._price_growth == 1.0).all())
            expect(same, "the same discount of rewards and costs with leaf values", self._cost_discounts.tolist())
        self._margin = 0.0  # seconds that a timed search ends early, because earlier ones came late
        self._idle: list[SearchSession] = []
        self._lanes: Lanes | None = None
        self._has_searched = False
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """For copies and other processes: settings travel; memory, and the lock on it, are made anew."""
        return self.__dict__ | {"_idle": [], "_lanes": None, "_lock": None}

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
        return self._price_growth.copy()

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

    @property
    def settles_on_arrival(self) -> bool:
        """Whether what is left after a step depends on where it led."""
        return self.charges_expected_costs

    def arrival_share(self, decision: Decision, state: ArrayLike, rng: Stream) -> NDArray[np.float64]:
        """[M] what is added to `next_budget` once it is known which state the decision's action led to."""
        return self.least_charges(state, rng)

    def next_budget(self, decision: Decision, paid: NDArray[np.float64], rng: Stream) -> NDArray[np.float64]:
        """[M] what is left after the decision's action cost `paid`, in discounted units of the next step.

        Where `settles_on_arrival`, `arrival_share` of the next state is still to be added.
        """
        if self.charges_expected_costs:
            return decision.slack(self._cost_discounts)
        return decision.next_budget(paid, self._cost_discounts)

    @property
    def minds_budget(self) -> bool:
        """Whether decisions depend on what is left of the budget, and not on state and multipliers alone."""
        return True

    def decides_by_state(self, budget: ArrayLike) -> bool:
        """Whether an episode that may spend so much is decided by state and time alone, whatever happens in it."""
        return not self.minds_budget

    def initial_multipliers(self) -> NDArray[np.float64]:
        """lambda at the start of an episode."""
        return np.zeros(self.model.cost_count)

    def begin_with(self, budget: NDArray[np.float64]) -> None:
        """Called with what an episode may spend, before it begins: the place to say that this does not fit."""

    def validate_budget(self, budget: ArrayLike) -> NDArray[np.float64]:
        """[M] what is left; not below 0, but for a tolerance that was granted before."""
        least = self.least_budget
        if not least.any():
            return self.model.validate_costs(budget, "budget")
        left = self.model.validate_numbers(budget, "budget")
        if (left < least * (1.0 + ROUNDING)).any():
            raise InvalidInput(f"expected budget >= {least.tolist()}, got {budget!r}")
        return left

    def validate_batch(
        self, states: ArrayLike, budgets: NDArray[np.float64], multipliers: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Fresh rows of states [N, S], budgets [N, M] and multipliers [N, M]; what is wrong with one is said of it."""
        checked = np.array([self.model.validate_state(state) for state in np.asarray(states)])
        least, right = self.least_budget * (1.0 + ROUNDING), (len(checked), self.model.cost_count)
        if budgets.shape != right or not (np.isfinite(budgets) & (budgets >= least)).all():
            for row in budgets:
                self.validate_budget(row)
        if multipliers.shape != right or not (np.isfinite(multipliers) & (multipliers >= 0.0)).all():
            for row in multipliers:
                self.model.validate_costs(row, "multipliers")
        return checked, budgets.copy(), multipliers.copy()

    def _rules(self) -> Rules:
        """The numbers that the kernels read."""
        return rules_for(self.model, self.search, self.pruning, self.values)

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
        workers: int = 1,
    ) -> Decision:
        """Search from `state` with `budget` left, for a number of iterations, seconds, or both, whichever ends first.

        `rng` is a seed, or a stream that is advanced in place. With `keep_tree` the decision holds the whole tree. With
        `workers`, so many searches of these limits each run side by side, in processes of their own where the model is
        not compiled, and their roots are added up.
        """
        if workers != 1:
            expect_workers(self, workers, keep_tree=keep_tree)
            if self.searches:
                return plan_together(
                    self,
                    state,
                    budget,
                    workers=workers,
                    iterations=iterations,
                    seconds=seconds,
                    rng=rng,
                    multipliers=multipliers,
                )
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
        question = self.question(state, budget, iterations, seconds, multipliers)
        question.begin(session, stream(rng), after)
        question.run(session, self.end_of(began, seconds))
        decision = self._decide_in(session, time.perf_counter() - began, keep_tree)
        self.note_lateness(began, seconds)
        return decision

    def question(
        self,
        state: NDArray[np.float64],
        budget: ArrayLike,
        iterations: int | None,
        seconds: float | None,
        multipliers: ArrayLike | None,
    ) -> Question:
        """What a search is asked, with everything but the state checked here, and what is not given filled in."""
        left = self.validate_budget(budget)
        weights = self.initial_multipliers() if multipliers is None else multipliers
        weights = self.model.validate_costs(weights, "multipliers")
        if iterations is None and seconds is None:
            iterations = self.search.iterations
        if iterations is not None:
            expect(isinstance(iterations, (int, np.integer)) and iterations >= 1, "iterations >= 1", iterations)
            iterations = int(iterations)
        if seconds is not None:
            expect(math.isfinite(seconds) and seconds > 0, "seconds > 0", seconds)
        capacity = self.search.max_nodes if iterations is None else iterations + 1
        if seconds is not None:
            capacity = min(capacity, self.search.max_nodes)  # time may end it long before its iterations do
        return Question(state, left, weights, iterations, capacity)

    def end_of(self, began: float, seconds: float | None) -> float | None:
        """When the searches of a decision that may take so long are to end, on the clock of `time.perf_counter`."""
        return None if seconds is None else deadline(began, seconds, self._margin)

    def note_lateness(self, began: float, seconds: float | None) -> None:
        """Learn from a decision that is made now how early the next one should end."""
        if seconds is not None:
            self._margin = next_margin(self._margin, time.perf_counter() - began - seconds, seconds)

    def _decide_in(self, session: SearchSession, seconds: float, keep_tree: bool) -> Decision:
        return self.decide(session_root(session, seconds), [in_use(session.tree)] if keep_tree else None)[0]

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
        keep_tree: bool = False,
        device: Device = "cpu",
    ) -> list[Decision]:
        """Plan for many states at once, over all cores or on a GPU; one seed or stream for each.

        `device` is "cpu", "cuda" or "auto", the GPU if there is one and the batch is worth it; decisions are the same.
        """
        count = len(np.asarray(states))
        rows = _rows(budgets, count, "budgets")
        if multipliers is None:
            multipliers = np.tile(self.initial_multipliers(), (count, 1))
        weights = _rows(multipliers, count, "multipliers")
        expect(len(rngs) == count, f"{count} seeds or streams, one a state", len(rngs))
        draws = [stream(rng) for rng in rngs]
        if goes_to_gpu(self, device, count, seconds):
            planned = plan_lanes(self, np.asarray(states), rows, weights, draws, iterations, keep_tree)
            if planned is not None:
                return planned

        def plan_one(index: int) -> Decision:
            return self.plan(
                np.asarray(states)[index],
                rows[index],
                iterations=iterations,
                seconds=seconds,
                rng=draws[index],
                multipliers=weights[index],
                keep_tree=keep_tree,
            )

        return side_by_side(self, plan_one, count, threads, draws)

    @property
    def runs_compiled(self) -> bool:
        """Whether searches are compiled, as far as is known: the first one tells."""
        return self.model.compiles and self.critic.compiles and not config.DISABLE_JIT

    @property
    def searches(self) -> bool:
        """Whether decisions are searched for at all; what is looked up has no use for a GPU."""
        return True

    @property
    def roots_add_up(self) -> bool:
        """Whether what several of its searches found at the root can be added up to one decision."""
        return True

    @property
    def runs_on_gpu(self) -> bool:
        """Whether its searches can run on a GPU, as far as the planner has a say in it."""
        return True

    @property
    def lanes(self) -> Lanes:
        """Its searches on a GPU, one thread each."""
        with self._lock:
            if self._lanes is None:
                self._lanes = Lanes(self.session())
            return self._lanes

    @property
    def has_searched(self) -> bool:
        """Whether this planner has decided before, and so knows whether its searches are compiled."""
        return self._has_searched

    def session(self) -> SearchSession:
        """A search of the caller's own, for `plan_in`."""
        values = self.values
        return SearchSession(
            self.model,
            self._judge(),
            self._rules(),
            self.critic.cost_scale,
            self.cost_discounts.tolist(),
            self.search.max_nodes,
            () if values is None else values.price_units,
        )

    def _judge(self) -> Critic:
        """What its searches ask about states: the critic, leaf values, or both."""
        if self.values is None:
            return self.critic
        return self.values.network if self.pruning is None else GuardAndValues(self.critic, self.values)

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

    @contextmanager
    def lent_sessions(self, count: int) -> Iterator[list[SearchSession]]:
        """So many of the planner's own searches, which come back to it at the end."""
        sessions = [self._borrow() for _ in range(count)]
        try:
            yield sessions
        finally:
            for session in sessions:
                self._give_back(session)

    def _borrow(self) -> SearchSession:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self.session()

    def _give_back(self, session: SearchSession) -> None:
        with self._lock:
            self._idle.append(session)

    def _policies(self, roots: Roots, values: NDArray[np.float64], open_: NDArray[np.bool_]) -> Probabilities:
        """[N, A] root probabilities: all on the best penalised value [N, A] among the open actions [N, A]."""
        policies = np.zeros(values.shape)
        policies[np.arange(len(values)), np.argmax(np.where(open_, values, -np.inf), axis=1)] = 1.0
        return policies

    def decide(self, roots: Roots, trees: Sequence[Tree] | None = None) -> list[Decision]:
        """Read the decisions off the roots of searches, with their whole trees where they are to be kept."""
        self._has_searched = True
        return decisions(self, roots, self._policies, trees)


def _rows(values: ArrayLike, count: int, name: str) -> NDArray[np.float64]:
    """[count, M] from one number or one row for each of `count` states."""
    array = np.asarray(values, np.float64)
    expect(array.ndim in (1, 2) and len(array) == count, f"{name} for {count} states, one row each", array.shape)
    return array.reshape(count, -1) if count else np.zeros((0, 1))

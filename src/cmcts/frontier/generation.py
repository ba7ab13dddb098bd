"""Column generation with tree search as the pricing oracle, and simulation in the training world as the evaluation.

    reckless      no price at all
    guards        by the critic, and by immediate costs alone, at the task's budget and at 0; after the prices where the
                  planning model is right
    bracket       prices that rise until some column keeps the smallest budget of a ladder
    values        reward and costs to go. Where states can be listed, fitted to what is best at the optimum's own
                  prices. Elsewhere, if the model has no rollout policy of its own, to what the columns so far earn and
                  pay, and again to that of searches that read them at their leaves. Whichever of rollouts and values
                  leaves more at these prices judges the leaves from here on; and values are asked after one step, if
                  that leaves more than to search on
    rollouts      that know the price, where the model has them and values do not judge leaves: the same comparison
    bisect        the program's dual prices for every budget of the ladder; a column at each that has not been tried
    search more   at the prices of budgets near the task's own, with more simulations a decision, while that pays; then
                  between these prices; then exploring less, or more. Where leaf values are read, exploring comes first
    guards anew   the critic at the task's budget, with and without the price that suits; at every budget of the ladder
                  where the planning model is not known to be right
    until no new column improves the curve, or there are enough; where the optimum is known, until it is reached
    confirm       those that some budget wants, on worlds that took no part in the choice; most often those whose
                  costs leave the mixture's in doubt

What a column is worth is measuring.py's, whether it matters candidates.py's, and confirming is confirming.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import Column, ColumnSettings
from cmcts.critic.ensemble import SafetyCritic
from cmcts.critic.policies import Policies
from cmcts.critic.values import LeafValues
from cmcts.devices import Device
from cmcts.executors import Executor
from cmcts.frontier.candidates import MIXED_IN, WORTH, Candidate, Candidates, difference
from cmcts.frontier.confirming import confirmed
from cmcts.frontier.ladder import between, close, distinct, ladder, lifted
from cmcts.frontier.measuring import Measurements, Recorder
from cmcts.frontier.settings import FrontierSettings
from cmcts.frontier.value_learning import FitValues, fitted, iterate
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task

Floats = NDArray[np.float64]

SAME_PRICE, HARDLY_APART = 1.1, 1.05  # prices closer than this, as a ratio, are not told apart; nor are halfway ones
NO_PRICE = 1e-6  # of a unit of reward a cost scale: rounding
PRICE_RISES = 6  # by PRICE_FACTOR each, to find the frugal end
PRICE_FACTOR = 4.0
# A model that misjudges costs wants another price than the world's: some multiples of that, and what lies next to those
# that were found useful.
PRICES_OFF_MODEL, NEXT_PRICE = (1.0, 0.75, 0.5, 0.25, 1.5), 1.15
WIDTHS, WIDTH_STEPS = (0.5, 2.0), 2  # factors of the exploration, and how often each may be applied
PRICED_FACTOR, PRICED_WIDTH = 3, 1 / 3  # of simulations, and of the exploration, where rollouts know the price
NEAR = (0.5, 1.0, 2.0)  # of the task's budget: where the curve is to be best
LEFT = 0.01  # of what the whole curve rises: where the optimum is known to be no further, nothing more is tried


@dataclass(frozen=True)
class Guard:
    """A trained critic, and the pruning and search that it was found best with."""

    critic: SafetyCritic
    pruning: PruningSettings
    search: SearchSettings


@dataclass(frozen=True)
class Brought:
    """Columns that somebody has already, to be measured like any other, and the tables of those that are policies."""

    columns: tuple[ColumnSettings, ...] = ()
    policies: Policies = field(default_factory=dict)


class Generated(NamedTuple):
    """Columns, the leaf values that some of them read, None if none does, and the tables of exact policies."""

    columns: tuple[Column, ...]
    values: LeafValues | None
    policies: Policies


def generate(
    task: Task,
    settings: FrontierSettings,
    seed: int,
    guard: Guard | None,
    cost_scale: Floats,
    recorder: Recorder,
    fit_values: FitValues | None = None,
    device: Device = "cpu",
    executor: Executor | None = None,
    brought: Brought | None = None,
) -> Generated:
    """The columns of a frontier for `task`, found and confirmed in its training world.

    `brought` is what takes part as it is. `fit_values` is what learns leaf values; without it there are none. `device`
    says where it is planned, and the `executor` plays the episodes if there is one.
    """
    critic, brought = None if guard is None else guard.critic, brought or Brought()
    measurements = Measurements(task, settings, seed, critic, cost_scale, recorder, device, executor)
    measurements.policies = brought.policies
    course = _Course(measurements, guard, fit_values)
    course.run(brought.columns)
    columns = confirmed(course.candidates, course.candidates.thinned(course.candidates.used()), measurements)
    values = measurements.values if any(column.settings.values for column in columns) else None
    played = {column.settings.policy for column in columns}
    return Generated(columns, values, {digest: table for digest, table in brought.policies.items() if digest in played})


class _Course:
    """Which columns are tried, and in which order."""

    def __init__(self, measurements: Measurements, guard: Guard | None, fit_values: FitValues | None) -> None:
        self.measurements, self.guard = measurements, guard
        self.task, self.settings = task, settings = measurements.task, measurements.settings
        self.budget = np.asarray(task.budget)
        self.search = replace(task.search, iterations=settings.search_factors[0] * task.search.iterations)
        self.candidates = Candidates()
        own_rollouts = task.search.rollout != "uniform" and task.model.has_rollout_action
        alike = set(task.search.discounts_for(task.model)) == {task.search.discount}
        # A rollout policy that somebody wrote is seldom beaten by what is learned from the returns of episodes.
        learnable = measurements.exact or not own_rollouts
        self.fit_values = fit_values if settings.values and alike and learnable else None
        measurements.teaching = self.fit_values is not None
        self.reads_values = False
        self.rungs: list[Floats] = []  # the ladder before it is lifted
        self.bracketed = False

    def run(self, brought: Sequence[ColumnSettings] = ()) -> None:
        nothing = np.zeros(len(self.budget))
        reckless = self.add(self.priced(nothing))
        assert reckless is not None, "a frontier has room for one column"
        self.rungs = self.candidates.ladder = ladder(self.budget, reckless.costs)
        for column in brought:
            self.add(column)
        # Where the planning model is right, a price does nearly all that a guard can, and is measured sooner: a guard
        # minds what is left of the budget, so that no two of its decisions are alike.
        steps = (self.add_guards, self.add_prices)
        for step in reversed(steps) if self.task.model_is_exact else steps:
            step()
        if self.task.model_is_exact:  # else more search finds more of what is not there
            searches = self.search.horizon != 1
            tries_widths = searches and self.search.rollout != "priced"
            if tries_widths and self.reads_values:
                self.explore_otherwise()  # the width was chosen for rollouts: another may do what longer searches would
            if searches:
                self.search_more()
            self.look_between()
            if tries_widths and not self.reads_values:
                self.explore_otherwise()
        if self.guard is not None:
            # Where the planning model is wrong, only the critic knows, and what suits one budget need not suit another.
            for budget in self.short_of_optimum([self.budget] if self.task.model_is_exact else self.candidates.ladder):
                self.add(self.guarded("critic", budget, nothing))
                if (mixed := self.candidates.mixture(budget)) is not None and mixed.prices.any():
                    self.add(self.guarded("critic", budget, mixed.prices))

    def short_of_optimum(self, budgets: list[Floats]) -> list[Floats]:
        """The budgets that more columns may still help: where the optimum is unknown, or clearly above the mixture."""
        short = []
        for budget in budgets:
            optimum = self.measurements.optimum(budget)
            if optimum is None or optimum > self.candidates.value(budget) + LEFT * self.candidates.rise:
                short.append(budget)
        return short

    def add_guards(self) -> None:
        """The critic, and immediate costs alone, at the task's budget and at 0."""
        nothing = np.zeros(len(self.budget))
        for budget in distinct([nothing, *self.short_of_optimum([self.budget])]):
            if self.guard is not None:
                self.add(self.guarded("critic", budget, nothing))
            self.add(self.guarded("immediate", budget, nothing))

    def add_prices(self) -> None:
        """Prices that keep every budget of the ladder, and the program's own between them."""
        self.bracket(self.candidates.tried[0])
        self.bracketed = True
        self.lift()
        for price in self.untried_prices(self.candidates.ladder):
            self.add(self.priced(price))
        if self.fit_values is not None and self.measurements.learnable:
            self.learn_values(self.fit_values)
        if self.task.model.at_prices is not None and not self.reads_values:
            self.roll_out_priced()
        if self.reads_values:  # a guard that knows the way keeps what no price does: the program need not ask for more
            self.add_guards()
        self.bisect(self.short_of_optimum(self.candidates.ladder))

    @property
    def room(self) -> bool:
        return len(self.candidates.tried) < self.settings.columns

    def priced(self, prices: Floats) -> ColumnSettings:
        return ColumnSettings(tuple(prices.tolist()), self.search, values=self.reads_values)

    def guarded(self, kind: Literal["critic", "immediate"], budget: Floats, prices: Floats) -> ColumnSettings:
        trained = self.guard if kind == "critic" else None
        pruning = replace(self.task.pruning, cost_floor=True) if trained is None else trained.pruning
        search = self.task.search if trained is None else trained.search
        return ColumnSettings(tuple(prices.tolist()), search, kind, tuple(budget.tolist()), pruning, self.reads_values)

    def add(self, column: ColumnSettings) -> Candidate | None:
        """Try a column, for as long as it may matter; the same one is not tried twice; None without room."""
        candidates, measurements = self.candidates, self.measurements
        if (found := candidates.find(column)) is not None or not self.room:
            return found
        k = len(candidates.tried)
        candidate = Candidate(column, measurements.screen(k, column))
        candidates.tried.append(candidate)
        while k == 0 or (candidates.can_matter(candidate) and not candidates.is_twin(candidate)):
            if measurements.enough(k, candidate.sample):
                candidate.alive = True
                self.lift()
                break
            sure = k == 0 or candidate.sample.known is not None
            candidate.sample = measurements.more(k, column, candidate.sample, all_of_them=sure)
        return candidate

    def bracket(self, reckless: Candidate) -> None:
        """Raise the price until some column keeps the smallest budgets, or the costs no longer fall."""
        scale = self.measurements.cost_scale
        spread = abs(reckless.sample.reward) + float(reckless.sample.rewards.std())
        price = spread / np.maximum(reckless.costs, 1e-3 * scale)
        least = np.inf
        for _ in range(PRICE_RISES):
            if all(self.candidates.mixture(budget) is not None for budget in self.candidates.ladder):
                return
            if (candidate := self.add(self.priced(price))) is None:
                return
            costs = float((candidate.costs / scale).max())
            if costs > 0.98 * least:
                return
            least, price = costs, price * PRICE_FACTOR

    def bisect(self, budgets: list[Floats]) -> None:
        """Add columns at the program's own prices for these budgets, until it names none anew."""
        while self.room and (prices := self.untried_prices(budgets)):
            for price in prices:
                self.add(self.priced(price))

    def roll_out_priced(self) -> None:
        """Roll out at the price from here on, if that leaves more than the rollout policy that knows none.

        Rollouts that spend where that pays see what a leaf is worth, and return now this and now that, by what their
        spending brings: they take more simulations to tell actions apart, and less exploration.
        """
        rolled_out, before = self.without_guard(), self.search
        longer = replace(before, rollout="priced", iterations=PRICED_FACTOR * before.iterations)
        self.search = _exploring(longer, PRICED_WIDTH)
        if not self.leaves_more(rolled_out):
            self.search = before

    def without_guard(self) -> list[Candidate]:
        """The columns so far that search as new ones do now, and that no guard prunes."""
        tried = [trial for trial in self.candidates.tried if trial.settings.searches_at_price]
        manner = (self.search, self.reads_values)
        return [trial for trial in tried if (trial.settings.search, trial.settings.values) == manner]

    def leaves_more(self, earlier: list[Candidate]) -> bool:
        """Whether columns as they are made now earn more than earlier ones at the same prices, after paying these."""
        gained = 0.0
        for trial in earlier:
            price = np.array(trial.settings.prices)
            if (now := self.add(self.priced(price))) is not None:
                gained += difference([(1.0, now.sample), (-1.0, trial.sample)], price)[0]
        return gained > 0

    def search_more(self) -> None:
        """Use more simulations a decision for budgets near the task's own, while some of these then do better."""
        least = self.search.iterations
        for factor in self.settings.search_factors[1:]:
            if not self.pays(replace(self.search, iterations=factor * least // self.settings.search_factors[0])):
                return

    def look_between(self) -> None:
        """Add columns at the program's prices for budgets near the task's, and halfway to those of columns it mixes.

        A search is no exact oracle. At the program's own price all that is mixed is worth the same, and noise decides
        on which side of a gap it comes out; a price nearer to either side may find what lies between.
        """
        near = self.near_own()
        for budget in near:
            mixed = self.candidates.mixture(budget)
            if self.measurements.exact or mixed is None or not mixed.prices.any():
                continue
            for column in self.priced_for([budget]):
                for price in between([np.array(column.prices), mixed.prices]):
                    if not any(close(price, other, HARDLY_APART) for other in self.prices_tried()):
                        self.add(self.priced(price))

    def near_own(self) -> list[Floats]:
        """Budgets near the task's own, where the curve is to be best, as far as more columns may help."""
        rungs = self.candidates.ladder
        near = [share * self.budget for share in NEAR] if self.budget.any() else rungs[: len(rungs) // 2]
        return self.short_of_optimum(lifted(near, self.budget, self.least))

    def lift(self) -> None:
        """Raise the ladder above what cannot be avoided, as far as that is known: later columns may avoid more."""
        if self.bracketed:
            self.candidates.ladder = lifted(self.rungs, self.budget, self.least)

    @property
    def least(self) -> Floats:
        """[M] what cannot be avoided, each constraint by itself: if nobody knows, the least that a column has cost."""
        unavoidable = self.measurements.unavoidable
        if unavoidable is not None:
            return unavoidable
        return np.asarray(np.min([candidate.costs for candidate in self.candidates.alive], axis=0))

    def explore_otherwise(self) -> None:
        """Explore half as much at the same prices, or twice as much, and go on that way while it pays.

        One width suits most problems well and few best.
        """
        for factor in WIDTHS:
            steps = 0
            while steps < WIDTH_STEPS and self.pays(_exploring(self.search, factor)):
                steps += 1
            if steps > 0:
                return

    def pays(self, search: SearchSettings) -> bool:
        """Whether some budget near the task's own does better with columns that search like this; they go on if so."""
        value, last = self.candidates.value, self.search
        near = self.near_own()
        before = [value(budget) for budget in near]
        self.search = search
        for price in [np.array(column.prices) for column in self.priced_for(near)]:
            self.add(self.priced(price))
        for price in self.untried_prices(near):  # what the program asks for may be played by a guard so far
            self.add(self.priced(price))
        worth = WORTH * self.candidates.rise
        if not any(value(budget) > was + worth for budget, was in zip(near, before, strict=True)):
            self.search = last
            return False
        self.bisect(near)
        return True

    def priced_for(self, budgets: list[Floats]) -> list[ColumnSettings]:
        """The columns without a guard that the program uses for these budgets."""
        found: list[ColumnSettings] = []
        for budget in budgets:
            if (mixed := self.candidates.mixture(budget)) is not None:
                used = [self.candidates.alive[i].settings for i in np.flatnonzero(mixed.weights > MIXED_IN)]
                found += [column for column in used if column.searches_at_price and column not in found]
        return found

    def untried_prices(self, budgets: list[Floats]) -> list[Floats]:
        """The program's prices for these budgets, the task's own first, that no column was tried at."""
        off_model = not self.task.model_is_exact
        known = self.prices_tried()
        wanted: list[Floats] = []
        for budget in sorted(budgets, key=lambda b: bool((b != self.budget).any())):
            if (mixed := self.candidates.mixture(budget)) is not None:
                wanted += [factor * mixed.prices for factor in (PRICES_OFF_MODEL if off_model else (1.0,))]
        if off_model:
            useful = [np.array(column.prices) for column in self.priced_for(budgets)]
            wanted += [factor * price for price in useful for factor in (NEXT_PRICE, 1 / NEXT_PRICE)]
        found: list[Floats] = []
        for price in wanted:
            some = bool((price > NO_PRICE * np.array(self.measurements.price_units)).any())
            if some and not any(close(price, other, SAME_PRICE) for other in known + found):
                found.append(price)
        return found

    def prices_tried(self) -> list[Floats]:
        """The prices of columns that search as new ones do now."""
        columns = [candidate.settings for candidate in self.candidates.tried]
        return [np.array(c.prices) for c in columns if c.search == self.search and c.values == self.reads_values]

    def learn_values(self, fit: FitValues) -> None:
        """Leaf values, from here on read by every column without a guard if that leaves more than rolling out does.

        Where states are listed there is nothing to play: what each is worth at a price is known.
        """
        measurements = self.measurements
        rolled_out = self.without_guard()
        prices = [np.array(trial.settings.prices) for trial in rolled_out]
        known = self.optimal_prices() if measurements.exact else prices
        self.reads_values = True
        if measurements.exact:
            measurements.values = fitted(measurements, fit, between(between(known)), 0)
        else:
            iterate(measurements, fit, prices, [self.priced(price) for price in prices])
        measurements.teaching = False  # nobody learns from what is played from here on
        self.reads_values = self.leaves_more(rolled_out)
        if self.reads_values:
            self.look_one_step_ahead()
        if self.reads_values and measurements.exact:
            # Values are known at these prices, and blends of two policies' between them: those may lead nowhere.
            self.add_around(known)

    def look_one_step_ahead(self) -> None:
        """Ask the values after a single step from here on, if that leaves more than to search on from there.

        What a search backs up is the mean of all that it tries, which is less than the best of it, here more and there
        less. Where values know nearly exactly what states are worth, looking further only blurs them.
        """
        searched, before = self.without_guard(), self.search
        self.search = replace(before, horizon=1)
        if not self.leaves_more(searched):
            self.search = before

    def optimal_prices(self) -> list[Floats]:
        """None, and what the optimum would earn by one more unit of each budget of the ladder."""
        found = [self.measurements.price(budget) for budget in self.candidates.ladder]
        return [np.zeros(len(self.budget)), *(price for price in found if price is not None)]

    def add_around(self, prices: list[Floats]) -> None:
        """Columns at those of these prices that lie next to the program's own, while the optimum is not reached."""
        left = [price for price in prices if self.candidates.find(self.priced(price)) is None]
        while self.room and left:
            mixtures = [self.candidates.mixture(budget) for budget in self.short_of_optimum(self.candidates.ladder)]
            # A budget that nothing keeps so far asks for the highest price of all.
            asked = [np.full(len(self.budget), np.inf) if mixed is None else mixed.prices for mixed in mixtures]
            wanted = {k for price in asked for k in _next_to(price, left)}
            if not wanted:
                return
            for k in sorted(wanted):
                self.add(self.priced(left[k]))
            left = [price for k, price in enumerate(left) if k not in wanted]


def _next_to(price: Floats, others: list[Floats]) -> list[int]:
    """Which of some prices are the nearest below and above another, by their sums."""
    sums = np.array([other.sum() for other in others])
    below, above = np.flatnonzero(sums <= price.sum()), np.flatnonzero(sums > price.sum())
    nearest = [below[sums[below].argmax()]] if len(below) else []
    return [int(k) for k in nearest + ([above[sums[above].argmin()]] if len(above) else [])]


def _exploring(search: SearchSettings, factor: float) -> SearchSettings:
    """The same search, exploring so many times as much."""
    if search.exploration is not None:
        return replace(search, exploration=factor * search.exploration)
    return replace(search, relative_exploration=factor * search.relative_exploration)

"""Column generation with tree search as the pricing oracle, and simulation in the training world as the evaluation.

    reckless      no price at all
    guards        by the critic, and by immediate costs alone, at the task's budget and at 0; after the prices where the
                  planning model is right
    bracket       prices that rise until some column keeps the smallest budget of a ladder
    values        where the model has no rollout policy of its own: reward and costs to go, fitted to the episodes of
                  the columns so far and again to those of searches that read them at their leaves; whichever of
                  rollouts and values leaves more at these prices judges the leaves from here on
    bisect        the program's dual prices for every budget of the ladder; a column at each that has not been tried
    search more   at the prices of budgets near the task's own, with more simulations a decision, while that pays
    guards anew   the critic at the task's budget, with and without the price that suits; at every budget of the ladder
                  where the planning model is not known to be right
    until no new column improves the curve, or there are enough
    confirm       those that some budget wants, on worlds that took no part in the choice; most often those whose
                  costs leave the mixture's in doubt

A column improves the curve at a budget if it is worth more than the mixture there, both at the program's prices: its
reduced cost. Columns play the same worlds, so that this is a mean of differences, and luck in the worlds is no luck of
a column. It is played for as long as the improvement may still be worth having; only what has played all choosing
episodes takes part in the program.

Every measurement is a stage of the run: a function of the settings and of earlier ones, written when it is done, so
that a killed run resumes bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import Column, ColumnSettings, Sample
from cmcts.critic.ensemble import SafetyCritic
from cmcts.critic.values import LeafValues
from cmcts.critic.values import from_arrays as values_from_arrays
from cmcts.critic.values import to_arrays as values_to_arrays
from cmcts.critic.weights import Layers
from cmcts.devices import Device
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import Episodes
from cmcts.evaluation.recall import PLANS_A_STATE
from cmcts.evaluation.statistics import standard_error
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.executors import Executor
from cmcts.frontier.frontier import Frontier, planner_of
from cmcts.frontier.ladder import close, distinct, ladder
from cmcts.frontier.lessons import Lessons, joined, lessons_of
from cmcts.frontier.mixture import CONFIDENCE, Limits, Mixed, best_mixture
from cmcts.frontier.settings import FrontierSettings
from cmcts.random import stage_seed
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task

Floats = NDArray[np.float64]

# What a seed is for; training's own purposes have smaller numbers.
CHOOSE, CONFIRM, VALUES = 11, 12, 13
SAME_PRICE = 1.1  # prices closer than this, as a ratio, are not told apart
PRICE_RISES = 6  # by PRICE_FACTOR each, to find the frugal end
PRICE_FACTOR = 4.0
# A model that misjudges costs wants another price than the world's: some multiples of that, and what lies next to those
# that were found useful.
PRICES_OFF_MODEL, NEXT_PRICE = (1.0, 0.75, 0.5, 0.25, 1.5), 1.15
NEAR = (0.5, 1.0, 2.0)  # of the task's budget: where the curve is to be best
CHOOSING_STEPS, CONFIRMING_STEPS = 20_000, 10_000  # of a column, or a block of its episodes: long ones are fewer
CONFIRMING_BLOCKS = 4
LUCK = 1.0  # standard errors that a column may be better than it looked so far
WORTH = 0.005  # of what the whole curve rises: a smaller improvement is none
LOSS = 0.05  # of a standard error of reward: what a column must add to be confirmed


# Inputs [T, F + M], targets [T, 1 + M], gradient steps, a seed, and who hears of progress; to layers and a loss.
FitValues = Callable[[NDArray[np.float32], Floats, int, int, Callable[[int], None]], tuple[Layers, float]]


class Recorder(Protocol):
    """Where stages are written, and read again by a resumed run."""

    def stage(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A stage's record: as it was written, or computed now."""

    def save(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write the arrays of a stage to a file of the run."""

    def load(self, name: str) -> dict[str, NDArray[Any]]:
        """Read them again."""

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A stage of so many episodes begins."""

    def advance(self, units: int) -> None:
        """Some of them are done."""


@dataclass(frozen=True)
class Guard:
    """A trained critic, and the pruning and search that it was found best with."""

    critic: SafetyCritic
    pruning: PruningSettings
    search: SearchSettings


@dataclass
class _Candidate:
    settings: ColumnSettings
    sample: Sample
    alive: bool = False  # played all choosing episodes, and may be mixed in

    @property
    def reward(self) -> float:
        return float(self.sample.rewards.mean())

    @property
    def costs(self) -> Floats:
        return np.asarray(self.sample.costs.mean(axis=0))


class Generated(NamedTuple):
    """Columns, and the leaf values that some of them read; None if none does."""

    columns: tuple[Column, ...]
    values: LeafValues | None


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
) -> Generated:
    """The columns of a frontier for `task`, found and confirmed in its training world.

    `fit_values` is what learns leaf values; without it there are none. `device` says where it is planned, and the
    `executor` plays the episodes if there is one.
    """
    generator = _Generator(task, settings, seed, guard, cost_scale, recorder, fit_values, device, executor)
    columns = generator.run()
    return Generated(columns, generator.values if any(column.settings.values for column in columns) else None)


class _Generator:
    def __init__(
        self,
        task: Task,
        settings: FrontierSettings,
        seed: int,
        guard: Guard | None,
        cost_scale: Floats,
        recorder: Recorder,
        fit_values: FitValues | None,
        device: Device,
        executor: Executor | None,
    ) -> None:
        self.task, self.settings, self.seed, self.guard, self.recorder = task, settings, seed, guard, recorder
        self.device: Device = device
        self.executor = executor
        self.scale = cost_scale
        self.budget = np.asarray(task.budget)
        self.search = replace(task.search, iterations=settings.search_factors[0] * task.search.iterations)
        self.tried: list[_Candidate] = []
        self.lengths: dict[int, float] = {}  # steps an episode, of each column
        self.ladder: list[Floats] = []
        own_rollouts = task.search.rollout == "directed" and task.model.has_rollout_action
        alike = set(task.search.discounts_for(task.model)) == {task.search.discount}
        learns = settings.values and alike and not own_rollouts
        self.fit_values = fit_values if learns else None
        self.values: LeafValues | None = None
        self.reads_values = False
        self.price_units = tuple((task.search.reward_scale / cost_scale).tolist())
        self.lessons: list[Lessons] = []  # what the priced columns played, for the values to learn from

    def run(self) -> tuple[Column, ...]:
        nothing = np.zeros(len(self.budget))
        reckless = self.add(self.priced(nothing))
        assert reckless is not None, "a frontier has room for one column"
        self.ladder = ladder(self.budget, reckless.costs)
        # Where the planning model is right, a price does nearly all that a guard can, and is measured sooner: a guard
        # minds what is left of the budget, so that no two of its decisions are alike.
        steps = (self.add_guards, self.add_prices)
        for step in reversed(steps) if self.task.model_is_exact else steps:
            step()
        self.search_more()
        if self.guard is not None:
            # Where the planning model is wrong, only the critic knows, and what suits one budget need not suit another.
            for budget in [self.budget] if self.task.model_is_exact else self.ladder:
                self.add(self.guarded("critic", budget, nothing))
                if (mixed := self.mixture(budget)) is not None and mixed.prices.any():
                    self.add(self.guarded("critic", budget, mixed.prices))
        return self.confirmed(self.thinned(self.used()))

    def add_guards(self) -> None:
        """The critic, and immediate costs alone, at the task's budget and at 0."""
        nothing = np.zeros(len(self.budget))
        for budget in distinct([nothing, self.budget]):
            if self.guard is not None:
                self.add(self.guarded("critic", budget, nothing))
            self.add(self.guarded("immediate", budget, nothing))

    def add_prices(self) -> None:
        """Prices that keep every budget of the ladder, and the program's own between them."""
        self.bracket(self.tried[0])
        for price in self.untried_prices(self.ladder):
            self.add(self.priced(price))
        if self.fit_values is not None and sum(map(len, (part.inputs for part in self.lessons))) > 0:
            self.learn_values(self.fit_values)
        self.bisect(self.ladder)

    @property
    def room(self) -> bool:
        return len(self.tried) < self.settings.columns

    def priced(self, prices: Floats) -> ColumnSettings:
        return ColumnSettings(tuple(prices.tolist()), self.search, values=self.reads_values)

    def guarded(self, kind: Literal["critic", "immediate"], budget: Floats, prices: Floats) -> ColumnSettings:
        trained = self.guard if kind == "critic" else None
        pruning = replace(self.task.pruning, cost_floor=True) if trained is None else trained.pruning
        search = self.task.search if trained is None else trained.search
        return ColumnSettings(tuple(prices.tolist()), search, kind, tuple(budget.tolist()), pruning)

    def add(self, column: ColumnSettings) -> _Candidate | None:
        """Try a column, for as long as it may matter; the same one is not tried twice; None without room."""
        for candidate in self.tried:
            if candidate.settings == column:
                return candidate
        if not self.room:
            return None
        k, episodes = len(self.tried), self.settings.screening_episodes
        candidate = _Candidate(column, self.measure("screen", k, column, 0, episodes))
        first, enough = not self.tried, self.affordable(k, self.settings.choosing_episodes, CHOOSING_STEPS)
        self.tried.append(candidate)
        while first or (self.can_matter(candidate) and not self.is_twin(candidate)):
            done = len(candidate.sample)
            if done == enough:
                candidate.alive = True
                break
            # A single episode would have no standard error.
            more = enough - done if first or enough - 2 * done < 2 else done
            candidate.sample = _joined(candidate.sample, self.measure("choose", k, column, done, more))
        return candidate

    def affordable(self, k: int, episodes: int, steps: int) -> int:
        """Fewer episodes of a column whose episodes are long, though not fewer than screen it: so many steps of it."""
        least = min(episodes, self.settings.screening_episodes)
        return max(least, min(episodes, round(steps / self.lengths[k])))

    def measure(self, phase: str, k: int, column: ColumnSettings, first: int, episodes: int) -> Sample:
        """Play episodes of a column in the training world, or read what an earlier life of the run has played."""
        more = "" if phase == "screen" else f" {first}"
        file = f"columns/{phase}-{k:03d}{more.replace(' ', '-')}.safetensors"
        # Columns are compared on the same worlds, and confirmed each on its own, so that their errors are unrelated.
        purposes = {"confirm": (CONFIRM, k), "values": (VALUES,)}
        seed = stage_seed(self.seed, *purposes.get(phase, (CHOOSE,)))
        critic = None if self.guard is None else self.guard.critic
        teaches = self.fit_values is not None and column.guard == "none" and phase != "confirm"

        def compute() -> dict[str, Any]:
            planner = planner_of(column, self.task.model, critic, self.scale.tolist(), self.values)
            self.recorder.begin(phase, episodes, column=k, policy=column.name)
            done, steps = episodes_on(
                self.executor,
                planner,
                self.task.training_world,
                column.budget or self.budget,
                episodes=episodes,
                seed=seed,
                first_episode=first,
                device=self.device,
                plans_a_state=PLANS_A_STATE,
                on_steps=lambda _, finished: self.recorder.advance(finished),
            )
            lessons = lessons_of(planner, steps, self.price_units)._asdict() if teaches else {}
            self.recorder.save(file, {"rewards": done.rewards, "costs": done.costs, **lessons})
            return {"phase": phase, "column": k, "policy": column.name, **_figures(done, column.search.iterations)}

        record = self.recorder.stage(f"column {k} {phase}{more}", compute)
        if phase == "screen":
            self.lengths[k] = record["decisions"] / record["episodes"]
        arrays = self.recorder.load(file)
        if teaches:
            self.lessons.append(Lessons(arrays["inputs"], arrays["targets"]))
        return Sample(arrays["rewards"], arrays["costs"])

    @property
    def alive(self) -> list[_Candidate]:
        return [candidate for candidate in self.tried if candidate.alive]

    def mixture(self, budget: Floats) -> Mixed | None:
        """The best mixture of what is alive, by measured means; None if none keeps the budget."""
        rewards = np.array([candidate.reward for candidate in self.alive])
        rows = Limits.of([candidate.sample for candidate in self.alive], budget)
        try:
            return best_mixture(rewards, rows, confidence=None)
        except InfeasibleBudget:
            return None

    def value(self, budget: Floats) -> float:
        """What the best mixture earns; minus infinity if none keeps the budget."""
        mixed = self.mixture(budget)
        if mixed is None:
            return -np.inf
        return float(mixed.weights @ np.array([candidate.reward for candidate in self.alive]))

    def can_matter(self, candidate: _Candidate) -> bool:
        """Whether a column may be worth more than the mixture for some budget of the ladder, or spend less than all."""
        alive, rows = self.alive, len(candidate.sample)
        if (candidate.costs < np.min([other.sample.costs[:rows].mean(axis=0) for other in alive], axis=0)).any():
            return True
        rewards = [other.reward for other in alive]
        worth = WORTH * (max(rewards) - min(rewards))
        for budget in self.ladder:
            mixed = self.mixture(budget)
            if mixed is None:
                continue
            used = [(other, weight) for other, weight in zip(alive, mixed.weights.tolist(), strict=True) if weight > 0]
            rows = min(len(candidate.sample), *(len(other.sample) for other, _ in used))
            gains = _penalised(candidate.sample, mixed.prices, rows)
            for other, weight in used:
                gains = gains - weight * _penalised(other.sample, mixed.prices, rows)
            if gains.mean() + LUCK * standard_error(gains) > worth:
                return True
        return False

    def is_twin(self, candidate: _Candidate) -> bool:
        """Whether another column has played the very same episodes: its price or guard makes no difference here."""
        return any(_same_episodes(candidate.sample, other.sample) for other in self.alive)

    def bracket(self, reckless: _Candidate) -> None:
        """Raise the price until some column keeps the smallest budgets, or the costs no longer fall."""
        spread = abs(reckless.reward) + float(reckless.sample.rewards.std())
        price = spread / np.maximum(reckless.costs, 1e-3 * self.scale)
        least = np.inf
        for _ in range(PRICE_RISES):
            if all(self.mixture(budget) is not None for budget in self.ladder):
                return
            if (candidate := self.add(self.priced(price))) is None:
                return
            costs = float((candidate.costs / self.scale).max())
            if costs > 0.98 * least:
                return
            least, price = costs, price * PRICE_FACTOR

    def bisect(self, budgets: list[Floats]) -> None:
        """Add columns at the program's own prices for these budgets, until it names none anew."""
        while self.room and (prices := self.untried_prices(budgets)):
            for price in prices:
                self.add(self.priced(price))

    def used(self) -> list[int]:
        """The columns that the program uses for some budget of the ladder or between, with or without a margin."""
        used: set[int] = set()
        alive = [k for k, candidate in enumerate(self.tried) if candidate.alive]
        rewards = np.array([self.tried[k].reward for k in alive])
        samples = [self.tried[k].sample for k in alive]
        between = [(a + b) / 2 for a, b in pairwise(self.ladder)]
        for budget in [*self.ladder, *between]:
            for confidence in (None, CONFIDENCE):
                try:
                    mixed = best_mixture(rewards, Limits.of(samples, budget), confidence)
                except InfeasibleBudget:
                    continue
                used |= {alive[i] for i in np.flatnonzero(mixed.weights > 0.01)}
        thriftiest = np.argmin([self.tried[k].costs for k in alive], axis=0)
        return sorted(used | {alive[i] for i in thriftiest.tolist()} | {alive[int(np.argmax(rewards))]})

    def search_more(self) -> None:
        """Use more simulations a decision for budgets near the task's own, while some budget of these then does better.

        Not where the planning model may be wrong: more search finds more of what is not there.
        """
        near = [share * self.budget for share in NEAR] if self.budget.any() else self.ladder[: len(self.ladder) // 2]
        for factor in self.settings.search_factors[1:] if self.task.model_is_exact else ():
            before = [self.value(budget) for budget in near]
            self.search = replace(self.task.search, iterations=factor * self.task.search.iterations)
            for column in self.priced_for(near):
                self.add(self.priced(np.array(column.prices)))
            self.bisect(near)
            if [self.value(budget) for budget in near] == before:
                return

    def priced_for(self, budgets: list[Floats]) -> list[ColumnSettings]:
        """The columns without a guard that the program uses for these budgets."""
        found: list[ColumnSettings] = []
        for budget in budgets:
            if (mixed := self.mixture(budget)) is not None:
                used = [self.alive[i].settings for i in np.flatnonzero(mixed.weights > 0.01)]
                found += [column for column in used if column.guard == "none" and column not in found]
        return found

    def untried_prices(self, budgets: list[Floats]) -> list[Floats]:
        """The program's prices for these budgets, the task's own first, that no column was tried at."""
        off_model = not self.task.model_is_exact
        columns = [candidate.settings for candidate in self.tried]
        alike = [c for c in columns if c.search == self.search and c.values == self.reads_values]
        known = [np.array(column.prices) for column in alike]
        wanted: list[Floats] = []
        for budget in sorted(budgets, key=lambda b: bool((b != self.budget).any())):
            if (mixed := self.mixture(budget)) is not None:
                wanted += [factor * mixed.prices for factor in (PRICES_OFF_MODEL if off_model else (1.0,))]
        if off_model:
            useful = [np.array(column.prices) for column in self.priced_for(budgets)]
            wanted += [factor * price for price in useful for factor in (NEXT_PRICE, 1 / NEXT_PRICE)]
        found: list[Floats] = []
        for price in wanted:
            if price.any() and not any(close(price, other, SAME_PRICE) for other in known + found):
                found.append(price)
        return found

    def learn_values(self, fit: FitValues) -> None:
        """Leaf values, from here on read by every column without a guard if that leaves more than rolling out does.

        The first fit learns what searches that roll out are worth. What searches that read it are worth is more, and
        learned by the second, which is kept: a column is only as it was measured with the values it was measured with.
        It learns from all episodes: the newest alone are few, and know little of where other policies go.
        """
        rolled_out = [candidate for candidate in self.tried if candidate.settings.guard == "none"]
        self.reads_values = True
        self.values = self.fitted(fit, 0)
        for k, candidate in enumerate(rolled_out):
            column = self.priced(np.array(candidate.settings.prices))
            self.measure("values", k, column, 0, self.settings.screening_episodes)
        self.values = self.fitted(fit, 1)
        self.fit_values = None  # nobody learns from what is played from here on
        gains = []
        for candidate in rolled_out:
            prices = np.array(candidate.settings.prices)
            if (reader := self.add(self.priced(prices))) is not None:
                rows = min(len(reader.sample), len(candidate.sample))
                gains.append(_penalised(reader.sample, prices, rows) - _penalised(candidate.sample, prices, rows))
        self.reads_values = bool(gains) and bool(np.mean([gain.mean() for gain in gains]) > 0)

    def fitted(self, fit: FitValues, round_: int) -> LeafValues:
        """Values fitted to the lessons so far."""
        inputs, targets = joined(self.lessons)
        file, steps = f"values/{round_:03d}.safetensors", self.settings.value_steps

        def compute() -> dict[str, Any]:
            self.recorder.begin("learn", steps, round=round_)
            layers, loss = fit(inputs, targets, steps, stage_seed(self.seed, VALUES, round_), self.recorder.advance)
            doubt = self.settings.value_doubt * float(targets[:, 0].std())
            self.recorder.save(file, values_to_arrays(LeafValues(layers, self.price_units, doubt)))
            return {"phase": "learn", "round": round_, "transitions": len(inputs), "loss": loss}

        self.recorder.stage(f"values {round_} learn", compute)
        return values_from_arrays(self.recorder.load(file))

    def thinned(self, wanted: list[int]) -> list[int]:
        """Leave out, one by one, columns that the others replace at a loss that is less than noise."""
        for candidate in self.tried:
            candidate.alive = False
        for k in wanted:
            self.tried[k].alive = True
        before = np.array([self.value(budget) for budget in self.ladder])
        while len(wanted) > 1:
            losses = {}
            for k in wanted:
                self.tried[k].alive = False
                after = np.array([self.value(budget) for budget in self.ladder])
                self.tried[k].alive = True
                with np.errstate(invalid="ignore"):  # where neither keeps the budget
                    lost = np.where(before == after, 0.0, before - after)
                losses[k] = float(lost.max()) / max(standard_error(self.tried[k].sample.rewards), 1e-12)
            least = min(wanted, key=lambda k: (losses[k], k))
            if losses[least] > LOSS:
                break
            self.tried[least].alive = False
            wanted = [k for k in wanted if k != least]
        return wanted

    def confirmed(self, wanted: list[int]) -> tuple[Column, ...]:
        """The columns with episodes on fresh worlds, as many as it takes to know that budgets like the task's are kept.

        They are played in blocks, the next one always by the column whose cost leaves the most doubt.
        """
        columns = {k: self.column(k, self.confirm(k, 0)) for k in wanted}
        blocks = dict.fromkeys(wanted, 1)
        for _ in range((CONFIRMING_BLOCKS - 1) * len(wanted)):
            if (k := self.most_doubtful(columns)) is None:
                break
            columns[k] = self.column(k, _joined(columns[k].confirmed, self.confirm(k, blocks[k])))
            blocks[k] += 1
        return tuple(columns.values())

    def column(self, k: int, confirmed: Sample) -> Column:
        return Column(self.tried[k].settings, self.tried[k].sample, confirmed)

    def confirm(self, k: int, block: int) -> Sample:
        """A block of fresh episodes of a column."""
        episodes = self.affordable(k, self.settings.confirming_episodes, CONFIRMING_STEPS)
        return self.measure("confirm", k, self.tried[k].settings, block * episodes, episodes)

    def most_doubtful(self, columns: dict[int, Column]) -> int | None:
        """The column of which more episodes help most, at the budget that has to leave the largest share unspent.

        None if no such share exceeds the settings' margin. Of a budget of 0 nothing can be left unspent: there it is
        the middle of the ladder that counts.
        """
        own = self.budget if self.budget.any() else self.ladder[len(self.ladder) // 2]
        frontier = Frontier(self.task.model, tuple(columns.values()), tuple(own.tolist()))
        found, largest = None, self.settings.margin
        for budget in (own, own / 2, 2 * own):
            try:
                weights = frontier.shares(budget)
            except InfeasibleBudget:
                continue
            samples = [column.confirmed for column in columns.values()]
            rows = Limits.of(samples, budget)
            shares = rows.margins(weights) / np.maximum(budget, 1e-3 * self.scale)
            if shares.max() > largest:
                largest, m = float(shares.max()), int(shares.argmax())
                counts = np.array([len(sample) for sample in samples])
                saved = (weights * rows.errors[:, m]) ** 2 / (counts + self.settings.confirming_episodes)
                found = list(columns)[int(saved.argmax())]
        return found


def _penalised(sample: Sample, prices: Floats, rows: int) -> Floats:
    """[rows] what the first episodes earned, after paying these prices for what they cost."""
    return np.asarray(sample.rewards[:rows] - sample.costs[:rows] @ prices)


def _same_episodes(one: Sample, other: Sample) -> bool:
    rows = min(len(one), len(other))
    same = np.array_equal(one.rewards[:rows], other.rewards[:rows])
    return same and np.array_equal(one.costs[:rows], other.costs[:rows])


def _joined(one: Sample, other: Sample) -> Sample:
    return Sample(np.concatenate([one.rewards, other.rewards]), np.concatenate([one.costs, other.costs]))


def _figures(done: Episodes, iterations: int) -> dict[str, Any]:
    costs, decisions = done.costs, int(done.steps.sum())
    return {
        "episodes": len(done),
        "decisions": decisions,
        "simulations": decisions * iterations,
        "reward_mean": float(done.rewards.mean()),
        "reward_se": standard_error(done.rewards),
        "cost_means": costs.mean(axis=0).tolist(),
        "cost_ses": [standard_error(column) for column in costs.T],
        "decision_ms": float(1e3 * done.planning_seconds.sum() / decisions),
    }

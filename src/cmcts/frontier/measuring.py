"""What a column earns and pays in the training world: by its episodes, and exactly where the states can be listed.

Every measurement is a stage of the run: a function of the settings and of earlier ones, written when it is done, so
that a killed run resumes bit for bit.

A column without a guard decides by the state alone, and so does one that may spend nothing, for nothing is what it has
left wherever it is. If the training world follows a model that knows its outcomes, and
its states are few, a handful of plans in each of them say what the column is worth without the luck of episodes, which
for a cost that strikes once in a hundred episodes is nearly all there is (evaluation/tabulated.py). Its episodes are
then played by the table of these plans: they say what share of them exceeds a budget, and whether the world does what
its model claims. Where it does not, episodes alone are believed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import ColumnSettings, Sample
from cmcts.critic.ensemble import SafetyCritic
from cmcts.critic.policies import Policies
from cmcts.critic.values import LeafValues
from cmcts.devices import Device
from cmcts.errors import InvalidInput
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import Episodes
from cmcts.evaluation.recall import PLANS_A_STATE as RECALLED
from cmcts.evaluation.tabulated import Judged, judged
from cmcts.exact.column_generation import InfeasibleBudget
from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.solver import evaluate, least_costs, solve
from cmcts.executors import Executor
from cmcts.frontier.frontier import planner_of
from cmcts.frontier.lessons import Lessons, joined, lessons_of, solved_lessons
from cmcts.frontier.settings import FrontierSettings
from cmcts.planning.planner import Planner
from cmcts.random import stage_seed
from cmcts.tasks.task import Task

Floats = NDArray[np.float64]

# What a seed is for; training's own purposes have smaller numbers.
CHOOSE, CONFIRM, VALUES, TABULATE = 11, 12, 13, 14
CHOOSING_STEPS, CONFIRMING_STEPS = 20_000, 10_000  # of a column, or a block of its episodes: long ones are fewer
TEACHING = ("screen", "choose", "values")  # phases that leaf values may learn from
THOROUGH = 2  # times the task's own simulations: a step of a longer search counts as several
STATES = 2500  # a world of more is not listed
PLANS, PLANS_A_STATE = 4000, 4  # of a table, at most: so many in all, or in each state, whichever is more
FEWER = 2  # times as few will do for columns that are not confirmed
PRECISION = 0.002  # of reward and costs: a table of fewer plans will do if they are known so well
SMALL = 0.1  # of the budget: what a column costs below that need not be known better
DISBELIEF = 6.0  # standard errors between episodes and what the world's model says of them


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


class _Optimum(NamedTuple):
    """The most that can be earned within a budget, and what one more unit of it would earn."""

    reward: float
    price: Floats  # [M]


@dataclass
class Measurements:
    """Measures columns of one task, each stage once."""

    task: Task
    settings: FrontierSettings
    seed: int
    critic: SafetyCritic | None
    cost_scale: Floats
    recorder: Recorder
    device: Device = "cpu"
    executor: Executor | None = None
    values: LeafValues | None = None
    """What columns that say so read at their leaves."""
    policies: Policies = field(default_factory=dict)
    """The tables of exact policies among the columns, by their digests."""
    teaching: bool = False
    """Whether leaf values are to learn from what columns without a guard play."""

    def __post_init__(self) -> None:
        self._lessons: dict[str, Lessons] = {}
        self.price_units = tuple((self.task.search.reward_scale / self.cost_scale).tolist())
        self._lengths: dict[int, float] = {}  # steps an episode, of each column, more if they take long
        self._tables: dict[int, Floats] = {}  # [P] decisions of each column, where they are tabulated
        self._listed = listed_world(self.task)
        self._optima: dict[bytes, _Optimum] = {}  # by budget
        self._least: Floats | None = None
        self.budget = np.asarray(self.task.budget)

    @property
    def exact(self) -> bool:
        """Whether columns without a guard are judged by their decisions in every state."""
        return self._listed is not None

    def optimum(self, budget: Floats) -> float | None:
        """The most that can be earned within a budget, or minus infinity if it is too little; None where nobody knows.

        It is known where the states can be listed.
        """
        solution = self._solved(budget)
        return solution if solution is None else solution.reward

    def price(self, budget: Floats) -> Floats | None:
        """[M] what one more unit of a budget would earn; None where nobody knows, or nothing keeps the budget."""
        solution = self._solved(budget)
        return None if solution is None or solution.reward == -np.inf else solution.price

    @property
    def unavoidable(self) -> Floats | None:
        """[M] the least that any policy costs, each constraint by itself; None where nobody knows."""
        if self._listed is None:
            return None
        if self._least is None:
            self._least = least_costs(self._listed)
        return self._least

    def _solved(self, budget: Floats) -> _Optimum | None:
        if self._listed is None:
            return None
        key = budget.tobytes()
        if key not in self._optima:
            try:
                solution = solve(self._listed, budget)
                self._optima[key] = _Optimum(solution.reward, solution.multipliers)
            except InfeasibleBudget:
                self._optima[key] = _Optimum(-np.inf, np.zeros(len(budget)))
        return self._optima[key]

    @property
    def learnable(self) -> bool:
        """Whether there is anything for leaf values to learn from so far."""
        return self.exact or any(len(part.inputs) > 0 for part in self._lessons.values())

    def lessons(self, prices: Sequence[Floats]) -> Lessons:
        """What leaf values learn from: the optimum at these prices where states are listed, else all episodes."""
        if self._listed is not None:
            return solved_lessons(self.task.model, self._listed, prices, self.price_units)
        return joined(list(self._lessons.values()))

    def screen(self, k: int, column: ColumnSettings) -> Sample:
        """A first look at column `k`: its decisions in every state if these can be listed, and few episodes."""
        sample = self._measured("screen", k, column, 0, self.settings.screening_episodes)
        if k == 0 and sample.known is not None:
            sample = self.more(k, column, sample)
            if contradicts(sample):
                self._listed = None
                sample = replace(sample, known=None)
        return sample

    def enough(self, k: int, sample: Sample) -> bool:
        """Whether a column has played all episodes that it is chosen by; none more where its worth is known."""
        return sample.known is not None or len(sample) >= self._choosing(k)

    def more(self, k: int, column: ColumnSettings, sample: Sample, all_of_them: bool = True) -> Sample:
        """The rest of the episodes that a column is chosen by, or as many again as there are."""
        done, enough = len(sample), self._choosing(k)
        # A single episode would have no standard error.
        more = enough - done if all_of_them or enough - 2 * done < 2 else done
        return sample if more == 0 else sample.joined(self._measured("choose", k, column, done, more))

    def confirm(self, k: int, column: ColumnSettings, block: int) -> Sample:
        """A block of a column's episodes on fresh worlds, by fresh plans."""
        episodes = self._affordable(k, self.settings.confirming_episodes, CONFIRMING_STEPS)
        return self._measured("confirm", k, column, block * episodes, episodes)

    def teach(self, k: int, column: ColumnSettings, round_: int) -> Sample:
        """Play a column for what leaf values learn from it, anew in every round."""
        episodes = self.settings.screening_episodes
        return self._measured("values", k, column, round_ * episodes, episodes)

    def _choosing(self, k: int) -> int:
        return self._affordable(k, self.settings.choosing_episodes, CHOOSING_STEPS)

    def _affordable(self, k: int, episodes: int, steps: int) -> int:
        """Fewer episodes of a column whose episodes take long, though not fewer than screen it: so many steps of it."""
        least = min(episodes, self.settings.screening_episodes)
        return max(least, min(episodes, round(steps / self._lengths[k])))

    def _measured(self, phase: str, k: int, column: ColumnSettings, first: int, episodes: int) -> Sample:
        """Episodes of a column in the training world, as they are played now or were by an earlier life of the run."""
        more = "" if phase == "screen" else f" {first}"
        file = f"columns/{phase}-{k:03d}{more.replace(' ', '-')}.safetensors"
        # Columns are compared on the same worlds, and confirmed each on its own, so that their errors are unrelated.
        purpose = {"confirm": (CONFIRM, k), "values": (VALUES,)}.get(phase, (CHOOSE,))
        scale = self.cost_scale.tolist()
        planner = planner_of(column, self.task.model, self.critic, scale, self.values, self.policies)
        listed = self._listed if planner.decides_by_state(column.budget) else None
        can_teach = planner.searches and column.guard == "none" and listed is None
        teaches = self.teaching and can_teach and phase in TEACHING

        def compute() -> dict[str, Any]:
            arrays: dict[str, NDArray[Any]] = {}
            player, planned = planner, 0
            if listed is not None and phase == "choose":  # more episodes by the decisions that are known
                player = TabularPolicy.playing(listed, self._tables[k], self.task.model)
            elif listed is not None:
                found = self._judged(phase, planner, column, k, stage_seed(self.seed, TABULATE, *purpose, first))
                player = TabularPolicy.playing(listed, found.policy, self.task.model)
                # As with episodes: what none of the plans ever led to counts as never, not as nearly never.
                errors = np.where(found.means == 0.0, 0.0, found.errors)
                arrays |= {"table": found.policy, "known": np.stack([found.means, errors])}
                planned = found.plans
            self.recorder.begin(phase, episodes, column=k, policy=column.name)
            done, steps = episodes_on(
                self.executor,
                player,
                self.task.training_world,
                column.budget or self.task.budget,
                episodes=episodes,
                seed=stage_seed(self.seed, *purpose),
                first_episode=first,
                device=self.device if player is planner else "cpu",
                plans_a_state=RECALLED if player is planner and planner.searches else None,
                on_steps=lambda _, finished: self.recorder.advance(finished),
            )
            if player is planner and planner.searches:
                planned = len(steps)
                if teaches:
                    arrays |= lessons_of(planner, steps, self.price_units)._asdict()
            self.recorder.save(file, {"rewards": done.rewards, "costs": done.costs, **arrays})
            figures = _figures(done, Sample(done.rewards, done.costs, arrays.get("known")))
            if "known" in arrays:
                figures["tabulated"] = planned
            figures["simulations"] = planned * column.search.iterations
            return {"phase": phase, "column": k, "policy": column.name, **figures}

        record = self.recorder.stage(f"column {k} {phase}{more}", compute)
        arrays = self.recorder.load(file)
        if phase == "screen":
            thorough = column.search.iterations / (THOROUGH * self.task.search.iterations)
            self._lengths[k] = record["decisions"] / record["episodes"] * max(1.0, thorough)
            if listed is not None:
                self._tables[k] = arrays["table"]
        if "inputs" in arrays:
            self._lessons[file] = Lessons(arrays["inputs"], arrays["targets"])
        return Sample(arrays["rewards"], arrays["costs"], arrays.get("known"))

    def _judged(self, phase: str, planner: Planner, column: ColumnSettings, k: int, seed: int) -> Judged:
        """A planner's decisions in every state, by as many plans as the phase asks for."""
        listed = self._listed
        assert listed is not None
        if isinstance(planner, TabularPolicy):  # its decisions are known as they are
            decided = planner.decisions_in(listed)
            return Judged(decided, evaluate(listed, decided), np.zeros(1 + listed.cost_count), 0)
        plans = max(PLANS, PLANS_A_STATE * listed.state_count) // (1 if phase == "confirm" else FEWER)
        self.recorder.begin("tabulate", plans, column=k, states=listed.state_count)
        return judged(
            planner,
            listed,
            precision=PRECISION,
            units=np.concatenate([[0.0], SMALL * np.where(self.budget > 0, self.budget, self.cost_scale)]),
            plans=plans,
            seed=seed,
            device=self.device,
            executor=self.executor,
            on_plans=self.recorder.advance,
            budget=np.asarray(column.budget) if column.budget else None,
        )


def listed_world(task: Task) -> FiniteCMDP | None:
    """The training world as tables, if it is known what it follows and its states are few."""
    model = task.training_model
    if model is None or model.outcomes is None or model.starts is None:
        return None
    try:
        return enumerate_states(model, task.discount, STATES, task.cost_discounts)
    except InvalidInput:  # too many, or nothing that exact solutions can do
        return None


def contradicts(sample: Sample) -> bool:
    """Whether episodes say something else than what is known, beyond all chance.

    Of a return that none of the episodes had, a known mean is all that tells its spread.
    """
    assert sample.known is not None
    seen = Sample(sample.rewards, sample.costs)
    error = np.sqrt(seen.errors**2 + sample.errors**2 + sample.means**2 / len(sample))
    return bool((np.abs(seen.means - sample.means) > DISBELIEF * error + 1e-9).any())


def _figures(done: Episodes, sample: Sample) -> dict[str, Any]:
    decisions = int(done.steps.sum())
    return {
        "episodes": len(done),
        "decisions": decisions,
        "reward_mean": sample.reward,
        "reward_se": float(sample.errors[0]),
        "cost_means": sample.means[1:].tolist(),
        "cost_ses": sample.errors[1:].tolist(),
        "decision_ms": float(1e3 * done.planning_seconds.sum() / decisions),
    }

"""Units of work: train a critic, find lambda*, run episodes, try a planner. Each has a name, and is done once."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from cmcts.frontier.settings import FrontierSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.registry import make
from cmcts.tasks.task import Task
from cmcts.training.paper import paper_settings
from cmcts.training.settings import TrainingSettings

Variant = Literal["defaults", "paper"]
PlannerName = Literal["cmcts", "cc-mcp", "penalized"]
Tried = Literal["exact", "frontier", "cmcts", "cc-mcp", "threshold-uct", "baseline"]

QUICK_FRONTIER = FrontierSettings(
    columns=4, search_factors=(1,), screening_episodes=50, choosing_episodes=100, confirming_episodes=50, values=False
)
# What each of our departures from the paper is worth: a training with that one undone, by its name in the table.
OPTIONS: dict[str, dict[str, dict[str, Any]]] = {
    "all on": {},
    "floor off": {"pruning": {"cost_floor": False}},
    "fallback: lowest mean": {"pruning": {"fallback": "lowest_mean"}},
    "lambda rule: paper": {"multiplier": {"rule": "paper", "initial": 0.0}},
    "lambda rule: sign": {"multiplier": {"rule": "sign", "initial": 0.0}},
    "target: sarsa": {"critic": {"target": "sarsa"}, "": {"walk_steps": 0}},  # it learns what the walkers spend, too
    "first feasible critic": {"": {"patience": 0, "tolerances": (0.05,)}},
    "rollout: uniform": {"search": {"rollout": "uniform"}},
    "outcomes not stratified": {"search": {"stratified": False}},
    "guard off": {"search": {"guarded_rollouts": False, "thrifty_rollouts": False}},
}


@dataclass(frozen=True)
class Training:
    """Train a critic for a task by our defaults or the paper's settings, with some of them changed."""

    task: str
    variant: Variant
    iterations: int | None = None
    alpha0: float | None = None
    epsilon: float | None = None
    option: str = "all on"
    frontier: bool = False
    """Also build a frontier, as `cmcts train` does; the paper's planners keep every episode within the budget."""

    @property
    def name(self) -> str:
        """The name of this training, which is that of its folder and its record."""
        changes = [
            f"{field}{value:g}" for field in ("iterations", "alpha0", "epsilon") if (value := getattr(self, field))
        ]
        option = [] if self.option == "all on" else [self.option.replace(": ", "-").replace(" ", "-")]
        return "_".join([self.task, self.variant, *changes, *option, *(["frontier"] if self.frontier else [])])

    def settings(self, seed: int, quick: bool) -> TrainingSettings:
        """The settings of this training, as `cmcts train` would have them."""
        task = make(self.task)
        columns = QUICK_FRONTIER if quick else FrontierSettings()
        frontier = columns if self.frontier else FrontierSettings(columns=0)
        ours = TrainingSettings.for_task(task, seed=seed, frontier=frontier)
        settings = paper_settings(task, seed) if self.variant == "paper" else ours
        changes = dict(OPTIONS[self.option])
        direct = changes.pop("", {})
        if self.iterations is not None:
            direct = {**direct, "iterations": self.iterations}
        steps = {key: getattr(self, key) for key in ("alpha0", "epsilon") if getattr(self, key) is not None}
        if steps:
            changes["multiplier"] = {**changes.get("multiplier", {}), **steps}
        nested = {part: dataclasses.replace(getattr(settings, part), **values) for part, values in changes.items()}
        settings = dataclasses.replace(settings, **direct, **nested)
        if quick:
            settings = dataclasses.replace(
                settings,
                iterations=min(settings.iterations, 128),
                steps_per_multiplier=500,
                walk_steps=min(settings.walk_steps, 10_000),
                max_rounds=2,
                patience=0,
                evaluation_episodes=200,
                tolerances=(0.05,),
                multiplier=dataclasses.replace(settings.multiplier, max_updates=3),
            )
        if quick and self.frontier:
            # Its columns search as the task does, and there are many plans in every state.
            search = dataclasses.replace(settings.search, iterations=128)
            settings = dataclasses.replace(settings, search=search, max_rounds=1)
        return settings


@dataclass(frozen=True)
class Tuning:
    """Find lambda*: where MCTS with a fixed penalty spends just what it may, in the training world."""

    task: str
    variant: Variant
    iterations: int
    episodes: int

    @property
    def name(self) -> str:
        """The name of this search, which is that of its record."""
        return f"{self.task}_{self.variant}_lambda_{self.iterations}"


@dataclass(frozen=True)
class Cell:
    """Run episodes of one planner in the real world: one point of a figure, or one row of a table."""

    task: str
    variant: Variant
    planner: PlannerName
    iterations: int
    episodes: int
    training: Training | None = None
    tuning: Tuning | None = None
    sigma_max: float | None = None
    visits: bool = False
    """Also count what was done on each square."""

    @property
    def name(self) -> str:
        """The name of these episodes, which is that of their record."""
        sigma = [] if self.sigma_max is None else [f"sigma{self.sigma_max:g}"]
        critic = [] if self.training is None else [self.training.name.removeprefix(f"{self.task}_{self.variant}")]
        parts = [self.task, self.variant, self.planner, *filter(None, critic), *sigma]
        return "_".join([*parts, f"{self.iterations}x{self.episodes}"]).replace("__", "_")

    @property
    def needs(self) -> list[Training | Tuning]:
        """The training and the tuning that must be done before, if any."""
        return [need for need in (self.training, self.tuning) if need is not None]


@dataclass(frozen=True)
class Trial:
    """Try one planner on a problem of the zoo at one budget: episodes, and exact figures where they can be had."""

    task: str
    planner: Tried
    budget: float
    episodes: int
    plans: int = 0
    """Of a frontier: plans a state, on average and at most, that its columns are judged by where the states are few."""
    training: Training | None = None

    @property
    def name(self) -> str:
        """The name of this trial, which is that of its record."""
        return f"{self.task}_{self.planner}_budget{self.budget:g}_{self.episodes}"

    @property
    def needs(self) -> list[Training]:
        """The training that must be done before, if any."""
        return [] if self.training is None else [self.training]


@dataclass(frozen=True)
class Curve:
    """Solve a problem for several budgets, from the least that can be kept to the largest that matters."""

    task: str
    points: int
    largest: float

    @property
    def name(self) -> str:
        """The name of this curve, which is that of its record."""
        return f"{self.task}_curve_{self.points}_to{self.largest:g}"


Work = Training | Tuning | Cell | Trial | Curve


def search_settings(task: Task, variant: Variant) -> SearchSettings:
    """How planners without a critic search: as the task has it, or as the paper did."""
    return paper_settings(task).search if variant == "paper" else task.search

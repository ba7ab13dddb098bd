"""All that a training depends on besides the task, and what a run folder keeps of it. Nothing here needs JAX."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from cmcts import json_settings
from cmcts.critic.identity import changed_code, code_digests, model_digest
from cmcts.errors import InvalidInput, expect
from cmcts.frontier.settings import FrontierSettings
from cmcts.search.pruning import ACCOUNTINGS, Accounting, PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task
from cmcts.training.multipliers import MultiplierSettings
from cmcts.version import __version__


@dataclass(frozen=True)
class CriticSettings:
    """The ensemble and how it is fitted."""

    members: int = 5
    """Perceptrons in the ensemble."""
    hidden: tuple[int, ...] = (64, 64)
    """Units of each hidden layer."""
    target: Literal["feasible", "sarsa"] = "feasible"
    """What the critic learns: the least that must still be spent, or what the gathering policies spent."""
    bootstrap: bool = True
    """Each member learns from a resample of its own, so that they disagree where there is little data."""
    pessimism: float = 1.0
    """How many standard deviations the feasible target adds to each action of the next state."""
    steps: int = 4000
    """Gradient steps a fit; each fit starts from fresh weights."""
    batch: int = 128
    """Transitions a gradient step, drawn for each perceptron by itself."""
    learning_rate: float = 4e-3
    """Of the first gradient step; it falls to a hundredth along a cosine."""
    target_rate: float = 0.02
    """Share of the weights that the target network takes over at each step."""
    held_out: float = 0.1
    """Share of the episodes that are kept for the held-out error, the calibration check and the support's radius."""
    support: bool = True
    """Keep where the data lies, so that the critic doubts what is far from it."""

    def __post_init__(self) -> None:
        for name in ("members", "steps", "batch"):
            expect(
                isinstance(getattr(self, name), int) and getattr(self, name) >= 1, f"{name} >= 1", getattr(self, name)
            )
        expect(all(isinstance(size, int) and size >= 1 for size in self.hidden), "hidden sizes >= 1", self.hidden)
        expect(self.target in ("feasible", "sarsa"), 'target to be "feasible" or "sarsa"', self.target)
        expect(self.pessimism >= 0 and math.isfinite(self.pessimism), "pessimism >= 0", self.pessimism)
        expect(self.learning_rate > 0, "learning_rate > 0", self.learning_rate)
        expect(0 < self.target_rate <= 1, "target_rate in (0, 1]", self.target_rate)
        expect(0 <= self.held_out < 1, "held_out in [0, 1)", self.held_out)


@dataclass(frozen=True)
class TrainingSettings:
    """All that a training depends on besides the task."""

    seed: int = 0
    """Everything random in the training follows from it."""
    iterations: int = 512
    """Simulations a decision, while gathering and evaluating."""
    steps_per_multiplier: int = 1000
    """Gather at least so many real steps for each lambda."""
    random_actions: float = 0.1
    """Share of the gathered steps that take a random legal action instead: they show what else could happen."""
    walk_steps: int = 40_000
    """Steps of random walks before the first round, which show what a planner avoids; 0 for none."""
    max_rounds: int = 6
    """Rounds of gather, fit and evaluate at most."""
    patience: int = 1
    """Go on for so many rounds without a better feasible critic; 0 stops at the first feasible one."""
    evaluation_episodes: int = 400
    """Episodes that judge whether a critic is feasible, and as many others that confirm the choice; 200 or more."""
    evaluation_steps: int = 6_000
    """Long episodes are fewer, 50 at least: about so many real steps of them while critics are compared, and twice as
    many while the choice is confirmed."""
    choose_exploration: bool = True
    """Find out, after the first data, whether the search had better explore half or twice as widely, and so on."""
    untrained: bool = True
    """Also try what prunes by immediate costs alone: a critic that earns less than that is not kept."""
    confirmations: int = 3
    """So many of the best critics are tried on fresh episodes at most; the first that is feasible there is kept."""
    relative_costs: bool = True
    """Tolerances, sigma_max, epsilon and lambda are in units of the task's cost scale, not in plain units of cost."""
    tolerances: tuple[float, ...] = (0.03, 0.05, 0.1)
    """Pruning tolerances to try with each critic, as shares of the cost scale. Those below the critic's own error on
    held-out episodes are left out, but for the largest, while that is feasible: what was refused for less would be
    refused by chance."""
    accountings: tuple[Accounting, ...] = ACCOUNTINGS
    """How the budget is accounted for; the next one is tried, from the second round on, while nothing was feasible."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """How the tree is grown, in training and in the bundle."""
    pruning: PruningSettings = field(default_factory=PruningSettings)
    """What counts as unsafe; the bundle has the tolerance and accounting that were best. While data is gathered, what
    the critic is unsure of is judged by its floor alone: it must be tried to be known."""
    critic: CriticSettings = field(default_factory=CriticSettings)
    """The ensemble and how it is fitted."""
    multiplier: MultiplierSettings = field(default_factory=MultiplierSettings)
    """How lambda moves while data is gathered, and when it has moved enough."""
    frontier: FrontierSettings = field(default_factory=FrontierSettings)
    """The frontier of policies that is built once the critic is there."""

    def __post_init__(self) -> None:
        for name in ("iterations", "steps_per_multiplier", "max_rounds", "confirmations"):
            expect(
                isinstance(getattr(self, name), int) and getattr(self, name) >= 1, f"{name} >= 1", getattr(self, name)
            )
        walks = isinstance(self.walk_steps, int) and self.walk_steps >= 0
        expect(walks, "walk_steps >= 0", self.walk_steps)
        expect(isinstance(self.seed, int) and self.seed >= 0, "a seed >= 0", self.seed)
        expect(self.patience >= 0, "patience >= 0", self.patience)
        expect(0 <= self.random_actions < 1, "random_actions in [0, 1)", self.random_actions)
        expect(self.evaluation_steps >= 1, "evaluation_steps >= 1", self.evaluation_steps)
        expect(self.evaluation_episodes >= 200, "evaluation_episodes >= 200", self.evaluation_episodes)
        expect(len(self.tolerances) >= 1 and min(self.tolerances) >= 0, "tolerances >= 0", self.tolerances)
        known = len(self.accountings) >= 1 and set(self.accountings) <= set(ACCOUNTINGS)
        expect(known, f"accountings out of {ACCOUNTINGS}, at least one", self.accountings)

    @classmethod
    def for_task(cls, task: Task, **changes: Any) -> TrainingSettings:
        """The defaults that suit a task, with some fields changed."""
        defaults: dict[str, Any] = {
            "iterations": task.training_iterations,
            "search": task.search,
            "pruning": task.pruning,
            # A task that asks for expected accounting is not first tried with another.
            "accountings": ACCOUNTINGS[ACCOUNTINGS.index(task.pruning.accounting) :],
        }
        return cls(**{**defaults, **changes})


def run_config(task: Task, settings: TrainingSettings) -> dict[str, Any]:
    """What the config.json of a run folder holds: the library's version, task, model and settings."""
    return {
        "library": __version__,
        "task": task.name,
        **({"source": task.source} if task.source else {}),
        "model_digest": model_digest(task.model),
        "code": code_digests(task.model),
        "budget": list(task.budget),
        "settings": asdict(settings),
    }


def task_from_config(task: Task, config: dict[str, Any]) -> Task:
    """The task with the budget that a run was begun with, which need not be the task's own."""
    return replace(task, budget=config.get("budget", task.budget))


def settings_from_config(task: Task, config: dict[str, Any], path: Path) -> TrainingSettings:
    """The settings of a run that is resumed; refuses a run of another task, of a changed model or with another budget.

    Runs of release 0.1 do not say their budget: it was the task's own.
    """
    budget = list(task.budget)
    if config.get("budget", budget) != budget:
        raise InvalidInput(f"the run {path} was begun with budget {config['budget']}, got {budget}")
    if config.get("task") != task.name or config.get("model_digest") != model_digest(task.model):
        raise InvalidInput(f"the run {path} was begun for task {config.get('task')!r} with another model")
    if config.get("library") != __version__:
        raise InvalidInput(f"the run {path} was begun with cmcts {config.get('library')}, got {__version__}")
    code = config.get("code")
    if changed := changed_code(code if isinstance(code, dict) else {}, task.model):
        raise InvalidInput(f"the run {path} was begun with another {', '.join(changed)} of the model than it has now")
    try:
        return json_settings.convert(config.get("settings"), TrainingSettings, complete=True)
    except InvalidInput as error:
        raise InvalidInput(f"the configuration of the run {path} does not fit this version: {error}") from None

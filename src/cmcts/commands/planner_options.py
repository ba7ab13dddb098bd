"""What several commands share: which task, which planner, which critic."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from tyro.conf import Positional, arg

from cmcts.errors import InvalidInput, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cmcts.critic.ensemble import SafetyCritic
    from cmcts.evaluation.blocks import KeptBlocks
    from cmcts.frontier import MixedPolicy
    from cmcts.model.interface import Model
    from cmcts.planning.agent import Agent
    from cmcts.planning.planner import Planner
    from cmcts.search.pruning import PruningSettings
    from cmcts.search.settings import SearchSettings
    from cmcts.tasks.task import Task

PlannerName = Literal["frontier", "cmcts", "cc-mcp", "threshold-uct", "penalized", "exact"]
PLANNERS: tuple[PlannerName, ...] = ("cmcts", "cc-mcp", "penalized")  # those that the demo and the benchmark compare
KeepName = Literal["mean", "chance", "episode"]


_TASKS_OWN = "(default: the task's own)"
_BEST = "(default: frontier where the critic's folder holds one, else cmcts)"


@dataclass(frozen=True)
class PlannerOptions:
    """Where to plan, with which planner, and for how long."""

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """A task's name (`cmcts tasks` lists them), or FILE.py:NAME or MODULE:NAME for one of your own."""
    planner: Annotated[
        PlannerName | None,
        arg(metavar="{frontier,cmcts,cc-mcp,threshold-uct,penalized,exact}", help_behavior_hint=_BEST),
    ] = None
    """A mixture of measured policies for this budget (frontier), the safety critic prunes (cmcts), lambda is tuned
    online (cc-mcp), curves of reward against cost (threshold-uct, one constraint), lambda is fixed (penalized), or the
    optimal policy of a finite problem is looked up (exact)."""
    iterations: Annotated[int | None, arg(metavar="N", help_behavior_hint=_TASKS_OWN)] = None
    """Simulations a decision; without them, --seconds alone sets the limit."""
    seconds: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: no limit)")] = None
    """Time limit of a decision."""
    budget: Annotated[tuple[float, ...] | None, arg(metavar="B [B ...]", help_behavior_hint=_TASKS_OWN)] = None
    """What may be spent, one number a constraint."""
    keep: Annotated[
        KeepName | None, arg(metavar="{mean,chance,episode}", help_behavior_hint="(default: the planner's)")
    ] = None
    """What the budget means: the mean cost keeps it (mean, planner frontier), that and at most a --share of the
    episodes cost more (chance, planner frontier), or every episode keeps it (episode, planner cmcts)."""
    share: Annotated[float | None, arg(metavar="DELTA", help_behavior_hint="(default: none)")] = None
    """With --keep chance: the largest share of episodes that may cost more than the budget."""
    seed: int = 0
    """Of the start or the world, and of the search."""
    critic: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: the one that ships)")] = None
    """Folder of a trained critic and frontier, or the name of one that ships, for planners frontier and cmcts. Planner
    threshold-uct takes none that is not named: a floor under what actions cost."""
    penalty: Annotated[float | None, arg(metavar="LAMBDA", help_behavior_hint=_TASKS_OWN)] = None
    """lambda, for planner penalized."""
    exploration: Annotated[float | None, arg(metavar="K", help_behavior_hint="(default: found by itself)")] = None
    """Width of the search in units of reward, for planners cmcts, cc-mcp, threshold-uct and penalized."""
    policy: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """The optimal policy that `cmcts solve TASK --policy FILE` wrote, for planner exact."""


def load_task(name: str) -> Task:
    """The task of a name or a reference; one of the user's own is tried first, for a compiled search checks nothing."""
    from cmcts.model.check import first_look
    from cmcts.tasks.registry import make

    # What a task's file prints as it is run is not the answer, which is all that standard output is for.
    with redirect_stdout(sys.stderr):
        task = make(name)
    if task.source and (faults := first_look(task.model)):
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise ModelError(f"the model of {name} cannot be planned with: {faults[0]}{more}; see cmcts check {name}")
    return task


_UNTRAINED = "prunes only what exceeds the budget at once"


class ChosenCritic(NamedTuple):
    """A critic, the settings that go with it, and where it comes from, for people to read."""

    critic: SafetyCritic
    search: SearchSettings
    pruning: PruningSettings
    trained_budget: tuple[float, ...] | None
    origin: str


def default_critic(task: Task, directory: Path | None = None) -> ChosenCritic:
    """The trained critic that is asked for, else the one that ships, else the model's own immediate costs."""
    from dataclasses import replace

    from cmcts.critic import bundle
    from cmcts.critic.ensemble import immediate_costs_only

    folder = bundle_folder(task, directory)
    if folder is not None:
        loaded = bundle.load(folder)
        origin = _origin(folder, directory)
        if loaded.nothing_feasible:
            origin = f"none was feasible when it was trained ({origin}): {_UNTRAINED}"
            origin += ", which was not found to keep the budget"
        elif loaded.critic is None:
            origin = f"none paid when it was trained ({origin}): {_UNTRAINED}"
        budget = None if loaded.critic is None else loaded.budget
        return ChosenCritic(loaded.critic_for(task.model), loaded.search, loaded.pruning, budget, origin)
    pruning = replace(task.pruning, cost_floor=True)
    return ChosenCritic(immediate_costs_only(task.model), task.search, pruning, None, f"none trained: {_UNTRAINED}")


class ChosenPlanner(NamedTuple):
    """A planner, and what to say about it."""

    planner: Planner
    note: str


class Choice(NamedTuple):
    """What the options ask for: who plays, under which budget, what that means, and what to say about it."""

    name: PlannerName
    player: Planner | MixedPolicy
    budget: tuple[float, ...]
    keep: KeepName | None  # None: this planner makes nothing of the word
    note: str

    def agent(
        self, seed: int, iterations: int | None, seconds: float | None, *, keep_tree: bool = False, workers: int = 1
    ) -> Agent:
        """An agent for one episode; of a frontier, with the column that the seed draws."""
        from cmcts.planning.agent import Agent
        from cmcts.planning.planner import Planner

        if isinstance(self.player, Planner):
            return Agent(
                self.player,
                self.budget,
                rng=seed,
                iterations=iterations,
                seconds=seconds,
                keep_tree=keep_tree,
                workers=workers,
            )
        return self.player.agent(rng=seed, iterations=iterations, seconds=seconds, keep_tree=keep_tree, workers=workers)

    def drawn(self, seed: int) -> str:
        """The column that an episode of this seed is played with; empty if there is nothing to draw."""
        from cmcts.planning.planner import Planner

        return "" if isinstance(self.player, Planner) else self.player.columns[self.player.draw(seed)].settings.name

    @property
    def planners(self) -> tuple[Planner, ...]:
        """All that may play."""
        from cmcts.planning.planner import Planner

        return (self.player,) if isinstance(self.player, Planner) else self.player.planners


def choose(task: Task, options: PlannerOptions) -> Choice:
    """Who plays, as the options say: a frontier where there is one, unless another planner or meaning is named."""
    if options.planner == "exact" or (options.policy is not None and options.planner is None):
        return _exact_choice(task, options)
    if options.policy is not None:
        raise InvalidInput(f"expected --policy with planner exact alone, got it with {options.planner}")
    folder = bundle_folder(task, options.critic)
    name = options.planner or _planner_for(options.keep, folder)
    if options.keep is not None:
        fitting = "cmcts" if options.keep == "episode" else "frontier"
        if name != fitting:
            raise InvalidInput(f"expected --keep {options.keep} with planner {fitting}, got it with {name}")
    if (options.share is not None) != (options.keep == "chance"):
        raise InvalidInput(f"expected --share DELTA with --keep chance, and only then, got {options.share}")
    if name == "frontier":
        if options.penalty is not None:
            raise InvalidInput("expected --penalty with planner penalized alone, got it with frontier")
        if options.exploration is not None:
            raise InvalidInput(
                "expected --exploration with another planner than frontier, whose columns have their own"
            )
        return _frontier_choice(task, folder, options)
    budget = task.budget if options.budget is None else options.budget
    planner, note = make_planner(task, name, options.critic, options.penalty, options.exploration)
    return Choice(name, planner, budget, "episode" if name == "cmcts" else None, note)


def _exact_choice(task: Task, options: PlannerOptions) -> Choice:
    from cmcts.exact.policy import TabularPolicy

    if options.policy is None:
        name = task.source or task.name
        raise InvalidInput(f"expected --policy FILE, which `cmcts solve {name} --policy FILE` writes, got none")
    for option in ("budget", "keep", "share", "critic", "penalty", "exploration", "iterations", "seconds"):
        if (value := getattr(options, option)) is not None:
            raise InvalidInput(
                f"expected --policy alone: the budget it was solved for is in it, got --{option} {value}"
            )
    policy = TabularPolicy.load(options.policy, task.real_model or task.model)
    note = f"exact policy: solved for a mean cost of at most {', '.join(f'{b:g}' for b in policy.budget)}"
    return Choice("exact", policy, policy.budget, "mean", note)


def _planner_for(keep: KeepName | None, folder: Path | None) -> PlannerName:
    from cmcts.critic import bundle

    if keep == "episode" or (keep is None and (folder is None or not bundle.holds_columns(folder))):
        return "cmcts"
    return "frontier"


def bundle_folder(task: Task, directory: Path | None) -> Path | None:
    """The folder of the bundle that is asked for, else of the one that ships, if there is one."""
    from cmcts.critic import bundle

    return bundle.shipped(task.name) if directory is None else bundle.find(directory)


def _origin(folder: Path, directory: Path | None) -> str:
    """Where a bundle comes from, for people to read."""
    from cmcts.critic.bundle import SHIPPED

    return "trained, ships with cmcts" if folder.parent == SHIPPED else str(directory)


def _frontier_choice(task: Task, folder: Path | None, options: PlannerOptions) -> Choice:
    import warnings

    from cmcts.critic import bundle
    from cmcts.frontier import BudgetWarning, Frontier

    if folder is None or not bundle.holds_columns(folder):
        where = f"none in {options.critic}" if options.critic else f"none that ships for {task.name}"
        raise InvalidInput(f"expected a frontier, which `cmcts train {task.source or task.name}` builds, got {where}")
    frontier = Frontier.load(folder, task.model)
    keep: Literal["mean", "chance"] = "chance" if options.keep == "chance" else "mean"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", BudgetWarning)
        policy = frontier.nearest(options.budget, keep=keep, share=options.share)
    kept = f"budget kept on average{_at_most(options.share)}"
    note = f"frontier: {_origin(folder, options.critic)}\n{kept}: {policy.describe()}"
    for warning in caught:
        note += f"\nwarning: {warning.message}"
    return Choice("frontier", policy, tuple(policy.budget.tolist()), keep, note)


def _at_most(share: float | None) -> str:
    return "" if share is None else f", at most {100 * share:g} % of the episodes over it"


def make_planner(
    task: Task,
    name: PlannerName,
    critic: Path | None = None,
    penalty: float | None = None,
    exploration: float | None = None,
) -> ChosenPlanner:
    """A planner with the task's own settings, or its critic's, but for an exploration that is named."""
    from dataclasses import replace

    from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS
    from cmcts.planning.threshold_uct import ThresholdUCT

    def wide(search: SearchSettings) -> SearchSettings:
        return search if exploration is None else replace(search, exploration=exploration)

    if critic is not None and name not in ("cmcts", "threshold-uct"):
        raise InvalidInput(f"expected --critic with planner frontier, cmcts or threshold-uct, got it with {name}")
    if penalty is not None and name != "penalized":
        raise InvalidInput(f"expected --penalty with planner penalized alone, got it with {name}")
    if name == "cmcts":
        chosen = default_critic(task, critic)
        planner: Planner = CMCTS(
            task.model, chosen.critic, wide(chosen.search), chosen.pruning, trained_budget=chosen.trained_budget
        )
        return ChosenPlanner(planner, f"critic: {chosen.origin}")
    if name == "cc-mcp":
        tuned = CCMCP(task.model, wide(task.search), task.ccmcp_settings, cost_scale=task.cost_scale or ())
        return ChosenPlanner(tuned, "lambda is tuned during the search")
    if name == "threshold-uct":
        note = "the budget is handed down curves of reward against expected cost"
        if critic is None:
            return ChosenPlanner(ThresholdUCT(task.model, wide(task.search), cost_scale=task.cost_scale or ()), note)
        floor = default_critic(task, critic)
        curved = ThresholdUCT(task.model, wide(task.search), critic=floor.critic, pruning=floor.pruning)
        return ChosenPlanner(curved, f"{note}, above what a critic expects: {floor.origin}")
    multipliers = [task.penalty if penalty is None else penalty] * task.model.cost_count
    return ChosenPlanner(PenalizedMCTS(task.model, multipliers, wide(task.search)), f"lambda is {multipliers[0]:g}")


def compile_first(task: Task, planners: Sequence[Planner], budget: tuple[float, ...]) -> None:
    """One simulation each, so that later times are those of planning alone; says what the user is waiting for."""
    from rich.console import Console

    with Console(stderr=True).status("compiling the search; later runs find it on disk"):
        for planner in planners:
            planner.plan(task.model.start_state(), budget, iterations=1)


def kept_blocks(
    folder: Path, task: Task, choice: Choice, world: str, iterations: int | None, seconds: float | None
) -> KeptBlocks:
    """A folder for the episodes of a choice, with all that they depend on besides their seed."""
    from cmcts.critic.identity import code_digests, model_digest, params_digest
    from cmcts.evaluation.blocks import KeptBlocks
    from cmcts.exact.policy import TabularPolicy
    from cmcts.version import __version__

    def described(planner: Planner) -> str:
        settings = (planner.search, planner.pruning, planner.initial_multipliers().tolist())
        if isinstance(planner, TabularPolicy):
            return f"{type(planner).__name__} {planner.digest}"
        return f"{type(planner).__name__} {settings} {params_digest(planner.critic.params)}"

    about = {
        "library": __version__,
        "task": task.name,
        "model_digest": model_digest(task.model),
        "code": code_digests(task.model),
        "world": world,
        "planner": choice.name,
        "planners": [described(planner) for planner in choice.planners],
        "note": choice.note,
        "budget": list(choice.budget),
        "iterations": iterations,
        "seconds": seconds,
    }
    return KeptBlocks(folder, about)


def numbers(model: Model, values: Sequence[float] | NDArray[np.float64], form: str = ".3f") -> str:
    """A cost-like vector for people: one number, or several with the names of what they count.

    Names are the user's, and no markup.
    """
    from rich.markup import escape

    if len(values) == 1:
        return f"{values[0]:{form}}"
    return ", ".join(f"{escape(model.cost_name(m))} {value:{form}}" for m, value in enumerate(values))

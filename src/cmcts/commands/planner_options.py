"""What several commands share: which task, which planner, which critic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from tyro.conf import Positional, arg

from cmcts.errors import InvalidInput, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cmcts.critic.ensemble import SafetyCritic
    from cmcts.model.interface import Model
    from cmcts.planning.planner import Planner
    from cmcts.search.pruning import PruningSettings
    from cmcts.search.settings import SearchSettings
    from cmcts.tasks.task import Task

PlannerName = Literal["cmcts", "cc-mcp", "penalized"]
PLANNERS: tuple[PlannerName, ...] = ("cmcts", "cc-mcp", "penalized")


_TASKS_OWN = "(default: the task's own)"


@dataclass(frozen=True)
class PlannerOptions:
    """Where to plan, with which planner, and for how long."""

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """A task's name (`cmcts tasks` lists them), or FILE.py:NAME or MODULE:NAME for one of your own."""
    planner: PlannerName = "cmcts"
    """The safety critic prunes (cmcts), lambda is tuned online (cc-mcp), or lambda is fixed (penalized)."""
    iterations: Annotated[int | None, arg(metavar="N", help_behavior_hint=_TASKS_OWN)] = None
    """Simulations a decision; without them, --seconds alone sets the limit."""
    seconds: Annotated[float | None, arg(metavar="S", help_behavior_hint="(default: no limit)")] = None
    """Time limit of a decision."""
    budget: Annotated[tuple[float, ...] | None, arg(metavar="B [B ...]", help_behavior_hint=_TASKS_OWN)] = None
    """What may be spent, one number a constraint."""
    seed: int = 0
    """Of the start or the world, and of the search."""
    critic: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: the one that ships)")] = None
    """Folder of a trained critic, or the name of one that ships, for planner cmcts."""
    penalty: Annotated[float | None, arg(metavar="LAMBDA", help_behavior_hint=_TASKS_OWN)] = None
    """lambda, for planner penalized."""


def load_task(name: str) -> Task:
    """The task of a name or a reference; one of the user's own is tried first, for a compiled search checks nothing."""
    from cmcts.model.check import first_look
    from cmcts.tasks.registry import make

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
    origin: str


def default_critic(task: Task, directory: Path | None = None) -> ChosenCritic:
    """The trained critic that is asked for, else the one that ships, else the model's own immediate costs."""
    from dataclasses import replace

    from cmcts.critic import bundle
    from cmcts.critic.ensemble import immediate_costs_only

    folder = bundle.shipped(task.name) if directory is None else bundle.find(directory)
    if folder is not None:
        loaded = bundle.load(folder)
        origin = "trained, ships with cmcts" if folder.parent == bundle.SHIPPED else str(directory)
        if loaded.critic is None:
            origin = f"none in {origin}: {_UNTRAINED}"
        return ChosenCritic(loaded.critic_for(task.model), loaded.search, loaded.pruning, origin)
    pruning = replace(task.pruning, cost_floor=True)
    return ChosenCritic(immediate_costs_only(task.model), task.search, pruning, f"none trained: {_UNTRAINED}")


class ChosenPlanner(NamedTuple):
    """A planner, and what to say about it."""

    planner: Planner
    note: str


def make_planner(
    task: Task, name: PlannerName, critic: Path | None = None, penalty: float | None = None
) -> ChosenPlanner:
    """A planner with the task's own settings."""
    from cmcts.planning.planners import CCMCP, CMCTS, PenalizedMCTS

    if critic is not None and name != "cmcts":
        raise InvalidInput(f"expected --critic with planner cmcts alone, got it with {name}")
    if penalty is not None and name != "penalized":
        raise InvalidInput(f"expected --penalty with planner penalized alone, got it with {name}")
    if name == "cmcts":
        chosen = default_critic(task, critic)
        planner: Planner = CMCTS(task.model, chosen.critic, chosen.search, chosen.pruning)
        return ChosenPlanner(planner, f"critic: {chosen.origin}")
    if name == "cc-mcp":
        tuned = CCMCP(task.model, task.search, task.ccmcp_settings, cost_scale=task.cost_scale or ())
        return ChosenPlanner(tuned, "lambda is tuned during the search")
    multipliers = [task.penalty if penalty is None else penalty] * task.model.cost_count
    return ChosenPlanner(PenalizedMCTS(task.model, multipliers, task.search), f"lambda is {multipliers[0]:g}")


def compile_first(task: Task, planner: Planner, budget: tuple[float, ...]) -> None:
    """One simulation, so that later times are those of planning alone; says what the user is waiting for."""
    from rich.console import Console

    with Console(stderr=True).status("compiling the search; later runs find it on disk"):
        planner.plan(task.model.start_state(), budget, iterations=1)


def numbers(model: Model, values: Sequence[float] | NDArray[np.float64], form: str = ".3f") -> str:
    """A cost-like vector for people: one number, or several with the names of what they count."""
    if len(values) == 1:
        return f"{values[0]:{form}}"
    return ", ".join(f"{model.cost_name(m)} {value:{form}}" for m, value in enumerate(values))

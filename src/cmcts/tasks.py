"""Tasks: named problems, each with a planning model, a training world, a real world and the settings that suit it.

>>> task = make("rocksample-7-8")
>>> task.model.action_count
13
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from cmcts.envs.rocksample import rocksample_model
from cmcts.envs.rocksample_energy import energy_model
from cmcts.envs.safe_gridworld import safe_gridworld_model
from cmcts.errors import InvalidInput, expect
from cmcts.loading import absolute, is_reference, load_made, load_registered, registered
from cmcts.model import Model
from cmcts.planning import SearchSettings
from cmcts.pruning import PruningSettings

if TYPE_CHECKING:
    import gymnasium as gym

    from cmcts.random_models import Kind

    World = gym.Env[Any, Any]  # planning alone does not import Gymnasium


@dataclass(frozen=True)
class _OwnWorld:
    """Makes the world that a model is about; a copy of a task with another model gets another one."""

    model: Model | None = None

    def __call__(self, **settings: Any) -> World:
        assert self.model is not None
        if self.model.world is not None:
            return cast("World", self.model.world(model=self.model, **settings))
        return _model_world(model=self.model, **settings)


@dataclass(frozen=True)
class Task:
    """A problem to plan in: maximise discounted reward while the discounted costs stay within `budget`."""

    name: str
    model: Model
    """What the planner simulates: fast, and possibly wrong."""
    budget: tuple[float, ...]
    """What may be spent on average, one number a constraint; a single number will do for one."""
    description: str = ""
    training_world: Callable[..., World] = field(default_factory=lambda: _OwnWorld())
    """Makes the accurate simulator that the critic is trained in; takes Gymnasium's `render_mode`."""
    real_world: Callable[..., World] = field(default_factory=lambda: _OwnWorld())
    """Makes the world that results are reported in. Without it, both worlds follow the model."""
    search: SearchSettings = field(default_factory=SearchSettings)
    pruning: PruningSettings = field(default_factory=PruningSettings)
    iterations: int = 1024
    """Simulations a decision in deployment."""
    training_iterations: int = 512
    """Simulations a decision while a critic is trained."""
    paper_exploration: float = 20.0
    """The exploration constant of the paper's own settings."""
    penalty: float = 1.0
    """A multiplier that suits `PenalizedMCTS` here."""
    real_model: Model | None = None
    """What the real world follows, where that is known: the optimum is computed from it."""
    source: str = ""
    """Where a user's task came from, as `make` was told; set by `make`."""

    def __post_init__(self) -> None:
        expect(isinstance(self.model, Model), "a Model to plan with", self.model)
        plain = isinstance(self.name, str) and re.fullmatch(r"\w[\w.+-]*", self.name) is not None
        expect(plain, "a task name of letters, digits and . _ + -", self.name)  # it names folders
        budget = self.model.validate_costs(self.budget, "budget")
        object.__setattr__(self, "budget", tuple(budget.tolist()))
        if isinstance(self.real_world, _OwnWorld) and self.real_model in (None, self.real_world.model):
            object.__setattr__(self, "real_model", self.model)
        for name in ("training_world", "real_world"):
            world = getattr(self, name)
            expect(callable(world), f"a function {name} that makes a world", world)
            if isinstance(world, _OwnWorld):
                object.__setattr__(self, name, _OwnWorld(self.model))
        expect(self.iterations >= 1, "iterations >= 1", self.iterations)

    @property
    def discount(self) -> float:
        """gamma."""
        return self.search.discount


def _rocksample_world(**settings: Any) -> World:
    from cmcts.envs.rocksample_world import RockSampleWorld

    return RockSampleWorld(**settings)


def _leaking_world(**settings: Any) -> World:
    from cmcts.envs.rocksample_leak import LeakingRockSampleWorld

    return LeakingRockSampleWorld(**settings)


def _energy_world(**settings: Any) -> World:
    from cmcts.envs.rocksample_energy_world import EnergyRockSampleWorld

    return EnergyRockSampleWorld(**settings)


def _safe_gridworld_world(**settings: Any) -> World:
    from cmcts.envs.safe_gridworld_world import SafeGridworldWorld

    return SafeGridworldWorld(**settings)


def _model_world(**settings: Any) -> World:
    from cmcts.worlds import ModelWorld

    return ModelWorld(**settings)


def rocksample_task(n: int, m: int, training_d0: float = 20.0) -> Task:
    """RockSample(n, m). With `training_d0` other than 20, planner and training world believe in a better sensor."""
    suffix = "" if training_d0 == 20.0 else f"-d{training_d0:g}"
    return Task(
        name=f"rocksample-{n}-{m}{suffix}",
        description=f"{n} x {n} grid, {m} rocks, discounted number of measurements at most 1",
        model=rocksample_model(n, m, training_d0),
        training_world=partial(_rocksample_world, n=n, m=m, d0=training_d0),
        real_world=partial(_rocksample_world, n=n, m=m),
        budget=(1.0,),
        search=SearchSettings(exploration=4.0),
        penalty=4.0,
        real_model=rocksample_model(n, m),
    )


def leaking_rocksample_task(n: int, m: int) -> Task:
    """RockSample(n, m) whose planner sees the hidden rock values: what published figures were made with."""
    from cmcts.envs.rocksample_leak import leaking_model

    honest = rocksample_task(n, m)
    return replace(
        honest,
        name=f"{honest.name}-leak",
        description=f"{honest.description}; the planner sees the hidden rock values, for comparison only",
        model=leaking_model(n, m),
        training_world=partial(_leaking_world, n=n, m=m),
        real_world=partial(_leaking_world, n=n, m=m),
        real_model=None,
    )


def energy_task(n: int, m: int) -> Task:
    """RockSample(n, m) with a second constraint, on the energy of moving."""
    model = energy_model(n, m)
    world = partial(_energy_world, n=n, m=m)
    return Task(
        name=f"rocksample-{n}-{m}-energy",
        description=f"{n} x {n} grid, {m} rocks that answer once, discounted measurements and energy at most 1 each",
        model=model,
        training_world=world,
        real_world=world,
        budget=(1.0, 1.0),  # one measurement; the straight way out, before discounting
        search=SearchSettings(exploration=4.0),
        penalty=4.0,
        real_model=model,
    )


def safe_gridworld_task() -> Task:
    """Safe Gridworld with the paper's three winds: 0 in the planner, 0.25 in training, 0.3 in reality."""
    return Task(
        name="safe-gridworld",
        description="8 x 8 grid with an unsafe wall and a wind the planner ignores, no unsafe square allowed",
        model=safe_gridworld_model(0.0),
        training_world=partial(_safe_gridworld_world, wind=0.25),
        real_world=partial(_safe_gridworld_world, wind=0.3),
        budget=(0.0,),
        search=SearchSettings(exploration=50.0, horizon=32, guarded_rollouts=True),
        paper_exploration=50.0,
        iterations=512,
        penalty=30.0,
        real_model=safe_gridworld_model(0.3),
    )


def random_task(kind: Kind, seed: int) -> Task:
    """A random problem with one constraint as a task; planner and worlds agree."""
    from cmcts.random_models import random_problem

    problem = random_problem(seed, kind)
    world = partial(_model_world, model=problem.model)
    return Task(
        name=problem.name,
        description=f"random {kind} problem number {seed}, {problem.cmdp.state_count} states",
        model=problem.model,
        training_world=world,
        real_world=world,
        budget=tuple(problem.budget.tolist()),
        search=SearchSettings(discount=problem.discount, exploration=1.0),
        real_model=problem.model,
    )


NAMES = ("rocksample-5-7", "rocksample-7-8", "rocksample-11-11", "rocksample-15-15", "safe-gridworld")


def make(name: str) -> Task:
    """A task by name: built in, registered by an installed package, or a user's own as `FILE.py:NAME` or `MODULE:NAME`.

    `rocksample-N-M` for any N and M, `random-KIND-SEED` for a small random problem. What a user's name stands for is a
    `Task`, or a function that returns one; its file is run.
    """
    if not is_reference(name):
        return named_task(name)
    return cast("Task", replace(load_made(name, (Task,)), source=absolute(name)))


def named_task(name: str) -> Task:
    """A task that is built in or registered; unlike `make`, this never runs a file that the name points at."""
    if name == "safe-gridworld":
        return safe_gridworld_task()
    match = re.fullmatch(r"rocksample-(\d{1,4})-(\d{1,4})(?:-d(\d+(?:\.\d+)?))?", name)
    if match:
        return rocksample_task(int(match[1]), int(match[2]), float(match[3] or 20.0))
    match = re.fullmatch(r"rocksample-(\d{1,4})-(\d{1,4})-leak", name)
    if match:
        return leaking_rocksample_task(int(match[1]), int(match[2]))
    match = re.fullmatch(r"rocksample-(\d{1,4})-(\d{1,4})-energy", name)
    if match:
        return energy_task(int(match[1]), int(match[2]))
    match = re.fullmatch(r"random-(dense|sparse|absorbing)-(\d{1,9})", name)
    if match:
        return random_task(cast("Kind", match[1]), int(match[2]))
    points = registered()
    if name in points:
        return cast("Task", load_registered(points[name], (Task,)))
    known = ", ".join([*NAMES, *sorted(points)])
    raise InvalidInput(
        f"expected a task: one of {known}, or rocksample-N-M[-energy], random-KIND-SEED (dense, sparse or absorbing), "
        f"FILE.py:NAME or MODULE:NAME; got {name!r}"
    )

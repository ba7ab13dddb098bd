"""A task: a planning model, a training world, a real world, a budget, and the settings that suit them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import expect
from cmcts.exact.optimum import Optimum
from cmcts.model.interface import Model
from cmcts.model.timed import with_time
from cmcts.planning.planners import CCMCPSettings
from cmcts.search.pruning import PruningSettings
from cmcts.search.settings import SearchSettings

if TYPE_CHECKING:
    import gymnasium as gym

    World = gym.Env[Any, Any]  # planning alone does not import Gymnasium


@dataclass(frozen=True)
class _OwnWorld:
    """Makes the world that a model is about; a copy of a task with another model gets another one."""

    model: Model | None = None

    def __call__(self, **settings: Any) -> World:
        from cmcts.model.worlds import world_of

        assert self.model is not None
        return world_of(self.model, **settings)


@dataclass(frozen=True)
class _TimedWorld:
    """Makes a user's world with the steps that are left in its observation."""

    make: Callable[..., World]
    steps: int

    def __call__(self, **settings: Any) -> World:
        from cmcts.model.worlds import TimedWorld

        return TimedWorld(self.make(**settings), self.steps)


@dataclass(frozen=True)
class PaperSettings:
    """What the paper's authors set by hand for one of their tasks: a row of its Table 2, and their program's search."""

    alpha0: float
    """Step size of the search for lambda."""
    epsilon: float
    """Data gathering stops once the mean cost is within this below the budget."""
    sigma_max: float
    iterations: int
    """Simulations a decision, in training."""
    exploration: float = 20.0
    directed_rollouts: bool = False
    """Follow the model's own rollout policy, instead of playing legal actions at random."""
    rollouts: int = 1
    """Rollouts a leaf."""


@dataclass(frozen=True)
class Task:
    """A problem to plan in: maximise reward while the costs stay within `budget`, each with its own discount."""

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
    """How planners search here, and with how many simulations a decision (`search.iterations`)."""
    pruning: PruningSettings = field(default_factory=PruningSettings)
    training_iterations: int = 512
    """Simulations a decision while a critic is trained."""
    penalty: float = 1.0
    """A multiplier that suits `PenalizedMCTS` here."""
    cost_scale: tuple[float, ...] | None = None
    """What counts as a large cost, one number a constraint: tolerances and the like are shares of it. Training finds
    it out by itself if it is not stated."""
    real_model: Model | None = None
    """What the real world follows, where that is known: the optimum is computed from it."""
    training_model: Model | None = None
    """What the training world follows, where that is known: a frontier is compared with its optimum."""
    optimum: Callable[[Model, Any, float], Optimum] | None = None
    """(real_model, budget, discount) to its constrained optimum, for problems that know better than to list states."""
    draw_steps: Callable[..., None] | None = None
    """(axes, states, actions, episodes): draw where planners went, on Matplotlib axes."""
    map_states: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    """(state) to [width, height, S], the states at a map's squares with all else as in `state`: where a critic can be
    drawn. Square (0, 0) is bottom left; squares that `Model.state_fault` refuses stay empty."""
    episode_steps: int | None = None
    """Episodes end after so many steps, in the worlds and for the planner: the number of steps left becomes the last
    number of every state. Discounts may then be 1."""
    paper: PaperSettings | None = None
    """The hyperparameters of the paper, for its own tasks."""
    source: str = ""
    """Where a user's task came from, as `make` was told; set by `make`."""

    def __post_init__(self) -> None:
        expect(isinstance(self.model, Model), "a Model to plan with", self.model)
        plain = isinstance(self.name, str) and re.fullmatch(r"\w[\w.+-]*", self.name) is not None
        expect(plain, "a task name of letters, digits and . _ + -", self.name)  # it names folders
        if self.episode_steps is not None:
            self._put_time_in(self.episode_steps)
        budget = self.model.validate_costs(self.budget, "budget")
        object.__setattr__(self, "budget", tuple(budget.tolist()))
        if self.cost_scale is not None:
            scale = self.model.validate_costs(self.cost_scale, "cost_scale")
            expect(bool((scale > 0).all()), "cost_scale > 0", self.cost_scale)
            object.__setattr__(self, "cost_scale", tuple(scale.tolist()))
        if isinstance(self.real_world, _OwnWorld) and self.real_model in (None, self.real_world.model):
            object.__setattr__(self, "real_model", self.model)
        if isinstance(self.training_world, _OwnWorld) and self.training_model in (None, self.training_world.model):
            object.__setattr__(self, "training_model", self.model)
        self.search.discounts_for(self.model)  # refuses what does not fit
        for name in ("training_world", "real_world"):
            world = getattr(self, name)
            expect(callable(world), f"a function {name} that makes a world", world)
            if isinstance(world, _OwnWorld):
                object.__setattr__(self, name, _OwnWorld(self.model))
        expect(self.training_iterations >= 1, "training_iterations >= 1", self.training_iterations)

    def _put_time_in(self, steps: int) -> None:
        """Let models and worlds know, and keep, the number of steps that an episode has."""
        model = self.model
        object.__setattr__(self, "model", with_time(model, steps))
        for name in ("real_model", "training_model"):
            other = getattr(self, name)
            if other is not None:
                object.__setattr__(self, name, self.model if other is model else with_time(other, steps))
        for name in ("training_world", "real_world"):
            world = getattr(self, name)
            if not isinstance(world, _OwnWorld):
                make = world.make if isinstance(world, _TimedWorld) else world
                object.__setattr__(self, name, _TimedWorld(make, steps))
        object.__setattr__(self, "optimum", None)  # what is known of endless episodes does not hold for these

    @property
    def discount(self) -> float:
        """The discount gamma of rewards, which the search settings hold."""
        return self.search.discount

    @property
    def cost_discounts(self) -> tuple[float, ...]:
        """The discount of each cost, which the search settings hold."""
        return self.search.discounts_of_costs(self.model.cost_count)

    @property
    def iterations(self) -> int:
        """Simulations a decision in deployment, which the search settings hold."""
        return self.search.iterations

    @property
    def ccmcp_settings(self) -> CCMCPSettings:
        """How CC-MCP charges here: the expected cost, or the larger of that and the paid if the world may differ."""
        return CCMCPSettings(charge="expected" if self.model_is_exact else "larger")

    @property
    def model_is_exact(self) -> bool:
        """Whether the real world is known to follow the planning model."""
        return self.real_model is self.model

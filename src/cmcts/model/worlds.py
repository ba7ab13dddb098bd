"""Models and environments as worlds: Gymnasium environments whose observation is the planner's state.

A world is where actions count. It may differ from the planner's model: give it other parameters (more wind, a worse
sensor) and the planner's model is wrong about it. `ModelWorld` follows a model's own functions; `EnvWorld` is an
environment of the user's, read as a model made by `Model.from_env` reads it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput, expect, shown
from cmcts.model.from_env import Moment, Simulator, single
from cmcts.model.interface import Model


class ModelWorld(gym.Env[NDArray[np.float64], np.int64]):
    """A world that follows a model. `info["cost"]` is a number, or a vector if there are several constraints."""

    metadata = {"render_modes": [], "render_fps": 4}  # noqa: RUF012 - Gymnasium's convention

    def __init__(self, model: Model, max_steps: int = 100, render_mode: str | None = None) -> None:
        modes = [None, *self.metadata["render_modes"]]
        expect(render_mode in modes, f"render_mode to be one of {modes}", render_mode)
        self.model = model
        self.max_steps = max_steps
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (model.state_size,), np.float64)
        self.action_space = gym.spaces.Discrete(model.action_count)
        self._step, self._start = model.uncompiled.step, model.uncompiled.start
        self._rng = np.zeros(1, np.uint64)
        self._state = np.zeros(model.state_size)
        self._next = np.zeros(model.state_size)
        self._costs = np.zeros(model.cost_count)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Go to a start state, drawn with `seed`; returns it, and an empty `info`."""
        super().reset(seed=seed)
        self._rng[0] = self.np_random.integers(0, 2**64, dtype=np.uint64)
        with np.errstate(over="ignore"):
            self._start(self.model.params, self._rng, self._state)
        self._steps = 0
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action: next state, reward, terminated, truncated, and `info["cost"]`."""
        if not self.action_space.contains(np.int64(action)):
            raise InvalidInput(f"expected an action from 0 to {self.model.action_count - 1}, got {action!r}")
        self._steps += 1
        with np.errstate(over="ignore"):
            reward, terminal = self._step(
                self.model.params, self._state, int(action), self._rng, self._next, self._costs
            )
        self._state, self._next = self._next, self._state
        truncated = self._steps >= self.max_steps and not terminal
        cost = float(self._costs[0]) if len(self._costs) == 1 else self._costs.copy()
        return self._state.copy(), float(reward), bool(terminal), truncated, {"cost": cost}


class EnvWorld(gym.Wrapper[Any, Any, Any, Any]):
    """A user's environment as a world for a model made by `Model.from_env`.

    The environment is the model's own kind, or what `factory` makes: one with other parameters, say. It must have the
    same spaces. Where the model copies environments, a plan begins with a copy of this one, so the planner then knows
    its parameters; where it reads and restores states, the planner knows the state alone.
    """

    def __init__(self, model: Model, factory: Callable[..., Any] | None = None, render_mode: str | None = None) -> None:
        if not isinstance(model.params, Simulator):
            raise InvalidInput(f"expected a model made by Model.from_env, got {model.name!r}")
        self.simulator = model.params
        make = factory or self.simulator.factory
        drawn = render_mode is not None and "render_mode" in _arguments(make)
        super().__init__(single(make(render_mode=render_mode) if drawn else make()))
        for name, ours, theirs in (
            ("observations", self.env.observation_space, self.simulator.space),
            ("actions", self.env.action_space, self.simulator.action_space),
        ):
            expect(ours == theirs, f"a world with {name} in {theirs}, as in model {model.name!r}", ours)
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (model.state_size,), np.float64)
        self.action_space = gym.spaces.Discrete(model.action_count)
        self._state = np.zeros(model.state_size)
        self._observation: Any = None
        self.simulator.hold(self)

    def held_states(self) -> NDArray[np.float64]:
        """[1, S] the state that a planner will go on from."""
        return self._state[None]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Reset the environment; returns the planner's state and the environment's `info`."""
        self._observation, info = self.env.reset(seed=seed, options=options)
        self.simulator.read(self.env, Moment(self._observation, 0.0, False, False, info), self._state)
        return self._state.copy(), info

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in the environment; five values, whatever its own convention."""
        taken = self.simulator.first_action + int(action)
        moment = Moment.from_step(self.env.step(taken))
        costs = self.simulator.costs_of(self._observation, taken, moment)
        self._observation = moment.observation
        self.simulator.read(self.env, moment, self._state)
        info = {**moment.info, "cost": float(costs[0]) if len(costs) == 1 else costs}
        return self._state.copy(), moment.reward, moment.ended, moment.truncated, info


class ObservedWorld(EnvWorld):
    """A user's environment whose state, to the planner, is the flattened observation alone, as for a learnt model."""

    def __init__(self, model: Model, factory: Callable[..., Any] | None = None, render_mode: str | None = None) -> None:
        super().__init__(model, factory, render_mode)
        space: gym.Space[Any] = gym.spaces.Box(-np.inf, np.inf, (self.simulator.observation_size,), np.float64)
        self.observation_space = space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Reset the environment."""
        row, info = super().reset(seed=seed, options=options)
        return row[: self.simulator.observation_size], info

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in the environment."""
        row, reward, terminated, truncated, info = super().step(action)
        return row[: self.simulator.observation_size], reward, terminated, truncated, info


class NumberedWorld(gym.Wrapper[Any, Any, Any, Any]):
    """The world that was tabulated, whose states it knows by their numbers; the end has the number after the last.

    It goes with a model that `Model.tabulate` made. A state that was not found then is an error.
    """

    def __init__(self, world: Any, numbers: Mapping[bytes, int]) -> None:
        super().__init__(world)
        self.numbers = numbers
        space: gym.Space[Any] = gym.spaces.Box(0.0, float(len(numbers)), (1,), np.float64)
        self.observation_space = space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Reset the world; returns the number of its state."""
        row, info = self.env.reset(seed=seed, options=options)
        return self._number(row), info

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in the world."""
        row, reward, terminated, truncated, info = self.env.step(action)
        ended = np.array([float(len(self.numbers))])
        return ended if terminated else self._number(row), float(reward), bool(terminated), bool(truncated), info

    def _number(self, row: NDArray[np.float64]) -> NDArray[np.float64]:
        number = self.numbers.get((row + 0.0).tobytes())
        if number is None:
            raise InvalidInput(
                f"expected one of the {len(self.numbers)} states that were tabulated, got {shown(row)}: more samples "
                "may find it"
            )
        return np.array([float(number)])


class TimedWorld(gym.Wrapper[Any, Any, Any, Any]):
    """Any world with the steps that are left as the last number of its observation; it ends when they are 0.

    It goes with a model that `with_time` made. A world that is cut short earlier still is; those that follow a model
    have no other limit then.
    """

    def __init__(self, world: Any, steps: int) -> None:
        super().__init__(single(world))
        self.steps, self._left = steps, 0
        if isinstance(self.unwrapped, ModelWorld):
            self.unwrapped.max_steps = steps
        shape = self.env.observation_space.shape or ()
        expect(len(shape) == 1, "a world that observes the model's state", self.env.observation_space)
        space: gym.Space[Any] = gym.spaces.Box(-np.inf, np.inf, (shape[0] + 1,), np.float64)
        self.observation_space = space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Reset the world, with all steps left."""
        state, info = self.env.reset(seed=seed, options=options)
        self._left = self.steps
        return np.append(state, float(self._left)), info

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in the world; the last step ends the episode."""
        state, reward, terminated, truncated, info = self.env.step(action)
        self._left -= 1
        terminated = bool(terminated) or self._left <= 0
        return np.append(state, float(self._left)), float(reward), terminated, bool(truncated) and not terminated, info


def world_of(model: Model, **settings: Any) -> gym.Env[Any, Any]:
    """The world that a model is about: its own, the environment it simulates, or one that follows its functions."""
    make = model.world or (EnvWorld if isinstance(model.params, Simulator) else ModelWorld)
    return cast("gym.Env[Any, Any]", make(model=model, **settings))


def _arguments(function: Callable[..., Any]) -> set[str]:
    """What a function can be called with; `**` counts as Gymnasium's own names."""
    parameters = inspect.signature(function).parameters.values()
    names = {parameter.name for parameter in parameters}
    return names | {"render_mode"} if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters) else names

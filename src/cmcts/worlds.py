"""Any model as a world: a Gymnasium environment whose observation is the model's state.

A world is where actions count. It may differ from the planner's model: give it other parameters (more wind, a worse
sensor) and the planner's model is wrong about it. Importing this module makes the paper's worlds known to Gymnasium.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cmcts.compilation import python_function
from cmcts.envs import register
from cmcts.errors import InvalidInput, expect
from cmcts.model import Model


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
        self._step = python_function(model.step)
        self._start = python_function(model.start)
        self._rng = np.zeros(1, np.uint64)
        self._state = np.zeros(model.state_size)
        self._next = np.zeros(model.state_size)
        self._costs = np.zeros(model.cost_count)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Go to a start state."""
        super().reset(seed=seed)
        self._rng[0] = self.np_random.integers(0, 2**64, dtype=np.uint64)
        with np.errstate(over="ignore"):
            self._start(self.model.params, self._rng, self._state)
        self._steps = 0
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in this world."""
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


register()

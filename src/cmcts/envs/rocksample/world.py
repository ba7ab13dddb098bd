"""RockSample as a world: the hidden rock values, and what of them shows; `model` gives the rules."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import python_function
from cmcts.envs.drawing import ROVER, Painter, SvgGrid
from cmcts.envs.rocksample.model import (
    COLLECTED,
    EAST,
    NORTH,
    SAMPLE,
    SENSE,
    SOUTH,
    WEST,
    bayes,
    rocksample_params,
    start,
)
from cmcts.errors import InvalidInput, expect

_start, _bayes = python_function(start), python_function(bayes)  # two calls a step are not worth compiling


class RockSampleWorld(gym.Env[NDArray[np.float64], np.int64]):
    """RockSample with its hidden rock values; `cmcts.envs.rocksample.model` gives the rules.

    `info["cost"]` is the step's cost. The observation is the belief that a Bayesian observer holds, computed with the
    world's own d0, and nothing else: the hidden values show only through readings and sampling rewards.
    """

    metadata = {"render_modes": ["ansi", "rgb_array", "svg"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's convention

    def __init__(
        self,
        n: int = 7,
        m: int = 8,
        d0: float = 20.0,
        layout_seed: int = 0,
        max_steps: int = 100,
        render_mode: str | None = None,
    ) -> None:
        modes = [None, *self.metadata["render_modes"]]
        expect(render_mode in modes, f"render_mode to be one of {modes}", render_mode)
        self.params = rocksample_params(n, m, d0, layout_seed)
        self.max_steps = max_steps
        self.render_mode = render_mode
        low, high = np.full(2 + m, COLLECTED), np.ones(2 + m)
        low[:2], high[:2] = 0.0, n - 1
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float64)
        self.action_space = gym.spaces.Discrete(SENSE + m)
        self._good = np.zeros(m, np.bool_)
        self._state = np.zeros(2 + m)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Draw the hidden values and go to the start."""
        super().reset(seed=seed)
        self._good = self.np_random.random(len(self._good)) < 0.5
        _start(self.params, None, self._state)
        self._steps = 0
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in the real world."""
        if not self.action_space.contains(np.int64(action)):
            raise InvalidInput(f"expected an action from 0 to {self.action_space.n - 1}, got {action!r}")  # type: ignore[attr-defined]
        self._steps += 1
        reward, terminated, cost = self._act(int(action))
        truncated = self._steps >= self.max_steps and not terminated
        return self._state.copy(), reward, terminated, truncated, {"cost": cost}

    def _act(self, action: int) -> tuple[float, bool, float]:
        state, n = self._state, self.params.n
        square = int(state[0]) * n + int(state[1])
        if action >= SENSE:
            rock = action - SENSE
            if state[2 + rock] >= 0:
                accuracy = float(self.params.accuracy[square, rock])
                correct = self.np_random.random() < accuracy
                state[2 + rock] = _bayes(state[2 + rock], accuracy, bool(self._good[rock]) == correct)
            return 0.0, False, 1.0
        if action == SAMPLE:
            rock = int(self.params.rock_at[square])
            if rock < 0 or state[2 + rock] < 0:
                return -100.0, False, 0.0
            state[2 + rock] = COLLECTED
            return (10.0 if self._good[rock] else -10.0), False, 0.0
        x = state[0] + (action == EAST) - (action == WEST)
        y = state[1] + (action == NORTH) - (action == SOUTH)
        if x >= n:
            return 10.0, True, 0.0
        if x < 0 or y < 0 or y >= n:
            return -100.0, True, 0.0
        state[:2] = x, y
        return 0.0, False, 0.0

    def render(self) -> Any:
        """The map: the rover, and each rock with its probability of being good."""
        n, state = self.params.n, self._state
        if self.render_mode == "ansi":
            cells = [["."] * n for _ in range(n)]
            for i, (x, y) in enumerate(self.params.rocks):
                cells[y][x] = "x" if state[2 + i] < 0 else f"{state[2 + i]:.2f}"
            x, y = int(state[0]), int(state[1])
            cells[y][x] = "[  ]" if cells[y][x] == "." else f"[{cells[y][x]}]"
            return "\n".join("".join(cell.center(6) for cell in row).rstrip() for row in reversed(cells))
        if self.render_mode == "rgb_array":
            painter = Painter(n, n)
            for i, (x, y) in enumerate(self.params.rocks):
                p = state[2 + i]
                if p >= 0:
                    painter.square(x, y, (int(215 - 120 * p), int(120 + 80 * p), 110), margin=6)
            painter.disc(int(state[0]), int(state[1]), ROVER)
            return painter.pixels
        if self.render_mode == "svg":
            return self._svg(int(state[0]), int(state[1]), state[2:])
        return None

    def _svg(self, x: int, y: int, beliefs: NDArray[np.float64]) -> str:
        grid = SvgGrid(self.params.n, self.params.n, "RockSample", exit_east=True)
        for i, (rock_x, rock_y) in enumerate(self.params.rocks.tolist()):
            grid.rock(rock_x, rock_y, i, float(beliefs[i]))
        grid.agent(x, y)
        for action, (dx, dy) in {NORTH: (0, 1), EAST: (1, 0), SOUTH: (0, -1), WEST: (-1, 0), SAMPLE: (0, 0)}.items():
            grid.target(action, x + dx, y + dy)
        for i, (rock_x, rock_y) in enumerate(self.params.rocks.tolist()):
            grid.target(SENSE + i, rock_x, rock_y)
        return grid.text()

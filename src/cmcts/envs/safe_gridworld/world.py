"""Safe Gridworld as a world: the model with some wind, and a picture; `model` gives the rules."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from cmcts.envs.drawing import ROVER, Painter, SvgGrid
from cmcts.envs.safe_gridworld.model import GOAL, MOVES, SIZE, UNSAFE_SQUARES, WINDY_SQUARES, safe_gridworld_model
from cmcts.model.worlds import ModelWorld


class SafeGridworldWorld(ModelWorld):
    """Safe Gridworld with the given wind; `cmcts.envs.safe_gridworld.model` gives the rules."""

    metadata = {"render_modes": ["ansi", "rgb_array", "svg"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's convention

    def __init__(self, wind: float = 0.3, max_steps: int = 100, render_mode: str | None = None) -> None:
        super().__init__(safe_gridworld_model(wind), max_steps, render_mode)
        self.observation_space = gym.spaces.Box(0.0, SIZE - 1.0, (2,), np.float64)

    def render(self) -> Any:
        """The map: A the agent, # unsafe, ~ windy, G the goal."""
        x, y = int(self._state[0]), int(self._state[1])
        if self.render_mode == "ansi":
            params = self.model.params
            rows = []
            for row in reversed(range(SIZE)):
                cells = ["#" if params.unsafe[k, row] else "~" if params.windy[k, row] else "." for k in range(SIZE)]
                if row == GOAL[1]:
                    cells[GOAL[0]] = "G"
                if row == y:
                    cells[x] = "A"
                rows.append(" ".join(cells))
            return "\n".join(rows)
        if self.render_mode == "rgb_array":
            painter = Painter(SIZE, SIZE)
            for square in WINDY_SQUARES:
                painter.square(*square, (168, 205, 224))
            for square in UNSAFE_SQUARES:
                painter.square(*square, (231, 138, 131))
            painter.square(*GOAL, (143, 188, 143))
            painter.disc(x, y, ROVER)
            return painter.pixels
        if self.render_mode == "svg":
            grid = SvgGrid(SIZE, SIZE, "Safe Gridworld")
            for square in WINDY_SQUARES:
                grid.square(*square, "wind", "wind")
            for square in UNSAFE_SQUARES:
                grid.square(*square, "danger", "unsafe")
            grid.square(*GOAL, "goal", "goal")
            grid.agent(x, y)
            for action, (dx, dy) in enumerate(MOVES):
                grid.target(action, x + dx, y + dy)
            return grid.text()
        return None

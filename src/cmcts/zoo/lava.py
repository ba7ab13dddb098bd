"""MiniGrid's LavaCrossing with slippery steps: to the other corner, past rivers of lava, seldom into them.

The environment of Chevalier-Boisvert et al. (package `minigrid`, Apache 2.0), with one of its layouts held fixed, on
slippery ground: with probability 0.1 a step forward goes to the left or to the right instead.

State         a number; behind it column, row and direction
Actions       turn left, turn right, go forward
Reward        1 at the goal
Cost          1 in the lava
End           at the goal, or in the lava
Discount      0.99
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cmcts.extras import require_extra
from cmcts.model.interface import Model
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task

NAME = "MiniGrid-LavaCrossingS9N3-v0"
LAYOUT = 3  # the seed of MiniGrid's own layout
SLIP = 0.1
ACTION_NAMES = ("turn left", "turn right", "go forward")
FORWARD = 2
BUDGET = 0.1
DISCOUNT = 0.99


class SlipperyLava(gymnasium.Env[Any, Any]):
    """MiniGrid's environment with slips and one layout; observed are column, row and direction."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's convention
    action_space = gymnasium.spaces.Discrete(len(ACTION_NAMES))
    observation_space = gymnasium.spaces.Box(0.0, 8.0, (3,), np.float64)

    def __init__(self, render_mode: str | None = None) -> None:
        require_extra("zoo", "task lava-crossing", only="minigrid")
        import minigrid  # noqa: F401 - makes itself known to Gymnasium

        self.render_mode = render_mode
        self.grid: Any = gymnasium.make(NAME, render_mode=render_mode).unwrapped
        self.grid.reset(seed=LAYOUT)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The same layout and start; only the slips depend on the seed."""
        super().reset(seed=seed)
        self.grid.reset(seed=LAYOUT)
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Turn, or go forward and perhaps slip."""
        aside = 0
        if action == FORWARD and self.np_random.random() < SLIP:
            aside = 1 if self.np_random.random() < 0.5 else -1
        return self.slide(action, aside)

    def slide(self, action: int, aside: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action, a step forward to the right (1) or to the left (-1) of where it was meant to go."""
        facing = self.grid.agent_dir
        self.grid.agent_dir = (facing + aside) % 4
        _, reward, terminated, truncated, _ = self.grid.step(action)
        if aside:
            self.grid.agent_dir = facing
        safe = float(reward) > 0.0  # MiniGrid pays less the longer it took; we discount instead
        return self._observation(), float(safe), terminated, truncated, {"cost": float(terminated and not safe)}

    def render(self) -> Any:
        """MiniGrid's own picture."""
        return self.grid.render()

    def get_state(self) -> tuple[int, ...]:
        """Column, row and direction."""
        return (*map(int, self.grid.agent_pos), int(self.grid.agent_dir))

    def set_state(self, state: Any) -> None:
        """Put it there."""
        x, y, direction = map(int, state)
        self.grid.agent_pos, self.grid.agent_dir, self.grid.step_count = (x, y), direction, 0

    def _observation(self) -> NDArray[np.float64]:
        return np.array(self.get_state(), np.float64)


@cache
def _own_world() -> SlipperyLava:
    return SlipperyLava()


def outcomes(simulator: Any, row: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that can happen, by doing it in MiniGrid; nothing need be estimated."""
    env, found = _own_world(), []
    for aside, chance in ((0, 1.0 - SLIP), (1, SLIP / 2), (-1, SLIP / 2)) if action == FORWARD else ((0, 1.0),):
        env.set_state(row[:3])
        after, reward, ended, _, info = env.slide(action, aside)
        found.append((chance, np.concatenate([after, after]), reward, [info["cost"]], ended))  # observed, then saved
    chances, rows, rewards, costs, ends = (np.array(column) for column in zip(*found, strict=True))
    return chances, rows, rewards, costs, ends


def starts(simulator: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The one start."""
    begin, _ = _own_world().reset()
    return np.ones(1), np.concatenate([begin, begin])[None]


def features(observation: NDArray[np.float64]) -> NDArray[np.float64]:
    """Column, row and direction, each as so many numbers of which one is 1."""
    x, y, direction = observation.astype(np.int64)
    return np.concatenate([np.eye(9)[x], np.eye(9)[y], np.eye(4)[direction]])


def lava_task() -> Task:
    """The corner, with a budget of deaths in the lava."""
    stepped = Model.from_env(SlipperyLava, name="lava-crossing", action_names=ACTION_NAMES, features=features)
    model = Model.tabulate(replace(stepped, outcomes=outcomes, starts=starts))
    return Task("lava-crossing", model, budget=(BUDGET,), search=SearchSettings(discount=DISCOUNT))

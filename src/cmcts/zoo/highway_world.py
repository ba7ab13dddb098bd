"""highway-env's `highway-fast-v0` as a world whose observation is what `highway.py` plans from."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from cmcts.zoo.highway import ACTION_NAMES, HEAD, LANES, OTHERS, ROW, X


class HighwayWorld(gymnasium.Env[Any, Any]):
    """The environment as it is, observed by its own `Kinematics`, with crashes, and time off the right lane, as costs.

    The driver also knows which lane he steers for and which speed he has set.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - Gymnasium's convention
    action_space = gymnasium.spaces.Discrete(len(ACTION_NAMES))
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (HEAD + ROW * (1 + OTHERS),), np.float64)

    def __init__(self, constraints: int = 1, render_mode: str | None = None) -> None:
        import highway_env  # noqa: F401 - makes itself known to Gymnasium

        self.constraints, self.render_mode = constraints, render_mode
        seen = {
            "type": "Kinematics",
            "vehicles_count": 1 + OTHERS,
            "absolute": True,
            "normalize": False,
            "see_behind": True,
        }
        config = {"observation": seen, "offscreen_rendering": True}  # a picture needs no window
        made = gymnasium.make("highway-fast-v0", config=config, render_mode=render_mode)
        self.highway: Any = made.unwrapped

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """New traffic."""
        super().reset(seed=seed)
        table, info = self.highway.reset(seed=seed)
        return self._state(table), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """A second of five frames."""
        table, reward, crashed, truncated, info = self.highway.step(int(action))
        off = float(self.highway.vehicle.lane_index[2] != LANES - 1)
        info = {**info, "cost": float(crashed) if self.constraints == 1 else np.array([float(crashed), off])}
        return self._state(table), float(reward), bool(crashed), bool(truncated), info

    def hand_over(self, speed: float) -> None:
        """Let highway-env's own driver (IDM and MOBIL) take the wheel until the next reset, whatever actions say.

        `speed` is what he would like to drive at, in m/s.
        """
        from highway_env.vehicle.behavior import IDMVehicle

        own = self.highway.vehicle
        driver = IDMVehicle.create_from(own)
        driver.target_speed = speed
        vehicles = self.highway.road.vehicles
        vehicles[vehicles.index(own)] = driver
        self.highway.vehicle = driver
        self.highway.define_spaces()  # which ties what is observed to the new driver

    def render(self) -> Any:
        """highway-env's own picture."""
        return self.highway.render()

    def close(self) -> None:
        """Close the picture."""
        self.highway.close()

    def _state(self, table: NDArray[Any]) -> NDArray[np.float64]:
        rows = np.array(table, np.float64)
        rows[rows[:, 0] > 0, X] -= rows[0, X]
        own = self.highway.vehicle
        return np.concatenate([[own.target_lane_index[2], getattr(own, "speed_index", 0)], rows.ravel()])

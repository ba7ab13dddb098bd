"""RockSample with energy as a world: `energy` gives the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.envs.rocksample.energy import UNREAD
from cmcts.envs.rocksample.model import SAMPLE, SENSE
from cmcts.envs.rocksample.world import RockSampleWorld


class EnergyRockSampleWorld(RockSampleWorld):
    """RockSample whose `info["cost"]` is (measurements, energy), and whose rocks answer once."""

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Take an action in the real world."""
        before = self._state.copy()
        _, reward, terminated, truncated, info = super().step(action)
        if action >= SENSE and before[2 + action - SENSE] != UNREAD:
            self._state = before
        energy = 1.0 / self.params.n if action < SAMPLE else 0.0
        return self._state.copy(), reward, terminated, truncated, {"cost": np.array([info["cost"], energy])}

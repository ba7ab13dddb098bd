"""The states that lie on a map's squares: what a critic can be asked about, square by square."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def grid_states(size: int, state: NDArray[np.float64]) -> NDArray[np.float64]:
    """[size, size, S] the state at every square (x, y), its first two numbers; all others as in `state`."""
    states = np.tile(state, (size, size, 1))
    states[:, :, 0], states[:, :, 1] = np.mgrid[:size, :size]
    return states

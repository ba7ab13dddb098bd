"""RockSample as published C-MCTS code plans it: the hidden rock values are part of the state. For comparison only.

The state is RockSample's belief, followed by 1 or 0 for each rock that is really good or bad. A simulated measurement
is then drawn from the real value, so that the search foresees what a measurement will say; sampling still pays what
the belief promises. No agent could have this state. The task `rocksample-N-M-leak` exists to show how much of published
figures that explains.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.envs.rocksample import model as rocksample
from cmcts.envs.rocksample.model import SENSE, RockSampleParams, bayes, rocksample_params
from cmcts.envs.rocksample.world import RockSampleWorld
from cmcts.model.interface import Model
from cmcts.random import uniform


@kernel
def start(params, rng, state):
    """RockSample's start, and hidden values by a fair coin each."""
    m = params.rocks.shape[0]
    rocksample.start(params, rng, state[: 2 + m])
    for i in range(m):
        state[2 + m + i] = 1.0 if uniform(rng) < 0.5 else 0.0


@kernel
def legal_actions(params, state, out):
    """RockSample's legal actions; the hidden values do not matter to them."""
    return rocksample.legal_actions(params, state[: 2 + params.rocks.shape[0]], out)


@kernel
def step(params, state, action, rng, next_state, costs):
    """RockSample's step, except that a measurement asks the real value."""
    m = params.rocks.shape[0]
    reward, terminal = rocksample.step(params, state[: 2 + m], action, rng, next_state[: 2 + m], costs)
    for k in range(2 + m, 2 + 2 * m):
        next_state[k] = state[k]
    if action >= SENSE and state[2 + action - SENSE] >= 0.0:
        rock = action - SENSE
        accuracy = params.accuracy[int(state[0]) * params.n + int(state[1]), rock]
        correct = uniform(rng) < accuracy
        next_state[2 + rock] = bayes(state[2 + rock], accuracy, (state[2 + m + rock] > 0.5) == correct)
    return reward, terminal


@kernel
def features(params, state, out):
    """RockSample's features, then 1 or -1 for each rock that is good or bad."""
    m = params.rocks.shape[0]
    rocksample.features(params, state[: 2 + m], out[: 2 + 2 * m])
    for i in range(m):
        out[2 + 2 * m + i] = 2.0 * state[2 + m + i] - 1.0


@kernel
def rollout_action(params, state, rng):
    """RockSample's rollout policy, which looks at the belief alone."""
    return rocksample.rollout_action(params, state[: 2 + params.rocks.shape[0]], rng)


def state_fault(params: RockSampleParams, state: NDArray[np.float64]) -> str:
    """What makes a state impossible on this map, or "" if it is possible."""
    m = len(params.rocks)
    for i, value in enumerate(state[2 + m :]):
        if value not in (0.0, 1.0):
            return f"expected the hidden value of rock {i} to be 0 or 1, got {value}"
    return rocksample.state_fault(params, state[: 2 + m])


def leaking_model(n: int, m: int, d0: float = 20.0) -> Model:
    """The planning model whose states hold what should be hidden."""
    honest = rocksample.rocksample_model(n, m, d0)
    return Model(
        name="rocksample_leak",
        params=rocksample_params(n, m, d0),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action,
        expected_costs=rocksample.expected_costs,
        state_fault=state_fault,
        state_size=2 + 2 * m,
        action_count=honest.action_count,
        feature_count=2 + 3 * m,
        action_names=honest.action_names,
        feature_description=f"{honest.feature_description}; 1 or -1 for each rock that is really good or bad",
    )


class LeakingRockSampleWorld(RockSampleWorld):
    """RockSample that tells the hidden rock values with every observation."""

    def __init__(self, n: int = 7, m: int = 8, **settings: Any) -> None:
        super().__init__(n, m, **settings)
        belief = self.observation_space
        assert isinstance(belief, gym.spaces.Box)
        low, high = np.concatenate([belief.low, np.zeros(m)]), np.concatenate([belief.high, np.ones(m)])
        self.observation_space = gym.spaces.Box(low, high, dtype=np.float64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Draw the hidden values, and tell them."""
        belief, info = super().reset(seed=seed, options=options)
        return self._told(belief), info

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """RockSample's step, with the hidden values in what is observed."""
        belief, reward, terminated, truncated, info = super().step(action)
        return self._told(belief), reward, terminated, truncated, info

    def _told(self, belief: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([belief, self._good.astype(np.float64)])

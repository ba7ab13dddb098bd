"""An environment that returns its cost as the third of six values, as Safety-Gymnasium's do.

cmcts train    examples/six_tuple.py:task --out runs/six-tuple
cmcts evaluate examples/six_tuple.py:task --critic runs/six-tuple
"""

import gymnasium
import numpy as np

import cmcts

WALK, RUN = 0, 1


class WetCorridor(gymnasium.Env):
    """Twelve metres to the door. Walking takes you one on, running two, and on wet ground running may make you slip."""

    observation_space = gymnasium.spaces.Box(0.0, 12.0, (2,), np.float64)  # where you are, how wet it is here
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.metres = 0
        return self._observation(), {}

    def step(self, action):
        slipped = action == RUN and self.np_random.random() < self._wetness()
        self.metres = min(12, self.metres + (2 if action == RUN else 1))
        home = self.metres == 12
        # observation, reward, cost, terminated, truncated, info
        return self._observation(), 10.0 if home else -1.0, float(slipped), home, False, {}

    def get_state(self):
        return self.metres

    def set_state(self, state):
        self.metres = state

    def _wetness(self):
        return 0.6 if 4 <= self.metres < 8 else 0.0

    def _observation(self):
        return np.array([self.metres, self._wetness()])


task = cmcts.Task(
    name="six-tuple",
    model=cmcts.Model.from_env(WetCorridor, action_names=("walk", "run")),
    budget=0.1,
    search=cmcts.SearchSettings(discount=0.95, horizon=15, iterations=32),
    training_iterations=32,
)

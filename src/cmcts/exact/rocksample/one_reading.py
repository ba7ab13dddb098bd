"""The most that one reading an episode can earn in RockSample.

A budget of 1 on the *mean* cost lets some episodes read twice if others do not read at all. Who keeps every episode
within it, as C-MCTS does, can read once: a second reading fits only if both wait, 0.95^13 + 0.95^15 < 1 being the
earliest, and by then most of the reward is gone. What is left to choose is where to read which rock:

    drive to the square s, t steps away
    read rock i, right with probability e, "good" with probability 1/2
        good   drive to it, sample it for 10 (2e - 1) on average, leave east
        bad    leave east

Rocks that were not read are as likely bad as good: sampling them earns nothing and takes a step.
"""

from __future__ import annotations

import numpy as np

from cmcts.envs.rocksample.model import RockSampleParams


def best_with_one_reading(params: RockSampleParams, discount: float) -> float:
    """max over s and i of that plan's mean discounted reward; or driving straight out, if that is more."""
    n = params.n
    x, y = np.divmod(np.arange(n * n), n)
    rock_x, rock_y = params.rocks.T
    arrival = (x + np.abs(y - params.start_y))[:, None]  # the reading is the action number `arrival`, from 0
    way = np.abs(x[:, None] - rock_x) + np.abs(y[:, None] - rock_y)
    sampled = arrival + 1 + way
    good = 10.0 * (2.0 * params.accuracy - 1.0) * discount**sampled + 10.0 * discount ** (sampled + n - rock_x)
    bad = 10.0 * discount ** (arrival + n - x[:, None])
    straight = 10.0 * discount ** (n - 1)
    return float(max((0.5 * (good + bad)).max(), straight))

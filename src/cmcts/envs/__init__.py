"""The paper's environments, as planning models and as Gymnasium worlds.

Gymnasium finds them by itself: `gymnasium.make("cmcts/RockSample-v0", n=7, m=8)`.
"""

from __future__ import annotations


def register() -> None:
    """Called by Gymnasium through the package's entry point."""
    import gymnasium as gym

    gym.register("cmcts/RockSample-v0", entry_point="cmcts.envs.rocksample:RockSampleWorld")
    gym.register("cmcts/SafeGridworld-v0", entry_point="cmcts.envs.safe_gridworld:SafeGridworldWorld")

"""The paper's environments, as planning models and as Gymnasium worlds.

Models plan without Gymnasium; `import cmcts.worlds` makes the worlds known to it:
`gymnasium.make("cmcts/RockSample-v0", n=7, m=8)`.

rocksample/       collect good rocks, and measure as little as allowed
safe_gridworld/   reach the far corner, past unsafe squares and a wind that the planner ignores
drawing.py        what a world renders: small pictures of grids, as pixels or as SVG
maps.py           the states that lie on a map's squares
tabular_world.py  a model of tables as a world that draws itself
charts.py         what charts of both have in common
"""

from __future__ import annotations


def register() -> None:
    """Make the worlds known to Gymnasium, once."""
    import gymnasium as gym

    worlds = {
        "cmcts/RockSample-v0": "cmcts.envs.rocksample.world:RockSampleWorld",
        "cmcts/SafeGridworld-v0": "cmcts.envs.safe_gridworld.world:SafeGridworldWorld",
    }
    for name, entry_point in worlds.items():
        if name not in gym.registry:
            gym.register(name, entry_point=entry_point)

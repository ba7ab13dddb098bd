"""RockSample(n, m) with a measurement budget.

model.py         the rules, and the planning model on beliefs
world.py         the world, which knows the hidden rocks
energy.py        with two budgets: measurements, and the energy of moving
energy_world.py  the world of that variant
leak.py          as published code plans it, hidden rocks in the state; for comparison only
chart.py         its map, with what planners did on it
"""

from cmcts.envs.rocksample.model import rocksample_model

__all__ = ["rocksample_model"]

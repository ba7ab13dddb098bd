"""Safe Gridworld: past unsafe squares to a goal, in a wind that the planner's model ignores.

model.py  the rules, and the planning model
world.py  the world: the model with some wind, and a picture
chart.py  its map, with what planners did on it
"""

from cmcts.envs.safe_gridworld.model import safe_gridworld_model

__all__ = ["safe_gridworld_model"]

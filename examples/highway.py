"""highway-env: drive fast in traffic, and seldom crash.

The environment is slow, so planners search on a model that was learnt from its own steps; the critic is trained, and
everything is judged, in the environment. Needs `pip install highway-env`.

cmcts check       examples/highway.py:slow_task --states 20
cmcts learn-model examples/highway.py:slow_task --out runs/highway-model --steps 6000
cmcts train       examples/highway.py:task --out runs/highway --frontier.columns 0
cmcts evaluate    examples/highway.py:task --critic runs/highway --seconds 0.1 --episodes 100
"""

from functools import partial

import gymnasium
import highway_env  # noqa: F401 - makes itself known to Gymnasium

import cmcts


def crashed(before, action, after, reward, terminated, info):
    return float(info["crashed"])


slow = cmcts.Model.from_env(
    partial(gymnasium.make, "highway-fast-v0"),
    costs=crashed,
    name="highway",
    action_names=("left", "idle", "right", "faster", "slower"),
)
search = cmcts.SearchSettings(horizon=15, iterations=256)
slow_task = cmcts.Task("highway-itself", slow, budget=0.05, search=search, penalty=10.0)


def task():
    learnt = cmcts.Model.learned("runs/highway-model", slow)
    return cmcts.Task("highway", learnt, budget=0.05, search=search, penalty=10.0, training_iterations=64)

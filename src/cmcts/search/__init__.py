"""The search: one tree, four phases, written once for every planner but Threshold UCT, which has its own.

tree.py           the arrays of a search tree
faults.py         what is noted when a model or a critic breaks its contract
clock.py          a clock that a search looks at itself
workspace.py      what one search writes to besides its tree, and a memo of what the critic said
values.py         leaf values in the place of rollouts
pruning.py        which actions are unsafe
rollouts.py       how a search plays on from a leaf: as the model says, thriftily, frugally
kernels.py        select, expand, backup, and the simulation that they make with a rollout
settings.py       how a tree is grown
session.py        one resumable search from Python
curves.py         concave curves of cost and reward: hulls, sums, bounds
threshold.py      the search of Threshold UCT: curves at every node, thresholds down the tree
curve_session.py  one resumable search of that kind from Python
lanes.py          many searches side by side on a GPU
"""

from cmcts.search.kernels import Rules
from cmcts.search.pruning import PruningSettings
from cmcts.search.session import SearchSession
from cmcts.search.settings import SearchSettings
from cmcts.search.tree import NO_NODE, ROOT, Tree

__all__ = ["NO_NODE", "ROOT", "PruningSettings", "Rules", "SearchSession", "SearchSettings", "Tree"]

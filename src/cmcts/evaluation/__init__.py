"""How good and how safe is a planner? Episodes in a world, and how sure their figures are.

episodes.py    episodes in lockstep, and what they say
recall.py      decisions remembered, so that states that come up again are not planned for again
blocks.py      episodes as units of work, for executors, and blocks that are kept
statistics.py  intervals for means, for rates, and for the difference of two planners
playing.py     one episode in a task's real world, step by step, with pictures
walks.py       steps that nobody planned, for a critic to learn from
tabulated.py   a planner's decisions in every state of a finite problem, evaluated exactly
"""

from cmcts.evaluation.blocks import KeptBlocks, episodes_on
from cmcts.evaluation.episodes import Episodes, Summary, Transitions, run_episodes, world_seed
from cmcts.evaluation.statistics import Interval, mean_interval, paired_difference, rate_interval, standard_error
from cmcts.evaluation.tabulated import exact_values, tabulated

__all__ = [
    "Episodes",
    "Interval",
    "KeptBlocks",
    "Summary",
    "Transitions",
    "episodes_on",
    "exact_values",
    "mean_interval",
    "paired_difference",
    "rate_interval",
    "run_episodes",
    "standard_error",
    "tabulated",
    "world_seed",
]

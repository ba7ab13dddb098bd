"""Planners: from a state and what is left of the budget to a decision.

planner.py        what every planner does: memory, time limits, batches
question.py       what a search is asked, checked, and its limits
rules.py          its settings as the numbers that the kernels read
deadlines.py      searches that end on time
planners.py       C-MCTS, CC-MCP and MCTS with a fixed penalty
threshold_uct.py  Threshold UCT
mixtures.py       root actions mixed so that the budget is met
roots.py          from the roots of finished searches to decisions
decision.py       what was decided, and why
agent.py          a planner that carries the budget through an episode
monitor.py        any policy, watched by the critic
gpu.py            which batches go to a GPU, and their decisions
parallel.py       searches side by side, in threads or processes
together.py       one decision by several searches, whose roots are added up
"""

from cmcts.planning.agent import Agent
from cmcts.planning.decision import Decision
from cmcts.planning.monitor import Intervention, SafetyMonitor
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CCMCP, CMCTS, CCMCPSettings, PenalizedMCTS
from cmcts.planning.threshold_uct import ThresholdUCT
from cmcts.search.settings import SearchSettings

__all__ = [
    "CCMCP",
    "CMCTS",
    "Agent",
    "CCMCPSettings",
    "Decision",
    "Intervention",
    "PenalizedMCTS",
    "Planner",
    "SafetyMonitor",
    "SearchSettings",
    "ThresholdUCT",
]

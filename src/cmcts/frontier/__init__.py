"""Any budget, near the optimum: policies measured in the training world, mixed so that the budget is kept on average.

A constrained MDP asks for the budget in expectation, and its optimum is a mixture of policies, each optimal for a price
of cost. So: measure policies at several prices once, let a linear program mix them for whatever budget is asked for,
draw one at the start of each episode, and keep to it.

settings.py      how many columns are tried, and on how many episodes each
mixture.py       the best mixture of measured policies within a budget, and a margin for what was not measured
policy.py        a mixture in use: an agent draws its column once
frontier.py      the columns of one problem, and the mixture for any budget
curve.py         what any budget buys, beside the optimum
ladder.py        the budgets that a frontier is built for
lessons.py       what leaf values learn from: reward and costs to go of priced planners
value_learning.py  how they are learned: fitted, and where lessons are played, again and again
measuring.py     what a column earns and pays: by its episodes, and exactly where the states can be listed
candidates.py    columns on trial: which of them can matter to any budget
confirming.py    columns on fresh worlds, until budgets like the task's are known to be kept
exact_column.py  an exact policy among the columns
generation.py    which columns: the ends, a bracket, the program's own prices, the critic's guard, and leaf values
audit.py         a finished mixture, judged by plans that no training made
"""

from cmcts.errors import BudgetWarning
from cmcts.frontier.exact_column import with_policy
from cmcts.frontier.frontier import Frontier, planner_of
from cmcts.frontier.generation import generate
from cmcts.frontier.mixture import Limits, best_mixture
from cmcts.frontier.policy import MixedPolicy
from cmcts.frontier.settings import FrontierSettings, Keep

__all__ = [
    "BudgetWarning",
    "Frontier",
    "FrontierSettings",
    "Keep",
    "Limits",
    "MixedPolicy",
    "best_mixture",
    "generate",
    "planner_of",
    "with_policy",
]

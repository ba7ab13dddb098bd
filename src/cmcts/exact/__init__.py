"""Exact solutions: what planners are measured against.

finite.py             a model as tables of states and pairs
column_generation.py  the best mixture of policies that keeps a budget
solver.py             the constrained optimum of a finite problem, and exact values of any policy
policy.py             the optimal policy as a table to act by, and as a file
optimum.py            the optimum, or proven bounds on it, as one result
expansion.py          what can happen in one state, known, read or found by stepping
listing_file.py       tables that were made once, on disk
tabulate.py           any model's reachable states, by restoring and stepping, as tables
random_problems.py    small random problems with known solutions
rocksample/           RockSample's optimum between proven bounds
"""

from cmcts.exact.finite import FiniteCMDP, enumerate_states, tabular_cmdp
from cmcts.exact.optimum import Optimum, solve_model
from cmcts.exact.policy import TabularPolicy
from cmcts.exact.random_problems import RandomProblem, random_problem
from cmcts.exact.solver import (
    Solution,
    Values,
    action_values,
    best_policy,
    evaluate,
    least_cost_to_go,
    occupation_measure,
    penalized_values,
    policy_cost_to_go,
    solve,
)

__all__ = [
    "FiniteCMDP",
    "Optimum",
    "RandomProblem",
    "Solution",
    "TabularPolicy",
    "Values",
    "action_values",
    "best_policy",
    "enumerate_states",
    "evaluate",
    "least_cost_to_go",
    "occupation_measure",
    "penalized_values",
    "policy_cost_to_go",
    "random_problem",
    "solve",
    "solve_model",
    "tabular_cmdp",
]

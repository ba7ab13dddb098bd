"""Safe planning with Monte Carlo Tree Search: as much reward as possible within a cost budget.

The way in: `make` a task, hand its model to a planner (`CMCTS`, `CCMCP`, `ThresholdUCT` or `PenalizedMCTS`), and
`plan`, or let an `Agent` carry the budget through an episode. A trained `Frontier` gives the best mixture for any
budget.
`Model` and `check_model` are for bringing a model of your own.

Planning imports neither Gymnasium nor JAX: the worlds are in `cmcts.worlds` and `cmcts.envs`, training in
`cmcts.training`.

In reading order; each leans only on those above it:

errors.py         the errors and warnings that users see
version.py        the library's version
extras.py         what a plain installation lacks
files.py          files that are whole or not there
json_settings.py  settings to and from JSON, checked by name and type
devices.py        where searches run, and why not on a GPU
compilation/      how functions run: compiled and cached, or as plain Python
random.py         streams of random numbers, always an argument
model/            what a planner simulates, and how other things become that
search/           one tree search, written once for every planner
critic/           what every action will still cost, and how sure that is
planning/         from a state and what is left of the budget to a decision
envs/             the paper's environments
exact/            exact solutions: what planners are measured against
worlds.py         the worlds, made known to Gymnasium
tasks/            named problems, each with all that belongs to it
zoo/              problems from outside, with figures that people can check
executors/        units of work: in this process, on all cores, on Ray
evaluation/       episodes in a world, and how sure their figures are
frontier/         policies measured once, and mixed for any budget
training/         a safety critic, learned offline
report/           results for people
explorer/         pages to look inside
reproduction/     every experiment of the paper
sweep/            tasks x settings x seeds, as a table
commands/         one file a command
cli.py            the command line
__main__.py       the same as `python -m cmcts`
_moved.py         paths of release 0.1, which warn and work until 0.3
"""

from cmcts import _moved
from cmcts.critic import SafetyCritic, ensemble, immediate_costs_only
from cmcts.errors import InvalidInput, ModelError
from cmcts.exact import TabularPolicy
from cmcts.explorer import explore
from cmcts.frontier import Frontier, MixedPolicy
from cmcts.model import Model, check_model, with_time
from cmcts.planning import (
    CCMCP,
    CMCTS,
    Agent,
    CCMCPSettings,
    Decision,
    Intervention,
    PenalizedMCTS,
    Planner,
    SafetyMonitor,
    ThresholdUCT,
)
from cmcts.random import stream, streams
from cmcts.search import PruningSettings, SearchSettings
from cmcts.tasks import Task, make
from cmcts.version import __version__

_moved.install()

__all__ = [
    "CCMCP",
    "CMCTS",
    "Agent",
    "CCMCPSettings",
    "Decision",
    "Frontier",
    "Intervention",
    "InvalidInput",
    "MixedPolicy",
    "Model",
    "ModelError",
    "PenalizedMCTS",
    "Planner",
    "PruningSettings",
    "SafetyCritic",
    "SafetyMonitor",
    "SearchSettings",
    "TabularPolicy",
    "Task",
    "ThresholdUCT",
    "__version__",
    "check_model",
    "ensemble",
    "explore",
    "immediate_costs_only",
    "make",
    "stream",
    "streams",
    "with_time",
]

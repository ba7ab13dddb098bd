"""Safe planning with Monte Carlo Tree Search: as much reward as possible within a cost budget.

The way in: `make` a task, hand its model to a planner (`CMCTS`, `CCMCP` or `PenalizedMCTS`), and `plan`, or let an
`Agent` carry the budget through an episode. `Model` and `check_model` are for bringing a model of your own.

Planning imports neither Gymnasium nor JAX: the worlds are in `cmcts.worlds` and `cmcts.envs`, training in
`cmcts.training`.
"""

from cmcts import _moved
from cmcts.critic import SafetyCritic, ensemble, immediate_costs_only
from cmcts.errors import InvalidInput, ModelError
from cmcts.model import Model, check_model
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
    "Intervention",
    "InvalidInput",
    "Model",
    "ModelError",
    "PenalizedMCTS",
    "Planner",
    "PruningSettings",
    "SafetyCritic",
    "SafetyMonitor",
    "SearchSettings",
    "Task",
    "__version__",
    "check_model",
    "ensemble",
    "immediate_costs_only",
    "make",
    "stream",
    "streams",
]

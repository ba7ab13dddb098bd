"""Training a safety critic, offline, in an accurate simulator. Only `loop` and what it runs need JAX.

settings.py     all that a training depends on besides the task
paper.py        the paper's own settings
run_folder.py   a training that can be killed at any moment and resumed
reporting.py    who hears of its progress
forecast.py     how long all of it takes, roughly
loop.py         gather, fit, evaluate, until it is feasible and as good as it gets
stages.py       what the stages of a training share, and that each is done once
gathering.py    data for the critics: walks and planned episodes
multipliers.py  the search for lambda while data is gathered
exploration.py  how widely the search explores
critics.py      one critic a round: fitted, read again, and how far it can be trusted
dataset.py      from transitions to what the learner sees
learning.py     temporal differences for the ensemble
fitting.py      a fit as a unit of work, for executors
judging.py      what each critic does in the training world
selection.py    which critic is kept
earlier.py      what there is already: critics, columns and exact policies as candidates
timidity.py     which harmless moves a critic refuses, and what to change
bundling.py     what a training leaves: the critic, a frontier and all they need
values.py       regression for the values at the leaves of priced searches
surrogate.py    a slow world, learnt from its own steps
"""

from typing import TYPE_CHECKING, Any

from cmcts.random import stage_seed
from cmcts.training.paper import paper_settings
from cmcts.training.reporting import Reporter, Silence
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import CriticSettings, TrainingSettings, run_config

if TYPE_CHECKING:
    from cmcts.training.loop import Outcome, train

__all__ = [
    "CriticSettings",
    "Outcome",
    "Reporter",
    "RunFolder",
    "Silence",
    "TrainingSettings",
    "paper_settings",
    "run_config",
    "stage_seed",
    "train",
]

_WITH_JAX = ("Outcome", "train")


def __getattr__(name: str) -> Any:
    """Names of `loop` come with JAX, which is imported when one of them is asked for."""
    if name in _WITH_JAX:
        from cmcts.extras import require_extra

        require_extra("train", f"cmcts.training.{name}")
        from cmcts.training import loop

        return getattr(loop, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

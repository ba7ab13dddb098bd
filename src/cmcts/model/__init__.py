"""Models: constrained Markov decision processes that a planner can simulate.

interface.py  the handful of functions that a model is made of
agreement.py  whether a model does what it says
check.py      everything that is wrong with a model
tabular.py    tables as a model
tables.py     every outcome of every action in a table, as a model
timed.py      the steps that are left as part of the state
content.py    what an environment is made of, told apart by a digest
surrogate.py  a world that was learnt, as a model
snapshots.py  an environment's state as a few numbers
from_env.py   a Gymnasium environment as a model
check_env.py  whether an environment comes back to a state
worlds.py     a model, or a user's environment, as a world where actions count
"""

from cmcts.model.check import check_model
from cmcts.model.interface import EnvOptions, Model
from cmcts.model.tabular import TabularParams, tabular_model
from cmcts.model.timed import with_time

__all__ = ["EnvOptions", "Model", "TabularParams", "check_model", "tabular_model", "with_time"]

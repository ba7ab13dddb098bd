"""Who does the work: units in this process, on all its cores, or on a Ray cluster, with the same results.

units.py     what a unit of work is, and the one interface of all that do them
tally.py     what a person who watches wants to know: done, running, retried, how long still
here.py      in this process, one unit after the other
together.py  several jobs that are made of units, side by side
sources.py   users' own modules, as one file that other machines can import
worker.py    what a Ray worker does with a unit
on_ray.py    on a Ray cluster, where faults are normal
"""

from cmcts.executors.here import Here
from cmcts.executors.on_ray import Ray
from cmcts.executors.tally import Tally
from cmcts.executors.together import together
from cmcts.executors.units import Executor, UnitFailed, Work

__all__ = ["Executor", "Here", "Ray", "Tally", "UnitFailed", "Work", "together"]

"""Tasks: named problems, each with a planning model, a training world, a real world and the settings that suit it.

task.py        what a task is
built_in.py    the paper's tasks, variants of them, and random problems
references.py  users' tasks from files, modules and installed packages
registry.py    any task by its name
check.py       what is wrong with a task's worlds
optimum.py     how well a task can be done at all
"""

from cmcts.tasks.built_in import (
    energy_task,
    leaking_rocksample_task,
    random_task,
    rocksample_task,
    safe_gridworld_task,
)
from cmcts.tasks.check import check_worlds
from cmcts.tasks.optimum import optimum, solve_task
from cmcts.tasks.registry import NAMES, make, named_task
from cmcts.tasks.task import PaperSettings, Task

__all__ = [
    "NAMES",
    "PaperSettings",
    "Task",
    "check_worlds",
    "energy_task",
    "leaking_rocksample_task",
    "make",
    "named_task",
    "optimum",
    "random_task",
    "rocksample_task",
    "safe_gridworld_task",
    "solve_task",
]

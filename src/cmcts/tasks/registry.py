"""Tasks by name: built in, of the zoo, registered by an installed package, or a user's own.

>>> task = make("rocksample-7-8")
>>> task.model.action_count
13
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

from cmcts.errors import InvalidInput, near
from cmcts.exact.random_problems import Kind
from cmcts.model.interface import Model
from cmcts.tasks.built_in import energy_task, leaking_rocksample_task, random_task, rocksample_task, safe_gridworld_task
from cmcts.tasks.references import absolute, is_reference, load_made, load_registered, registered
from cmcts.tasks.task import Task

NAMES = ("rocksample-5-7", "rocksample-7-8", "rocksample-11-11", "rocksample-15-15", "safe-gridworld")


def make(name: str) -> Task:
    """A task by name: built in, of the zoo, registered by an installed package, or a user's own as `FILE.py:NAME` or
    `MODULE:NAME`.

    `rocksample-N-M` for any N and M, `random-KIND-SEED` for a small random problem, and
    `random-KIND-SEED-STATES-ACTIONS-CONSTRAINTS` for a larger one. What a user's name stands for is a `Task`, or a
    function that returns one; its file is run.
    """
    if not is_reference(name):
        return named_task(name)
    return cast("Task", replace(load_made(name, (Task,)), source=absolute(name)))


def named_task(name: str) -> Task:
    """A task that is built in, of the zoo or registered; unlike `make`, this never runs a file that is named."""
    if name == "safe-gridworld":
        return safe_gridworld_task()
    match = re.fullmatch(r"rocksample-(\d{1,4})-(\d{1,4})(?:-d(\d+(?:\.\d+)?))?", name)
    if match:
        return rocksample_task(int(match[1]), int(match[2]), float(match[3] or 20.0))
    match = re.fullmatch(r"rocksample-(\d{1,4})-(\d{1,4})-leak", name)
    if match:
        return leaking_rocksample_task(int(match[1]), int(match[2]))
    match = re.fullmatch(r"rocksample-(\d{1,4})-(\d{1,4})-energy", name)
    if match:
        return energy_task(int(match[1]), int(match[2]))
    match = re.fullmatch(r"random-(dense|sparse|absorbing)-(\d{1,9})(?:-(\d{1,3})-(\d{1,2})-(\d))?", name)
    if match:
        shape = tuple(int(size) for size in match.groups()[2:] if size is not None)
        return random_task(cast("Kind", match[1]), int(match[2]), *shape)
    from cmcts.zoo import PROBLEMS, SERIES, zoo_task  # imported when one of its problems may be meant

    found = zoo_task(name)
    if found is not None:
        return found
    points = registered()
    if name in points:
        return cast("Task", load_registered(points[name], (Task,)))
    known = ", ".join([*NAMES, *PROBLEMS, *SERIES, *sorted(points)])
    raise InvalidInput(
        f"expected a task: one of {known}, or rocksample-N-M[-energy], random-KIND-SEED (dense, sparse or absorbing), "
        f"FILE.py:NAME or MODULE:NAME{near(name, [*NAMES, *PROBLEMS, *points])}; got {name!r}"
    )


def model_of(task: str) -> Model:
    """The planning model of a bundle's task, which must be one that is known by name.

    A bundle may come from anywhere: it does not get to say which file is run.
    """
    try:
        return named_task(task).model
    except InvalidInput as error:
        raise InvalidInput(f"expected the model of task {task!r} as an argument, got none: {error}") from None

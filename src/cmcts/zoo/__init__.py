"""The zoo: problems from outside, each a task that every command takes by name, with figures that people can check.

icu_sepsis.py   sepsis in intensive care: survival against doses, from hospital records
queue.py        a queue with two service speeds: customers against energy
inventory.py    stock of one article: cheap shelves against lost sales
traps.py        gold and traps on the maps of the Threshold UCT benchmark
trap_ways.py    the way to each piece of gold at a price: what rollouts follow there
trap_world.py   the same as a world that draws itself
maps/           these maps, and their licence
taxi.py         Gymnasium's Taxi with flooded squares
frozen_lake.py  Gymnasium's FrozenLake as it is
lava.py         MiniGrid's LavaCrossing on slippery ground
highway.py      highway-env's traffic: a compiled model to plan with
highway_world.py  the environment itself as the world
baselines.py    what people of the trade do, as policies
"""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from cmcts.tasks.task import Task


class Problem(NamedTuple):
    """Where a task is made, as `module:function` of this package, and what it is about."""

    maker: str
    description: str


# A problem is imported when it is asked for: some bring packages and data of their own.
PROBLEMS = {
    "icu-sepsis": Problem(
        "icu_sepsis:fluids_task", "713 states of a patient, from hospital records: survival, with fluids at most 1.864"
    ),
    "icu-sepsis-two": Problem("icu_sepsis:two_doses_task", "the same, and vasopressors at most 0.1"),
    "queue": Problem("queue:queue_task", "a queue with two service speeds: customers, with energy at most 5"),
    "queue-two": Problem("queue:peak_task", "the same, and energy of the morning at most 1"),
    "inventory": Problem("inventory:lost_sales_task", "one article in stock: cheap shelves, with lost sales at most 3"),
    "inventory-two": Problem("inventory:orders_task", "the same, and orders at most 9"),
    "taxi": Problem("taxi:taxi_task", "Gymnasium's Taxi, with flooded squares at most 0.5"),
    "frozen-lake": Problem("frozen_lake:frozen_lake_task", "Gymnasium's FrozenLake of 8 x 8, with falls at most 0.01"),
    "lava-crossing": Problem("lava:lava_task", "MiniGrid's LavaCrossing on slippery ground, with deaths at most 0.1"),
    "highway": Problem("highway:highway_task", "half a minute in highway-env's traffic, with crashes at most 0.01"),
    "highway-two": Problem("highway:right_lane_task", "the same, and seconds off the right lane at most 10"),
}


# The same for problems of which there are many: their makers take the number that stands for K.
SERIES = {
    "avoid-K": Problem("traps:avoid_task", "map K, 1 to 143: gold in 100 steps, with deaths by traps at most 0.15"),
    "soft-avoid-K": Problem("traps:soft_avoid_task", "the same with traps that only cost, 0.2 each, at most 0.15"),
}


def zoo_task(name: str) -> Task | None:
    """The problem of this name, made now; None if there is none."""
    series = re.fullmatch(r"(.+)-(\d{1,6})", name)
    if name in PROBLEMS:
        return _made(PROBLEMS[name])
    if series and f"{series[1]}-K" in SERIES:
        return _made(SERIES[f"{series[1]}-K"], int(series[2]))
    return None


def _made(problem: Problem, *number: int) -> Task:
    module, _, function = problem.maker.partition(":")
    made = getattr(import_module(f"{__name__}.{module}"), function)(*number)
    return cast("Task", replace(made, description=problem.description))

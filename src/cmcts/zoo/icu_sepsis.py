"""ICU-Sepsis: treat a patient who has sepsis, so that most survive, with as little fluid as allowed.

The environment of Choudhary, Gupta and Thomas (2024, package `icu-sepsis`, MIT): clusters of what was measured in
patients of intensive care (MIMIC-III), and how often one led to another under each treatment. We read its tables and
leave its Gymnasium class alone. Its authors say that it is for research and not for medical practice. So do we.

States        713 clusters of patients; features: the cluster's centre, 47 measurements, standardised
Actions       25: a level of intravenous fluid and a level of vasopressor, 0 to 4 each, numbered 5 fluid + vasopressor;
              legal are those that were given often enough in that state to be estimated, mostly one to four
Reward        1 for a patient who survives
Costs         the fluid level / 4 a step; in the second task also the vasopressor level / 4
End           survival or death
Start         patients as they came in
Discount      0.99
"""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.exact.finite import enumerate_states
from cmcts.exact.policy import TabularPolicy
from cmcts.extras import require_extra
from cmcts.model.interface import Model
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task

LEVELS = 5
DEATH = 713  # this state and those after it are ends
DISCOUNT = 0.99
# A quarter of the way from the least fluid that anybody can give (1.172) to what the best treatment gives if it may
# (3.940), and less than half of what clinicians give (3.835).
FLUID_BUDGET = 1.864
VASOPRESSOR_BUDGET = 0.1  # clinicians give 0.313

Floats = NDArray[np.float64]


class Records(NamedTuple):
    """The package's tables: S = 716 states with the three ends, A = 25 treatments."""

    transitions: Floats  # [S, A, S]
    rewards: Floats  # [S, A, S]
    start: Floats  # [S]
    admissible: NDArray[np.bool_]  # [S, A]
    clinicians: Floats  # [S, A] probabilities
    centres: Floats  # [S, 47]


def records() -> Records:
    """Read the tables of the installed package, without importing it: it would bring two Gyms and Pandas along."""
    require_extra("zoo", "task icu-sepsis", only="icu_sepsis")
    folder = Path(str(distribution("icu-sepsis").locate_file("icu_sepsis/envs/assets")))
    with np.load(folder / "dynamics.npz", allow_pickle=False) as file:
        transitions, rewards, start, clinicians, centres = (
            file[name] for name in ("tx_mat", "r_mat", "d_0", "expert_policy", "state_cluster_centers")
        )
    admissible = np.zeros(clinicians.shape, np.bool_)
    _, *rows = (folder / "admissible_actions.txt").read_text().splitlines()  # the first says how many each has
    for state, row in enumerate(rows):
        admissible[state, [int(action) for action in row.split()]] = True
    return Records(transitions, rewards, start, admissible, clinicians, centres)


def fluids_task() -> Task:
    """Survival with a budget of fluids."""
    return _task("icu-sepsis", ("fluid",), (FLUID_BUDGET,))


def two_doses_task() -> Task:
    """Survival with a budget of fluids and one of vasopressors."""
    return _task("icu-sepsis-two", ("fluid", "vasopressor"), (FLUID_BUDGET, VASOPRESSOR_BUDGET))


def clinicians(task: Task) -> TabularPolicy:
    """What clinicians did in each state, as a planner for either task; its `reward` and `costs` are exact.

    The records' estimate, without what was done too seldom in a state for its consequences to be known.
    """
    cmdp = enumerate_states(task.model, task.discount)
    seen = records()
    chances = np.where(seen.admissible, seen.clinicians, 0.0)[cmdp.states[:, 0].astype(np.int64)]
    return TabularPolicy.playing(cmdp, chances / chances.sum(axis=1, keepdims=True), task.model)


def _task(name: str, doses: tuple[str, ...], budget: tuple[float, ...]) -> Task:
    seen = records()
    states, actions = seen.admissible.shape
    levels = np.stack(np.divmod(np.arange(actions), LEVELS), axis=-1)  # [A, 2] fluid, vasopressor
    costs = np.broadcast_to(levels[:, : len(doses)] / (LEVELS - 1), (states, actions, len(doses)))
    model = Model.from_tables(
        seen.transitions,
        seen.rewards,
        costs,
        start=seen.start,
        terminal=np.arange(states) >= DEATH,
        legal=seen.admissible,
        features=seen.centres,
        name=name,
        action_names=tuple(f"fluid {fluid}, vasopressor {vasopressor}" for fluid, vasopressor in levels),
        cost_names=doses,
    )
    return Task(name=name, model=model, budget=budget, search=SearchSettings(discount=DISCOUNT))

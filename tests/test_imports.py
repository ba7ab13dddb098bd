"""Planning stays light: what a fresh process loads, and how the worlds are found on demand."""

from __future__ import annotations

import subprocess
import sys

# Numba itself looks at SciPy and its linear algebra; what we import of it comes later, if at all.
HEAVY = (
    "gymnasium",
    "jax",
    "matplotlib",
    "optax",
    "equinox",
    "rich",
    "tyro",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
)

PLAN = """
import sys
import cmcts

task = cmcts.make("rocksample-5-7")
planner = cmcts.CMCTS(task.model, cmcts.immediate_costs_only(task.model), task.search, task.pruning)
print(planner.plan(task.model.start_state(), task.budget, iterations=8).iterations)
print([name for name in {heavy!r} if name in sys.modules])
"""

WORLDS = """
import gymnasium
import cmcts.worlds

world = gymnasium.make("cmcts/RockSample-v0", n=5, m=7)
print(world.reset(seed=0)[0].shape, gymnasium.make("cmcts/SafeGridworld-v0").action_space.n)
"""


# Numba looks at SciPy wherever it is installed: `numba/__init__.py` at its version, `numba.np.arraymath` for BLAS. A
# machine without it, which this process pretends to be, plans all the same.
DEPLOY = """
import sys
sys.modules["scipy"] = None
import cmcts

planner = cmcts.CMCTS.load("rocksample-5-7")
planner.warm_up()
print(planner.plan(planner.model.start_state(), 1.0, iterations=8).iterations)
print([name for name in {heavy!r} if sys.modules.get(name)])
"""


def output_of(code):
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    return run.stdout.splitlines()


def test_planning_imports_nothing_heavy():
    assert output_of(PLAN.format(heavy=HEAVY)) == ["8", "[]"]


def test_a_bundle_plans_where_scipy_is_not_installed():
    heavy = ("jax", "matplotlib", "gymnasium", "scipy", *HEAVY)
    assert output_of(DEPLOY.format(heavy=heavy)) == ["8", "[]"]


def test_worlds_are_known_to_gymnasium_by_name():
    assert output_of(WORLDS) == ["(9,) 9"]

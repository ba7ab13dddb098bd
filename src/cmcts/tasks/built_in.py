"""The tasks that come with the library: the paper's, variants of them, and random problems."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cmcts.envs.maps import grid_states
from cmcts.envs.rocksample.energy import energy_model
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.envs.safe_gridworld.model import SIZE, safe_gridworld_model
from cmcts.exact.random_problems import Kind, random_problem
from cmcts.exact.rocksample.optimum import rocksample_optimum
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import PaperSettings, Task

if TYPE_CHECKING:
    from cmcts.tasks.task import World

# The paper names hyperparameters for three maps; other maps take those of the largest.
_PAPER_ROCKSAMPLE = {
    (5, 7): PaperSettings(alpha0=8.0, epsilon=0.1, sigma_max=0.5, iterations=1024),
    (7, 8): PaperSettings(alpha0=4.0, epsilon=0.1, sigma_max=0.5, iterations=1024),
}
_PAPER_LARGE_MAP = PaperSettings(alpha0=12.0, epsilon=0.1, sigma_max=0.5, iterations=512)


# Worlds are made on demand: planning alone does not import Gymnasium.
def _rocksample_world(**settings: Any) -> World:
    from cmcts.envs.rocksample.world import RockSampleWorld

    return RockSampleWorld(**settings)


def _leaking_world(**settings: Any) -> World:
    from cmcts.envs.rocksample.leak import LeakingRockSampleWorld

    return LeakingRockSampleWorld(**settings)


def _energy_world(**settings: Any) -> World:
    from cmcts.envs.rocksample.energy_world import EnergyRockSampleWorld

    return EnergyRockSampleWorld(**settings)


def _safe_gridworld_world(**settings: Any) -> World:
    from cmcts.envs.safe_gridworld.world import SafeGridworldWorld

    return SafeGridworldWorld(**settings)


def _tabular_world(**settings: Any) -> World:
    from cmcts.envs.tabular_world import TabularWorld

    return TabularWorld(**settings)


def _draw_rocksample(*arguments: Any, **settings: Any) -> None:
    from cmcts.envs.rocksample.chart import draw_steps

    draw_steps(*arguments, **settings)


def _draw_safe_gridworld(*arguments: Any, **settings: Any) -> None:
    from cmcts.envs.safe_gridworld.chart import draw_steps

    draw_steps(*arguments, **settings)


def rocksample_task(n: int, m: int, training_d0: float = 20.0) -> Task:
    """RockSample(n, m). With `training_d0` other than 20, planner and training world believe in a better sensor."""
    suffix = "" if training_d0 == 20.0 else f"-d{training_d0:g}"
    model = rocksample_model(n, m, training_d0)
    return Task(
        name=f"rocksample-{n}-{m}{suffix}",
        description=f"{n} x {n} grid, {m} rocks, discounted number of measurements at most 1",
        model=model,
        training_world=partial(_rocksample_world, n=n, m=m, d0=training_d0),
        real_world=partial(_rocksample_world, n=n, m=m),
        budget=(1.0,),
        penalty=4.0,
        cost_scale=(1.0,),
        real_model=model if training_d0 == 20.0 else rocksample_model(n, m),
        training_model=model,
        optimum=rocksample_optimum,
        draw_steps=partial(_draw_rocksample, model.params),
        map_states=partial(grid_states, n),
        paper=_PAPER_ROCKSAMPLE.get((n, m), _PAPER_LARGE_MAP),
    )


def leaking_rocksample_task(n: int, m: int) -> Task:
    """RockSample(n, m) whose planner sees the hidden rock values: what published figures were made with."""
    from cmcts.envs.rocksample.leak import leaking_model

    honest = rocksample_task(n, m)
    return replace(
        honest,
        name=f"{honest.name}-leak",
        description=f"{honest.description}; the planner sees the hidden rock values, for comparison only",
        model=leaking_model(n, m),
        training_world=partial(_leaking_world, n=n, m=m),
        real_world=partial(_leaking_world, n=n, m=m),
        real_model=None,
        training_model=None,
        optimum=None,
    )


def energy_task(n: int, m: int) -> Task:
    """RockSample(n, m) with a second constraint, on the energy of moving."""
    model = energy_model(n, m)
    world = partial(_energy_world, n=n, m=m)
    return Task(
        name=f"rocksample-{n}-{m}-energy",
        description=f"{n} x {n} grid, {m} rocks that answer once, discounted measurements and energy at most 1 each",
        model=model,
        training_world=world,
        real_world=world,
        budget=(1.0, 1.0),  # one measurement; the straight way out, before discounting
        penalty=4.0,
        cost_scale=(1.0, 1.0),
        real_model=model,
        training_model=model,
        draw_steps=partial(_draw_rocksample, model.params),
        map_states=partial(grid_states, n),
        paper=_PAPER_LARGE_MAP,
    )


def safe_gridworld_task() -> Task:
    """Safe Gridworld with the paper's three winds: 0 in the planner, 0.25 in training, 0.3 in reality."""
    return Task(
        name="safe-gridworld",
        description="8 x 8 grid with an unsafe wall and a wind the planner ignores, no unsafe square allowed",
        model=safe_gridworld_model(0.0),
        training_world=partial(_safe_gridworld_world, wind=0.25),
        real_world=partial(_safe_gridworld_world, wind=0.3),
        budget=(0.0,),
        search=SearchSettings(horizon=32, guarded_rollouts=True),
        penalty=30.0,
        cost_scale=(1.0,),
        real_model=safe_gridworld_model(0.3),
        training_model=safe_gridworld_model(0.25),
        draw_steps=_draw_safe_gridworld,
        map_states=partial(grid_states, SIZE),
        paper=PaperSettings(
            alpha0=10.0,
            epsilon=0.1,
            sigma_max=0.2,
            iterations=512,
            exploration=50.0,
            directed_rollouts=True,
            rollouts=10,
        ),
    )


def random_task(kind: Kind, seed: int, states: int = 8, actions: int = 3, constraints: int = 1) -> Task:
    """A random problem as a task; planner and worlds agree."""
    problem = random_problem(seed, kind, states, actions, constraints)
    return Task(
        name=problem.name,
        description=f"random {kind} problem number {seed}, {problem.cmdp.state_count} states",
        model=replace(problem.model, world=_tabular_world),
        budget=tuple(problem.budget.tolist()),
        search=SearchSettings(discount=problem.discount),
    )

"""One episode in a task's real world, step by step, with pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cmcts.planning.agent import Agent
    from cmcts.planning.decision import Decision
    from cmcts.tasks.task import Task, World


@dataclass(frozen=True, eq=False)
class Step:
    """One real step of an episode, with the running sums after it."""

    decision: Decision
    reward: float
    costs: NDArray[np.float64]  # [M]
    discounted_reward: float
    discounted_costs: NDArray[np.float64]  # [M]
    budget_left: NDArray[np.float64]  # [M] in discounted units of the next step
    picture: str  # the world after the step
    terminated: bool


def drawn_world(task: Task) -> World:
    """The real world, drawing itself as text if it can."""
    world = task.real_world()
    return task.real_world(render_mode="ansi") if "ansi" in world.metadata.get("render_modes", []) else world


def picture(world: World, state: NDArray[np.float64]) -> str:
    """The world as text, or its state if it cannot draw itself."""
    return str(world.render()) if world.render_mode == "ansi" else f"state {state.round(3).tolist()}"


def first_picture(task: Task, seed: int) -> str:
    """The real world before the first step of that seed's episode."""
    world = drawn_world(task)
    return picture(world, world.reset(seed=seed)[0])


def play_episode(task: Task, agent: Agent, *, seed: int) -> Iterator[Step]:
    """One episode in the real world, step by step."""
    import numpy as np

    world = drawn_world(task)
    state, _ = world.reset(seed=seed)
    total, spent, scale, cost_scales = 0.0, np.zeros(task.model.cost_count), 1.0, np.ones(task.model.cost_count)
    over = False
    while not over:
        decision = agent.act(state)
        state, reward, terminated, truncated, info = world.step(decision.action)
        costs = np.atleast_1d(np.asarray(info["cost"], np.float64))
        left = agent.observe(costs)
        total += scale * float(reward)
        spent = spent + cost_scales * costs
        scale, cost_scales = scale * agent.planner.search.discount, cost_scales * agent.planner.cost_discounts
        over = terminated or truncated
        yield Step(decision, float(reward), costs, total, spent, left, picture(world, state), terminated)

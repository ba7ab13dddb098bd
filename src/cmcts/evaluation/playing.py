"""One episode in a task's real world, step by step, with pictures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.errors import InvalidInput
from cmcts.planning.agent import Agent
from cmcts.planning.decision import Decision
from cmcts.planning.monitor import SafetyMonitor

if TYPE_CHECKING:
    from cmcts.tasks.task import Task, World


class Picture(NamedTuple):
    """A world as it draws itself, or the numbers of its state if it does not."""

    mode: Literal["svg", "rgb_array", "ansi", "state"]
    content: Any  # text, or pixels [height, width, 3] of an rgb_array


@dataclass(frozen=True, eq=False)
class Step:
    """One real step of an episode, with the running sums after it."""

    decision: Decision
    reward: float
    costs: NDArray[np.float64]  # [M]
    discounted_reward: float
    discounted_costs: NDArray[np.float64]  # [M]
    budget_left: NDArray[np.float64]  # [M] in discounted units of the next step
    picture: Picture  # the world after the step
    terminated: bool


def drawn_world(task: Task, modes: Sequence[str] = ("ansi",)) -> World:
    """The real world, drawing itself by the first of these of Gymnasium's render modes that it can, if any."""
    world = task.real_world()
    for mode in modes:
        if mode in world.metadata.get("render_modes", []):
            drawn = task.real_world(render_mode=mode)
            if _draws(drawn):
                return drawn
    return world


def _draws(world: World) -> bool:
    """Whether all is installed that drawing takes: Gymnasium's own worlds need another package for pixels."""
    from gymnasium.error import DependencyNotInstalled

    world.reset(seed=0)
    try:
        world.render()
    except DependencyNotInstalled:
        return False
    return True


def picture(world: World, state: NDArray[np.float64]) -> Picture:
    """The world as it is drawn, or its state if it cannot draw itself."""
    mode: Any = world.render_mode
    if mode is None:
        return Picture("state", f"state {np.asarray(state).round(3).tolist()}")
    return Picture(mode, world.render() if mode == "rgb_array" else str(world.render()))


def first_picture(task: Task, seed: int, modes: Sequence[str] = ("ansi",)) -> Picture:
    """The real world before the first step of that seed's episode."""
    world = drawn_world(task, modes)
    return picture(world, world.reset(seed=seed)[0])


def play_episode(
    task: Task,
    player: Agent | SafetyMonitor,
    *,
    seed: int,
    modes: Sequence[str] = ("ansi",),
    forced: Mapping[int, int] | None = None,
) -> Iterator[Step]:
    """One episode in the real world, step by step; `forced` says which steps take another action than is decided."""
    world = drawn_world(task, modes)
    state, _ = world.reset(seed=seed)
    total, spent, scale, cost_scales = 0.0, np.zeros(task.model.cost_count), 1.0, np.ones(task.model.cost_count)
    number, over = 0, False
    while not over:
        player.act(state)
        decision = player.decision
        assert decision is not None
        if forced and number in forced:
            decision = _force(player, decision, forced[number])
        state, reward, terminated, truncated, info = world.step(decision.action)
        costs = np.atleast_1d(np.asarray(info["cost"], np.float64))
        left = player.observe(costs)
        if isinstance(player, Agent) and not terminated:
            left = player.arrive(state)
        total += scale * float(reward)
        spent = spent + cost_scales * costs
        scale, cost_scales = scale * player.planner.search.discount, cost_scales * player.planner.cost_discounts
        number, over = number + 1, terminated or truncated
        yield Step(decision, float(reward), costs, total, spent, left, picture(world, state), terminated)


def _force(player: Agent | SafetyMonitor, decision: Decision, action: int) -> Decision:
    legal = np.flatnonzero(decision.legal).tolist()
    if action not in legal or not isinstance(player, Agent):
        raise InvalidInput(f"expected an action that is legal here, one of {legal}, got {action}")
    return player.override(action)

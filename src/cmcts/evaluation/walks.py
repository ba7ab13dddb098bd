"""Steps in a world that nobody planned: random walks, and a policy that strays.

A planner's own episodes say little about states that it avoids, and that is where a critic must not be wrong: a policy
that is watched goes there, a world that differs from the model leads there, and somebody may start there. Walks are
cheap, because nothing is searched. A plain random walk stays near where it began, so a walk has a *taste*, random
weights of the actions, which it keeps for a while: it goes far in one direction, then in another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.evaluation.episodes import Transitions, world_seed
from cmcts.model.interface import Model
from cmcts.random import stream

LONGEST = 100  # steps of a walk, at most
TASTE = 2.0  # the larger, the more some actions are preferred to others
FICKLENESS = 0.1  # chance of another taste, at every step

Propose = Callable[[NDArray[np.float64]], int]


def walk(
    model: Model,
    make_world: Callable[[], Any],
    seed: int,
    steps: int,
    policy: Propose | None = None,
    on_steps: Callable[[int], None] | None = None,
) -> Transitions:
    """Whole walks of at least so many steps in all; with a policy, each follows it for a random share of its steps."""
    from cmcts.model.from_env import single_environments

    world = single_environments(make_world())[0]
    rows: list[tuple[Any, ...]] = []
    number = 0
    while len(rows) < steps:
        dice = np.random.default_rng(np.random.SeedSequence((seed, number), spawn_key=(3,)))
        taste = _taste(model, dice)
        share = 0.0 if policy is None else dice.random()
        state = np.asarray(world.reset(seed=world_seed(seed, number))[0], np.float64)
        action, begun = _choose(model, state, taste, share, policy, dice), len(rows)
        over = False
        while not over:
            observation, reward, terminated, truncated, info = world.step(action)
            costs = model.validate_costs(info["cost"], 'info["cost"]')
            after = np.asarray(observation, np.float64)
            over = bool(terminated or truncated) or len(rows) + 1 - begun == LONGEST
            if dice.random() < FICKLENESS:
                taste = _taste(model, dice)
            following = -1 if terminated else _choose(model, after, taste, share, policy, dice)
            rows.append((state, action, costs, float(reward), after, following, bool(terminated), over))
            state, action = after, following
        number += 1
        if on_steps:
            on_steps(len(rows) - begun)
    world.close()
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    columns[1], columns[5] = columns[1].astype(np.int32), columns[5].astype(np.int32)
    return Transitions(*columns)


def rollout_policy(model: Model, seed: int) -> Propose | None:
    """The model's own rollout policy, if it has one: where a planner looks first."""
    if not model.has_rollout_action:
        return None
    rng = stream(seed)

    def propose(state: NDArray[np.float64]) -> int:
        with np.errstate(over="ignore"):
            return int(model.uncompiled.rollout_action(model.params, state, rng))

    return propose


def _taste(model: Model, dice: np.random.Generator) -> NDArray[np.float64]:
    return np.asarray(dice.exponential(size=model.action_count) ** TASTE)


def _choose(
    model: Model,
    state: NDArray[np.float64],
    taste: NDArray[np.float64],
    share: float,
    policy: Propose | None,
    dice: np.random.Generator,
) -> int:
    legal = model.legal(state)
    if policy is not None and dice.random() < share:
        proposed = policy(state)
        if proposed in legal:
            return proposed
    weights = taste[legal]
    return int(dice.choice(legal, p=weights / weights.sum()))

"""Try a task's worlds before training in them, and list everything that is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cmcts.errors import InvalidInput, ModelError, shown

if TYPE_CHECKING:
    from cmcts.tasks.task import Task

_STEPS = 20


def check_worlds(task: Task, seed: int = 0) -> list[str]:
    """Everything that is wrong with a task's two worlds, one line each; its model should have passed `check_model`."""
    faults = []
    for name in ("training_world", "real_world"):
        try:
            first, second = (_walk(task, getattr(task, name), seed) for _ in range(2))
        except (InvalidInput, ModelError) as error:
            faults.append(f"{name}: {error}")
        except Exception as error:  # whatever a user's world raises
            faults.append(f"{name}: raised {type(error).__name__}: {error}")
        else:
            if first != second:
                faults.append(f"{name}: expected the same episode after a reset with the same seed, got two")
    return faults


def _walk(task: Task, make_world: Any, seed: int) -> list[tuple[Any, ...]]:
    """What random legal actions lead to in one world, checked step by step."""
    from cmcts.model.from_env import single_environments

    model, dice = task.model, np.random.default_rng(seed)
    world = single_environments(make_world())[0]
    actions = getattr(world.action_space, "n", None)
    if actions != model.action_count:
        raise InvalidInput(f"expected {model.action_count} actions, as in the model, got {world.action_space}")
    state, _ = world.reset(seed=seed)
    seen: list[tuple[Any, ...]] = []
    for _ in range(_STEPS):
        row = model.validate_state(state)
        legal = model.legal(row)
        if len(legal) == 0:
            raise InvalidInput(f"expected a legal action of the model in every state, got none in {shown(row)}")
        state, reward, terminated, truncated, info = world.step(int(dice.choice(legal)))
        if "cost" not in info:
            raise InvalidInput(f'expected info["cost"], got keys {sorted(info)}')
        costs = model.validate_costs(info["cost"], 'info["cost"]')
        if not np.isfinite(float(reward)):
            raise InvalidInput(f"expected a finite reward, got {reward!r}")
        seen.append((np.asarray(state).tolist(), float(reward), costs.tolist(), bool(terminated)))
        if terminated or truncated:
            break
    world.close()
    return seen

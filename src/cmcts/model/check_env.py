"""Whether an environment comes back: `get_state` that forgets, `set_state` that does nothing.

Two environments play on as in life, the same actions with the same dice. Before each of their steps a third one is put
into the same state by `set_state`, and takes the same step. What it does differently, its state did not hold; unless
the two that live differ as well, because there are dice that nobody has loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmcts.errors import shown
from cmcts.model.from_env import Moment, Simulator, single, without_bookkeeping
from cmcts.model.snapshots import Row
from cmcts.random import Stream, stream

_STEPS = 60


def restore_fault(simulator: Simulator, seed: int = 0) -> str:
    """What is wrong with the functions that read and restore the environment's state, or "" if nothing is."""
    if simulator.store.set_state is None:  # whole copies forget nothing
        return ""
    choices, rng = np.random.default_rng(seed), stream(seed)
    living = [without_bookkeeping(single(simulator.factory())) for _ in range(2)]
    row = _begin(simulator, living, seed)
    legal = np.zeros(simulator.action_count, np.int64)
    for _ in range(_STEPS):
        fault = _set_state_fault(simulator, row)
        if fault:
            return fault
        action = int(choices.choice(legal[: simulator.legal_actions(row, legal)]))
        restored = _restored_step(simulator, row, action, rng.copy())
        lived, twin = (_lived_step(simulator, env, row, action, rng.copy()) for env in living)
        if lived != twin:
            return ""  # other dice: `check_model` says so
        if lived != restored:
            return (
                "get_state: expected a step from a restored state to do what the same step does from the state itself, "
                f"got {_said(restored)} instead of {_said(lived)} for action {action} in state {shown(row)}; does "
                "get_state leave something out?"
            )
        rng = stream(int(choices.integers(2**31)))
        ended = lived[3]
        row = _begin(simulator, living, int(choices.integers(2**31))) if ended else np.array(lived[0])
    return ""


def _begin(simulator: Simulator, living: list[Any], seed: int) -> Row:
    row = np.zeros(simulator.state_size)
    for env in living:
        observation, info = env.reset(seed=seed)
        simulator.read(env, Moment(observation, 0.0, False, False, info), row)
    return row


def _set_state_fault(simulator: Simulator, row: Row) -> str:
    """Go to another state and back, and look whether that is where one is."""
    size = simulator.store.size
    with np.errstate(over="ignore"):
        simulator.start(stream(0), np.zeros(simulator.state_size))
    tail = np.zeros(size)
    simulator.store.save(simulator.at(row), tail)
    if np.array_equal(tail, row[-size:]):
        return ""
    return (
        f"set_state: expected the environment in the state it was given, {shown(row[-size:])}, got {shown(tail)}; does "
        "set_state set all that get_state reads?"
    )


def _restored_step(simulator: Simulator, row: Row, action: int, rng: Stream) -> tuple[Any, ...]:
    next_row, costs = np.zeros(simulator.state_size), np.zeros(simulator.cost_count)
    with np.errstate(over="ignore"):
        reward, end = simulator.step(row, action, rng, next_row, costs)
    return next_row.tolist(), reward, costs.tolist(), end


def _lived_step(simulator: Simulator, env: Any, row: Row, action: int, rng: Stream) -> tuple[Any, ...]:
    """The same step of an environment that plays on, with the dice that the restored one was given."""
    with np.errstate(over="ignore"):
        simulator.give_dice(env, rng)
    taken = simulator.first_action + action
    moment = Moment.from_step(env.step(taken))
    next_row = np.zeros(simulator.state_size)
    simulator.read(env, moment, next_row)
    costs = simulator.costs_of(simulator.observation(row), taken, moment)
    return next_row.tolist(), moment.reward, costs.tolist(), moment.ended


def _said(outcome: tuple[Any, ...]) -> str:
    row, reward, costs, end = outcome
    return f"{shown(row)}, reward {reward:g}, costs {shown(costs)}{' and the end' if end else ''}"

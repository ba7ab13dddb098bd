"""Safe Gridworld: reach the far corner, never touch an unsafe square, and mind a wind that the planner ignores.

**Map.** 8 x 8, (0, 0) bottom left. Start: uniform over x, y in {0, 1, 2}. Goal: (7, 7). A wall of seven unsafe squares
stands between them, below eight windy squares.

**Actions.** 0 north, 1 north-east, 2 east, 3 south-east, 4 south, 5 south-west, 6 west, 7 north-west, 8 stay.

**Observation.** (x, y).

**Wind.** On a windy square the move is replaced by one square down with probability `wind`.

**Reward.** +100 for reaching the goal, -1000 for leaving the grid (never legal for a planner), else -1 a step.

**Cost.** 1 for entering an unsafe square; usual budget 0, gamma = 0.95.

**End.** The goal, or off the grid; truncated after 100 steps.

The paper plans with wind 0, trains with 0.25, and is judged with 0.3.

Here are the rules and the planning model; the world is in `cmcts.envs.safe_gridworld.world`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel, python_function
from cmcts.errors import expect
from cmcts.model.interface import Model
from cmcts.random import below, uniform

SIZE = 8
GOAL = (7, 7)
STAY = 8
UNSAFE_SQUARES = ((2, 5), (3, 5), (4, 5), (5, 5), (5, 4), (5, 3), (5, 2))
WINDY_SQUARES = tuple((x, y) for x in range(2, 6) for y in (6, 7))
MOVES = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1), (0, 0))
ACTION_NAMES = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west", "stay")


class SafeGridworldParams(NamedTuple):
    """The map, and how strong the wind is."""

    wind: float
    moves: NDArray[np.int64]  # [9, 2]
    unsafe: NDArray[np.bool_]  # [8, 8]
    windy: NDArray[np.bool_]  # [8, 8]


def safe_gridworld_params(wind: float = 0.0) -> SafeGridworldParams:
    """The paper's map with the given wind."""
    expect(0.0 <= wind <= 1.0, "a wind probability in [0, 1]", wind)
    unsafe, windy = np.zeros((2, SIZE, SIZE), np.bool_)
    unsafe[tuple(zip(*UNSAFE_SQUARES, strict=True))] = True
    windy[tuple(zip(*WINDY_SQUARES, strict=True))] = True
    return SafeGridworldParams(float(wind), np.array(MOVES, np.int64), unsafe, windy)


@kernel
def start(params, rng, state):
    """Write a start state, uniform over the nine squares of the lower left corner."""
    state[0] = float(below(rng, 3))
    state[1] = float(below(rng, 3))


@kernel
def legal_actions(params, state, out):
    """Write the moves that stay on the grid, and return how many they are."""
    x, y = int(state[0]), int(state[1])
    count = 0
    for action in range(params.moves.shape[0]):
        to_x, to_y = x + params.moves[action, 0], y + params.moves[action, 1]
        if 0 <= to_x < SIZE and 0 <= to_y < SIZE:
            out[count] = action
            count += 1
    return count


@kernel
def arrive(params, x, y, next_state, costs):
    """Reward and end of moving to (x, y)."""
    costs[0] = 0.0
    if not (0 <= x < SIZE and 0 <= y < SIZE):
        return -1000.0, True
    next_state[0], next_state[1] = float(x), float(y)
    if params.unsafe[x, y]:
        costs[0] = 1.0
    if x == GOAL[0] and y == GOAL[1]:
        return 100.0, True
    return -1.0, False


@kernel
def step(params, state, action, rng, next_state, costs):
    """Move, or be blown one square down."""
    x, y = int(state[0]), int(state[1])
    next_state[0], next_state[1] = state[0], state[1]
    if params.wind > 0.0 and params.windy[x, y] and uniform(rng) < params.wind:
        return arrive(params, x, y - 1, next_state, costs)
    return arrive(params, x + params.moves[action, 0], y + params.moves[action, 1], next_state, costs)


@kernel
def features(params, state, out):
    """Write which square the agent is on: 64 numbers, all 0 but one."""
    for k in range(SIZE * SIZE):
        out[k] = 0.0
    out[int(state[0]) * SIZE + int(state[1])] = 1.0


@kernel
def rollout_action(params, state, rng):
    """Directed: east, north or north-east, whichever stays on the grid."""
    x, y = int(state[0]), int(state[1])
    if x == SIZE - 1:
        return 0 if y < SIZE - 1 else STAY
    if y == SIZE - 1:
        return 2
    return below(rng, 3)


@kernel
def expected_costs(params, state, action, out):
    """Write the probability of entering an unsafe square."""
    x, y = int(state[0]), int(state[1])
    to_x, to_y = x + params.moves[action, 0], y + params.moves[action, 1]
    out[0] = 0.0
    blown = params.wind if params.windy[x, y] else 0.0
    if 0 <= to_x < SIZE and 0 <= to_y < SIZE and params.unsafe[to_x, to_y]:
        out[0] = 1.0 - blown
    if blown > 0.0 and params.unsafe[x, y - 1]:
        out[0] += blown


def outcomes(params: SafeGridworldParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that `step` can do, as arrays: be blown down or not."""
    x, y = int(state[0]), int(state[1])
    blown = params.wind if params.windy[x, y] else 0.0
    to_x, to_y = x + int(params.moves[action, 0]), y + int(params.moves[action, 1])
    cases = [(1.0 - blown, to_x, to_y), (blown, x, y - 1)] if blown > 0.0 else [(1.0, to_x, to_y)]
    next_states, costs = np.tile(state, (len(cases), 1)), np.zeros((len(cases), 1))
    arrivals = [
        python_function(arrive)(params, to_x, to_y, next_states[k], costs[k]) for k, (_, to_x, to_y) in enumerate(cases)
    ]
    rewards, terminals = zip(*arrivals, strict=True)
    return np.array([case[0] for case in cases]), next_states, np.array(rewards), costs, np.array(terminals)


def starts(params: SafeGridworldParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and states of all starts: the nine squares that `start` draws from."""
    return np.full(9, 1.0 / 9.0), np.array([(x, y) for x in range(3) for y in range(3)], np.float64)


def state_fault(params: SafeGridworldParams, state: NDArray[np.float64]) -> str:
    """What makes a state impossible, or "" if it is possible."""
    for name, value in zip("xy", state, strict=True):
        if value != int(value) or not 0 <= value < SIZE:
            return f"expected {name} to be an integer from 0 to {SIZE - 1}, got {value}"
    return "the goal is reached" if tuple(state) == GOAL else ""


def safe_gridworld_model(wind: float = 0.0) -> Model:
    """The planning model of Safe Gridworld; the paper's ignores the wind."""
    return Model(
        name="safe-gridworld",
        params=safe_gridworld_params(wind),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action,
        expected_costs=expected_costs,
        outcomes=outcomes,
        starts=starts,
        state_fault=state_fault,
        state_size=2,
        action_count=len(MOVES),
        feature_count=SIZE * SIZE,
        action_names=ACTION_NAMES,
        feature_description="one number for each of the 64 squares: 1 where the agent is, else 0",
    )

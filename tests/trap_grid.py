"""Gridworlds with gold and deadly traps, to be walked in for a number of steps: "at most 0.15 deaths an episode".

The state is the cell and a bit for each piece of gold that is still there. With probability `slide` a move goes to one
side of where it was meant to. Gold earns 1 once. Stepping on a trap kills with probability 0.2, which costs 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cmcts.model.interface import Model
from cmcts.random import uniform

EMPTY, WALL, TRAP, GOLD = 0, 1, 2, 3
SYMBOLS = {".": EMPTY, "#": WALL, "x": TRAP, "g": GOLD, "s": EMPTY}
DEATH = 0.2
ACTIONS = ("north", "east", "south", "west")


class TrapParams(NamedTuple):
    cells: NDArray[np.int64]  # [H, W]
    gold: NDArray[np.int64]  # [H, W] the number of the piece there, or -1
    start: NDArray[np.int64]  # [2] row and column
    pieces: int
    slide: float


@njit
def arrive(params, row, column, action, turn):
    """Where a move ends that slides by `turn` quarters to the right."""
    direction = (action + turn) % 4
    to_row = row - 1 if direction == 0 else row + 1 if direction == 2 else row
    to_column = column + 1 if direction == 1 else column - 1 if direction == 3 else column
    height, width = params.cells.shape
    if not (0 <= to_row < height and 0 <= to_column < width) or params.cells[to_row, to_column] == WALL:
        to_row, to_column = row, column
    return to_row, to_column


def step(params, state, action, rng, next_state, costs):
    row, column, left = int(state[0]), int(state[1]), int(state[2])
    draw = uniform(rng)
    turn = 0 if draw >= params.slide else 1 if draw < params.slide / 2 else 3
    row, column = arrive(params, row, column, action, turn)
    reward = 0.0
    piece = params.gold[row, column]
    if piece >= 0 and (left >> piece) & 1:
        left -= 1 << piece
        reward = 1.0
    dead = params.cells[row, column] == TRAP and uniform(rng) < DEATH
    next_state[0], next_state[1], next_state[2] = row, column, left
    costs[0] = 1.0 if dead else 0.0
    return reward, dead or left == 0


def legal_actions(params, state, out):
    for action in range(4):
        out[action] = action
    return 4


def features(params, state, out):
    height, width = params.cells.shape
    for k in range(out.shape[0]):
        out[k] = 0.0
    out[int(state[0]) * width + int(state[1])] = 1.0
    for piece in range(params.pieces):
        out[height * width + piece] = (int(state[2]) >> piece) & 1


def start(params, rng, state):
    state[0], state[1], state[2] = params.start[0], params.start[1], (1 << params.pieces) - 1


def outcomes(params, state, action):
    chances, rows, rewards, costs, ends = [], [], [], [], []
    for turn, chance in ((0, 1.0 - params.slide), (1, params.slide / 2), (3, params.slide / 2)):
        row, column = arrive(params, int(state[0]), int(state[1]), action, turn)
        left, piece = int(state[2]), int(params.gold[row, column])
        taken = piece >= 0 and (left >> piece) & 1
        left -= (1 << piece) if taken else 0
        death = DEATH if params.cells[row, column] == TRAP else 0.0
        for dead, share in ((True, death), (False, 1.0 - death)):
            if chance * share > 0.0:
                chances.append(chance * share)
                rows.append([row, column, left])
                rewards.append(float(taken))
                costs.append([float(dead)])
                ends.append(dead or left == 0)
    return np.array(chances), np.array(rows, float), np.array(rewards), np.array(costs), np.array(ends)


def starts(params):
    return np.ones(1), np.array([[*params.start, (1 << params.pieces) - 1]], float)


def trap_model(text: str, slide: float = 0.2) -> Model:
    """A map of `.` floor, `#` wall, `x` trap, `g` gold and `s` start, one line a row."""
    lines = text.split()
    cells = np.array([[SYMBOLS[symbol] for symbol in line] for line in lines], np.int64)
    gold = np.full(cells.shape, -1, np.int64)
    gold[cells == GOLD] = np.arange((cells == GOLD).sum())
    begin = np.argwhere(np.array([list(line) for line in lines]) == "s")[0].astype(np.int64)
    pieces = int((cells == GOLD).sum())
    return Model(
        name="traps",
        params=TrapParams(cells, gold, begin, pieces, slide),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        outcomes=outcomes,
        starts=starts,
        state_size=3,
        action_count=4,
        feature_count=cells.size + pieces,
        action_names=ACTIONS,
        cost_names=("deaths",),
    )

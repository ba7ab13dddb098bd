"""Gold and traps: the maps of the Threshold UCT benchmark.

Kurecka, Nevyhosteny, Novotny and Uncovsky (AAAI 2025, arXiv:2412.13962). The rules are theirs: a move that is not
blocked slides on to one side with probability 0.2, from the square that it was meant for; gold that is slid past stays.
In Avoid a trap kills with probability 0.2, which costs 1. In SoftAvoid a move that is meant for a trap costs 0.2, and
nobody dies. (Theirs also takes 0.00001 for walking into a wall; ours does not.)

State         x to the right, y up, and a bit for each piece of gold that is left; then the steps that are left
Actions       north, east, south, west
Reward        1 for a piece of gold
Cost          1 for death (Avoid), 0.2 for a move to a trap (SoftAvoid)
End           death, no gold left, or 100 steps
Discount      none
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.envs.maps import grid_states
from cmcts.errors import expect
from cmcts.model.interface import Model
from cmcts.random import below, uniform
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task
from cmcts.zoo.trap_ways import Moves, ways

ACTION_NAMES = ("north", "east", "south", "west")
MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
FLOOR, WALL, TRAP = 0, 1, 2
SYMBOLS = {".": FLOOR, "#": WALL, "x": TRAP, "g": FLOOR, "s": FLOOR}
STEPS = 100
BUDGET = 0.15
SLIDE = 0.2
DANGER = 0.2
PRICE = 5.0  # of a death, in pieces of gold, for rollouts that know no price
MAPS = Path(__file__).parent / "maps" / "small.txt"


class TrapParams(NamedTuple):
    """One map, W squares wide and H high, and how dangerous it is."""

    squares: NDArray[np.int64]  # [W, H] floor, wall or trap
    gold: NDArray[np.int64]  # [W, H] the number of the piece there, or -1
    start: NDArray[np.int64]  # [2]
    moves: NDArray[np.int64]  # [4, 2]
    pieces: int
    slide: float
    danger: float
    deadly: bool
    ways: NDArray[np.int64]  # [P + 1, W, H] where rollouts move on their way to each piece, and to wait
    gains: NDArray[np.float64]  # [P + 1, W, H] what that is worth to them, beyond waiting


@kernel
def moved(params, x, y, direction):
    """Where a move ends: on the next square, or where it began if there is a wall."""
    to_x, to_y = x + params.moves[direction, 0], y + params.moves[direction, 1]
    width, height = params.squares.shape
    if not (0 <= to_x < width and 0 <= to_y < height) or params.squares[to_x, to_y] == WALL:
        return x, y
    return to_x, to_y


@kernel
def start(params, rng, state):
    """Write the start, with all gold still there."""
    state[0], state[1], state[2] = params.start[0], params.start[1], (1 << params.pieces) - 1


@kernel
def legal_actions(params, state, out):
    """Write all four; walking into a wall is a way to wait."""
    for action in range(4):
        out[action] = action
    return 4


@kernel
def step(params, state, action, rng, next_state, costs):
    """Move, perhaps slide, take the gold, and perhaps die."""
    x, y, left = int(state[0]), int(state[1]), int(state[2])
    to_x, to_y = moved(params, x, y, action)
    costs[0] = params.danger if not params.deadly and params.squares[to_x, to_y] == TRAP else 0.0
    if (to_x != x or to_y != y) and params.slide > 0.0 and uniform(rng) < params.slide:
        to_x, to_y = moved(params, to_x, to_y, (action + 1 + 2 * below(rng, 2)) % 4)
    reward, piece = 0.0, params.gold[to_x, to_y]
    if piece >= 0 and (left >> piece) & 1 == 1:
        left -= 1 << piece
        reward = 1.0
    dead = params.deadly and params.squares[to_x, to_y] == TRAP and uniform(rng) < params.danger
    if dead:
        costs[0] = 1.0
    next_state[0], next_state[1], next_state[2] = to_x, to_y, left
    return reward, dead or left == 0


@kernel
def features(params, state, out):
    """Write which square it is, and which gold is left."""
    width, height = params.squares.shape
    for k in range(out.shape[0]):
        out[k] = 0.0
    out[int(state[0]) * height + int(state[1])] = 1.0
    for piece in range(params.pieces):
        out[width * height + piece] = (int(state[2]) >> piece) & 1


@kernel
def rollout_action(params, state, rng):
    """On the way to the piece of gold that gains most, or waiting if none gains."""
    x, y, left = int(state[0]), int(state[1]), int(state[2])
    most, target = 0.0, params.pieces
    for piece in range(params.pieces):
        if (left >> piece) & 1 == 1 and params.gains[piece, x, y] > most:
            most, target = params.gains[piece, x, y], piece
    return params.ways[target, x, y]


@kernel
def expected_costs(params, state, action, out):
    """Write the chance of death, or what the move costs."""
    x, y = int(state[0]), int(state[1])
    to_x, to_y = moved(params, x, y, action)
    slide = params.slide if params.deadly and (to_x != x or to_y != y) else 0.0
    out[0] = (1.0 - slide) * params.danger if params.squares[to_x, to_y] == TRAP else 0.0
    for turn in (1, 3):
        aside_x, aside_y = moved(params, to_x, to_y, (action + turn) % 4)
        if slide > 0.0 and params.squares[aside_x, aside_y] == TRAP:
            out[0] += 0.5 * slide * params.danger


def outcomes(params: TrapParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that `step` can do, for exact solutions."""
    x, y, left = (int(number) for number in state)
    meant = moved(params, x, y, action)
    places = [(1.0, meant)]
    if meant != (x, y) and params.slide > 0.0:
        aside = [moved(params, *meant, (action + turn) % 4) for turn in (1, 3)]
        places = [(1.0 - params.slide, meant), *((0.5 * params.slide, place) for place in aside)]
    soft = params.danger if not params.deadly and params.squares[meant] == TRAP else 0.0
    rows = []
    for chance, place in places:
        piece = int(params.gold[place])
        taken = piece >= 0 and left >> piece & 1 == 1
        after = left - (1 << piece) if taken else left
        death = params.danger if params.deadly and params.squares[place] == TRAP else 0.0
        for dead, share in ((True, death), (False, 1.0 - death)):
            if share > 0.0:
                rows.append((chance * share, (*place, after), float(taken), 1.0 if dead else soft, dead or after == 0))
    chances, states, rewards, costs, ends = (np.array(column) for column in zip(*rows, strict=True))
    return chances, states.astype(np.float64), rewards, costs[:, None], ends


def rolling_out(params: TrapParams, price: float) -> TrapParams:
    """The same map, where rollouts go for gold as if a cost of 1 were worth so many pieces of it."""
    width, height = params.squares.shape
    count = width * height
    chances, costs = np.zeros((4, count, count)), np.zeros((4, count))
    nothing_taken = 1 << params.pieces  # gold that is nowhere
    for x, y in np.argwhere(params.squares != WALL).tolist():
        for action in range(4):
            here = np.array([x, y, nothing_taken], np.float64)
            shares, states, _, paid, ends = outcomes(params, here, action)
            squares = (states[:, 0] * height + states[:, 1]).astype(np.int64)
            np.add.at(chances[action, x * height + y], squares, np.where(ends, 0.0, shares))
            costs[action, x * height + y] = shares @ paid[:, 0]
    order = params.gold.ravel().argsort()[count - params.pieces :]  # squares of the pieces, by their numbers
    best, gains = ways(Moves(chances, costs), order, price)
    shape = (params.pieces + 1, width, height)
    return params._replace(ways=best.reshape(shape), gains=gains.reshape(shape))


def at_prices(model: Model, prices: NDArray[np.float64], discount: float) -> Model:
    """The same model, with rollouts that go for the gold that is worth its danger at the price."""
    return replace(model, params=rolling_out(model.params, float(prices[0])), at_prices=None)


def starts(params: TrapParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The one start."""
    return np.ones(1), np.array([[*params.start, (1 << params.pieces) - 1]], np.float64)


def state_fault(params: TrapParams, state: NDArray[np.float64]) -> str:
    """What makes a state impossible, or "" if it is possible."""
    x, y, left = state
    width, height = params.squares.shape
    if any(number != int(number) for number in state) or not (0 <= x < width and 0 <= y < height):
        return f"expected a square of the map, {width} x {height}, got {x:g}, {y:g}"
    if params.squares[int(x), int(y)] == WALL:
        return f"expected a square without a wall, got {x:g}, {y:g}"
    if not 0 < left < 1 << params.pieces:
        return f"expected some of {params.pieces} pieces of gold, got {left:g}"
    return ""


def read_maps() -> dict[int, list[str]]:
    """The rows of each map, from above, by its number in the benchmark."""
    _, *blocks = MAPS.read_text().split("\nmap ")
    found = (block.split() for block in blocks)
    return {int(number): rows for number, *rows in found}


def trap_model(rows: list[str], *, deadly: bool, slide: float = SLIDE, danger: float = DANGER) -> Model:
    """A map as a model without time; `deadly` traps end the episode, others only cost."""
    symbols = np.array([list(row) for row in rows])[::-1].T  # [W, H]
    squares = np.vectorize(SYMBOLS.__getitem__)(symbols).astype(np.int64)
    gold = np.full(squares.shape, -1, np.int64)
    gold[symbols == "g"] = np.arange((symbols == "g").sum())
    pieces = int((symbols == "g").sum())
    begin = np.argwhere(symbols == "s")[0].astype(np.int64)
    moves, shape = np.array(MOVES, np.int64), (pieces + 1, *squares.shape)
    unknown = np.zeros(shape, np.int64), np.zeros(shape)
    params = TrapParams(squares, gold, begin, moves, pieces, slide, danger, deadly, *unknown)
    return Model(
        name="traps",
        params=rolling_out(params, PRICE),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action,
        expected_costs=expected_costs,
        outcomes=outcomes,
        starts=starts,
        at_prices=at_prices,
        state_fault=state_fault,
        state_size=3,
        action_count=4,
        feature_count=squares.size + pieces,
        action_names=ACTION_NAMES,
        cost_names=("deaths" if deadly else "traps",),
        feature_description="one number for each square, then one for each piece of gold",
        world=_world,
    )


def _world(model: Model, **settings: Any) -> Any:
    from cmcts.zoo.trap_world import TrapWorld  # imports Gymnasium

    return TrapWorld(model, **settings)


def avoid_task(number: int) -> Task:
    """A map where traps kill."""
    return _task(f"avoid-{number}", number, deadly=True)


def soft_avoid_task(number: int) -> Task:
    """A map where traps cost."""
    return _task(f"soft-avoid-{number}", number, deadly=False)


def _task(name: str, number: int, deadly: bool) -> Task:
    maps = read_maps()
    expect(number in maps, f"a map from 1 to {len(maps)}", number)
    model = trap_model(maps[number], deadly=deadly)
    width, height = model.params.squares.shape
    return Task(
        name=name,
        model=model,
        budget=(BUDGET,),
        search=SearchSettings(discount=1.0),
        episode_steps=STEPS,
        map_states=partial(grid_states, width) if width == height else None,
    )

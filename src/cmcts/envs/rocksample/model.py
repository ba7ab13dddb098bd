"""RockSample(n, m) with a measurement budget: collect good rocks, leave east, and measure as little as allowed.

**Map.** An n x n grid, (x, y) with x to the right and y up, and m rocks at known places; each is good with probability
1/2, which is hidden.

**Actions.** 0 north, 1 east, 2 south, 3 west, 4 sample the rock here, 5 + i measure rock i.

**Observation.** (x, y, p_1 ... p_m): the position and the probability that each rock is good, or -1 if collected. It is
a sufficient statistic of all that was seen, so planning on it is exact; the hidden values are the world's alone.

**Measurement.** Correct with probability e = (1 + 2^(-d / d0)) / 2 at Euclidean distance d. A rock of probability p
answers "good" with p e + (1 - p)(1 - e), and Bayes' rule gives the next p.

**Reward.** +10 for leaving east; +10 or -10 for sampling a good or bad rock, 10 (2p - 1) in the planning model, which
is its mean; -100 for leaving by another side or sampling where there is no rock (never legal for a planner).

**Cost.** 1 a measurement, also of a collected rock; usual budget 1 on the discounted sum, gamma = 0.95.

**End.** Leaving the grid; truncated after 100 steps.

Here are the rules and the planning model; the world, with its hidden values, is in `cmcts.envs.rocksample.world`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel, python_function
from cmcts.errors import expect
from cmcts.model.interface import Model
from cmcts.random import uniform

NORTH, EAST, SOUTH, WEST, SAMPLE, SENSE = 0, 1, 2, 3, 4, 5
COLLECTED = -1.0
PROMISING = 0.55  # the directed rollout goes for rocks that are at least this likely to be good

ROCKS: dict[tuple[int, int], tuple[tuple[int, int], ...]] = {
    (5, 7): ((1, 0), (2, 1), (1, 2), (2, 2), (4, 2), (0, 3), (3, 4)),
    (7, 8): ((2, 0), (0, 1), (3, 1), (6, 3), (2, 4), (3, 4), (5, 5), (1, 6)),
    (11, 11): ((0, 3), (0, 7), (1, 8), (2, 4), (3, 3), (3, 8), (4, 3), (5, 8), (6, 1), (9, 3), (9, 9)),
}


class RockSampleParams(NamedTuple):
    """One map and its sensor; a square (x, y) has the number x * n + y."""

    n: int
    rocks: NDArray[np.int64]  # [m, 2]
    rock_at: NDArray[np.int64]  # [n * n] the rock on a square, or -1
    accuracy: NDArray[np.float64]  # [n * n, m] probability that measuring the rock from the square is right
    start_y: int


def sensor_accuracy(distance: NDArray[np.float64], d0: float) -> NDArray[np.float64]:
    """The probability (1 + 2^(-d / d0)) / 2 that a measurement from distance d is right."""
    return np.asarray((1.0 + 2.0 ** (-distance / d0)) / 2.0)


def rocksample_params(n: int, m: int, d0: float = 20.0, layout_seed: int = 0) -> RockSampleParams:
    """The map named (n, m): the paper's where it has one, else drawn without replacement from `layout_seed`."""
    expect(isinstance(n, int) and 2 <= n <= 1000, "a grid size n from 2 to 1000", n)
    expect(isinstance(m, int) and 1 <= m <= n * n, f"from 1 to {n * n} rocks on a {n} x {n} grid", m)
    expect(np.isfinite(d0) and d0 > 0, "a sensor constant d0 > 0", d0)
    if (n, m) in ROCKS and layout_seed == 0:
        rocks = np.array(ROCKS[n, m], np.int64)
    else:
        squares = np.random.default_rng([layout_seed, n, m]).choice(n * n, m, replace=False)
        rocks = np.stack([squares // n, squares % n], axis=1).astype(np.int64)
    rock_at = np.full(n * n, -1, np.int64)
    rock_at[rocks[:, 0] * n + rocks[:, 1]] = np.arange(m)
    x, y = np.divmod(np.arange(n * n), n)
    distance = np.hypot(x[:, None] - rocks[:, 0], y[:, None] - rocks[:, 1])
    return RockSampleParams(n, rocks, rock_at, sensor_accuracy(distance, d0), n // 2)


@kernel
def start(params, rng, state):
    """Write the start state: west edge, middle row, every rock at probability 1/2."""
    state[0], state[1] = 0.0, float(params.start_y)
    for k in range(2, state.shape[0]):
        state[k] = 0.5


@kernel
def legal_actions(params, state, out):
    """Moves that stay on the grid or leave east, sample on an uncollected rock, measure uncollected rocks.

    Each candidate is written first and counted if its test holds: branches on random states cannot be predicted.
    """
    count = 0
    for i in range(state.shape[0] - 2):
        out[count] = SENSE + i
        count += state[2 + i] >= 0.0
    x, y = int(state[0]), int(state[1])
    out[count] = EAST
    count += 1
    out[count] = WEST
    count += x > 0
    out[count] = SOUTH
    count += y > 0
    out[count] = NORTH
    count += y + 1 < params.n
    rock = params.rock_at[x * params.n + y]
    if rock >= 0:
        out[count] = SAMPLE
        count += state[2 + rock] >= 0.0
    return count


@kernel
def bayes(p, accuracy, reads_good):
    """P(good | reading) from the prior p and the probability that the reading is right."""
    says_good = p * accuracy + (1.0 - p) * (1.0 - accuracy)
    numerator = p * accuracy if reads_good else p * (1.0 - accuracy)
    return numerator / (says_good if reads_good else 1.0 - says_good)


@kernel
def step(params, state, action, rng, next_state, costs):
    """One step on beliefs; sampling pays its expected reward."""
    costs[0] = 0.0
    reward, terminal = 0.0, False
    index, value = 0, state[0]  # a step changes at most one number of the state
    if action >= SENSE:
        costs[0] = 1.0
        index = 2 + action - SENSE
        value = state[index]
        if value >= 0.0:
            accuracy = params.accuracy[int(state[0]) * params.n + int(state[1]), action - SENSE]
            reads_good = uniform(rng) < value * accuracy + (1.0 - value) * (1.0 - accuracy)
            value = bayes(value, accuracy, reads_good)
    elif action == SAMPLE:
        reward = -100.0
        rock = params.rock_at[int(state[0]) * params.n + int(state[1])]
        if rock >= 0 and state[2 + rock] >= 0.0:
            reward = 10.0 * (2.0 * state[2 + rock] - 1.0)
            index, value = 2 + rock, COLLECTED
    else:
        index = 1 - (action & 1)  # east and west are odd and change x, north and south are even and change y
        value = state[index] + (1.0 if action < SOUTH else -1.0)
        if value < 0.0 or value >= params.n:
            value = state[index]
            reward, terminal = (10.0 if action == EAST else -100.0), True
    # One pass instead of a copy and a store: the next step's wide loads need not wait for a narrow store.
    for k in range(state.shape[0]):
        next_state[k] = value if k == index else state[k]
    return reward, terminal


@kernel
def features(params, state, out):
    """Position in [-1, 1]; for each rock 2p - 1 (0 if collected) and whether it is still there."""
    rocks = state.shape[0] - 2
    half = 0.5 * (params.n - 1)
    out[0] = state[0] / half - 1.0
    out[1] = state[1] / half - 1.0
    for i in range(rocks):
        here = state[2 + i] >= 0.0
        out[2 + i] = 2.0 * state[2 + i] - 1.0 if here else 0.0
        out[2 + rocks + i] = 1.0 if here else 0.0


@kernel
def rollout_action(params, state, rng):
    """Directed: to the nearest promising rock and sample it; east if there is none."""
    x, y = int(state[0]), int(state[1])
    nearest, target = 1 << 30, -1
    for i in range(state.shape[0] - 2):
        if state[2 + i] > PROMISING:
            distance = abs(params.rocks[i, 0] - x) + abs(params.rocks[i, 1] - y)
            if distance < nearest:
                nearest, target = distance, i
    if target < 0:
        return EAST
    if nearest == 0:
        return SAMPLE
    if params.rocks[target, 0] > x:
        return EAST
    if params.rocks[target, 0] < x:
        return WEST
    return NORTH if params.rocks[target, 1] > y else SOUTH


@kernel
def expected_costs(params, state, action, out):
    """Write the cost of an action: 1 for a measurement, 0 for anything else."""
    out[0] = 1.0 if action >= SENSE else 0.0


def outcomes(params: RockSampleParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
    """All that `step` can do: a reading says good or bad, anything else has one outcome."""
    probabilities, next_states = np.ones(1), state[None, :].copy()
    reward, terminal, cost = 0.0, False, 0.0
    square = int(state[0]) * params.n + int(state[1])
    if action >= SENSE:
        cost, rock = 1.0, 2 + action - SENSE
        p, accuracy = float(state[rock]), float(params.accuracy[square, action - SENSE])
        says_good = p * accuracy + (1.0 - p) * (1.0 - accuracy)
        if p >= 0.0:
            readings = [(says_good, True), (1.0 - says_good, False)]
            readings = [(chance, good) for chance, good in readings if chance > 0.0]
            probabilities = np.array([chance for chance, _ in readings])
            next_states = np.tile(state, (len(readings), 1))
            next_states[:, rock] = [python_function(bayes)(p, accuracy, good) for _, good in readings]
    elif action == SAMPLE:
        reward, rock = -100.0, int(params.rock_at[square])
        if rock >= 0 and state[2 + rock] >= 0.0:
            reward = 10.0 * (2.0 * float(state[2 + rock]) - 1.0)
            next_states[0, 2 + rock] = COLLECTED
    else:
        index, value = 1 - (action & 1), state[1 - (action & 1)] + (1.0 if action < SOUTH else -1.0)
        if 0.0 <= value < params.n:
            next_states[0, index] = value
        else:
            reward, terminal = (10.0 if action == EAST else -100.0), True
    count = len(probabilities)
    return probabilities, next_states, np.full(count, reward), np.full((count, 1), cost), np.full(count, terminal)


def starts(params: RockSampleParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Probabilities and states of all starts: the one that `start` writes."""
    return np.ones(1), np.array([[0.0, params.start_y, *[0.5] * len(params.rocks)]])


def state_fault(params: RockSampleParams, state: NDArray[np.float64]) -> str:
    """What makes a state impossible on this map, or "" if it is possible."""
    for name, value in zip("xy", state[:2], strict=True):
        if value != int(value) or not 0 <= value < params.n:
            return f"expected {name} to be an integer from 0 to {params.n - 1}, got {value}"
    for i, p in enumerate(state[2:]):
        if p != COLLECTED and not 0.0 <= p <= 1.0:
            return f"expected rock {i} to have a probability in [0, 1] or -1 (collected), got {p}"
    return ""


class PricedParams(NamedTuple):
    """A map, its sensor, and what a reading takes from the reward."""

    n: int
    rocks: NDArray[np.int64]  # [m, 2]
    rock_at: NDArray[np.int64]  # [n * n]
    accuracy: NDArray[np.float64]  # [n * n, m]
    start_y: int
    price: float  # of a reading
    decay: NDArray[np.float64]  # [2n] discount^t
    exits: NDArray[np.float64]  # [m] what driving straight out is worth, one step after a rock was reached


@kernel
def priced_rollout_action(params, state, rng):
    """To the rock that gains most a step, by reading it on the spot if that is worth its price; east if none gains.

    Reading rock i there and sampling it if it is good is worth 10 gamma p - lambda, sampling it at once 10 (2p - 1).
    The detour to it delays the exit.
    """
    x, y = int(state[0]), int(state[1])
    straight = 10.0 * params.decay[params.n - 1 - x]
    most, steps, target, reads = 0.0, 1.0, -1, False
    for i in range(state.shape[0] - 2):
        p = state[2 + i]
        sampled, read = 20.0 * p - 10.0, 10.0 * params.decay[1] * p - params.price
        worth = max(sampled, read)
        if p >= 0.0 and worth > 0.0:
            distance = abs(params.rocks[i, 0] - x) + abs(params.rocks[i, 1] - y)
            gain = params.decay[distance] * (worth + params.exits[i]) - straight
            if gain * steps > most * (distance + 1.0):
                most, steps, target, reads = gain, distance + 1.0, i, read > sampled
    if target < 0 or params.rocks[target, 0] > x:
        return EAST
    if params.rocks[target, 0] < x:
        return WEST
    if params.rocks[target, 1] != y:
        return NORTH if params.rocks[target, 1] > y else SOUTH
    return SENSE + target if reads else SAMPLE


def at_prices(model: Model, prices: NDArray[np.float64], discount: float) -> Model:
    """The same model with rollouts that read rocks where that is worth the price of a reading."""
    params: RockSampleParams = model.params
    decay = discount ** np.arange(2.0 * params.n)
    exits = 10.0 * decay[params.n - params.rocks[:, 0]]
    priced = PricedParams(*params, price=float(prices[0]), decay=decay, exits=exits)
    return replace(model, params=priced, rollout_action=priced_rollout_action, at_prices=None)


def rocksample_model(n: int, m: int, d0: float = 20.0, layout_seed: int = 0) -> Model:
    """The planning model of RockSample(n, m), on beliefs."""
    return Model(
        name="rocksample",
        params=rocksample_params(n, m, d0, layout_seed),
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
        state_size=2 + m,
        action_count=SENSE + m,
        feature_count=2 + 2 * m,
        action_names=("north", "east", "south", "west", "sample", *(f"sense {i}" for i in range(m))),
        feature_description="x and y in [-1, 1]; 2p - 1 of each rock (0 if collected); 1 for each rock still there",
    )

"""Driving: fast through traffic on three lanes, with crashes limited, and time in the overtaking lanes.

The world is highway-env's `highway-fast-v0` (package `highway-env`, MIT) as it is: right, and slow. The planner's model
is written by hand after its rules: kinematics at the same 5 frames a second, drivers who follow the Intelligent Driver
Model and change lanes where MOBIL says it pays. It is a thousand times faster and somewhat wrong. It sees the ten
nearest cars, supposes that all drivers are alike, and guesses when they change lanes.

State         the lane that is steered for and the speed that is set (0 to 2 each); then for the car itself and the
              ten nearest others: whether there is one, x ahead of the car and y to the right of the left lane in m, and
              how fast these change; then the seconds that are left
Actions       left, idle, right, faster, slower: once a second; speeds are 20, 25 and 30 m/s
Reward        the environment's own: 0.67 a second, up to 0.27 for speed above 20 m/s, up to 0.07 for the right lane
Costs         1 for a crash; in the second task also 1 for each second not in the right lane
End           a crash, or 30 seconds
Discount      none
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.model.interface import Model
from cmcts.random import below, stream, uniform
from cmcts.search.settings import SearchSettings
from cmcts.tasks.task import Task

ACTION_NAMES = ("left", "idle", "right", "faster", "slower")
LEFT, IDLE, RIGHT, FASTER, SLOWER = range(5)
STEPS = 30
CRASHES = 0.01
SECONDS = 10.0
OTHERS = 10

LANES, LANE_WIDTH = 3, 4.0
LENGTH, WIDTH = 5.0, 2.0
FRAMES, FRAME = 5, 0.2
LEAST_SPEED, SPEED_STEP, SPEEDS = 20.0, 5.0, 3
CLEAR, NEAR, FAR = 5.0, 10.0, 20.0  # m that a quick guess wants beside, at least ahead, and for more speed

# A row of the state; while a step is simulated, the last two hold speed and heading instead.
THERE, X, Y, VX, VY = range(5)
SPEED, HEADING = VX, VY
ROW, HEAD = 5, 2  # numbers of a row, and those before the first


# Not inlined: there are many calls of large functions, which would take half a minute to compile.
helper = njit(_nrt=False, forceinline=False, no_cfunc_wrapper=True)


class HighwayParams(NamedTuple):
    """What the planner supposes about other drivers."""

    speed: float  # m/s that they would like to drive at
    change: float  # the chance that one who gains by another lane goes there in this second, or goes on going there
    spread: float  # how much of the usual distance there is between cars, for starts


@helper
def row(vehicle):
    """Where a vehicle's numbers begin; the driver's own is number 0."""
    return HEAD + ROW * vehicle


@helper
def nearest_lane(y):
    """The lane that a place is on."""
    return min(max(int(np.round(y / LANE_WIDTH)), 0), LANES - 1)


@helper
def neighbour(cars, vehicle, lane, ahead):
    """The next vehicle ahead or behind that is on a lane, or partly on it; -1 if there is none."""
    best, least = -1, np.inf
    x, count = cars[row(vehicle) + X], (cars.shape[0] - HEAD) // ROW
    for other in range(count):
        at = row(other)
        if other == vehicle or cars[at + THERE] == 0.0 or abs(cars[at + Y] - LANE_WIDTH * lane) > LANE_WIDTH / 2 + 1.0:
            continue
        distance = cars[at + X] - x if ahead else x - cars[at + X]
        if distance < least and (distance >= 0.0 if ahead else distance > 0.0):
            best, least = other, distance
    return best


@helper
def followed(cars, vehicle, front, wanted):
    """The acceleration of a driver behind another by the Intelligent Driver Model (Treiber et al. 2000)."""
    speed = cars[row(vehicle) + SPEED]
    acceleration = 3.0 * (1.0 - (max(speed, 0.0) / wanted) ** 4)
    if front >= 0:
        distance = max(cars[row(front) + X] - cars[row(vehicle) + X], 0.01)
        closing = speed - cars[row(front) + SPEED]
        gap = 5.0 + LENGTH + 1.5 * speed + speed * closing / (2.0 * np.sqrt(15.0))
        acceleration -= 3.0 * (gap / distance) ** 2
    return acceleration


@helper
def gains(cars, vehicle, lane, wanted, own_wanted):
    """Whether a driver would go faster on another lane, and nobody there would have to brake hard for it (MOBIL)."""
    behind = neighbour(cars, vehicle, lane, False)
    if behind >= 0 and followed(cars, behind, vehicle, own_wanted if behind == 0 else wanted) < -2.0:
        return False
    here = followed(cars, vehicle, neighbour(cars, vehicle, nearest_lane(cars[row(vehicle) + Y]), True), wanted)
    return followed(cars, vehicle, neighbour(cars, vehicle, lane, True), wanted) - here >= 0.2


@helper
def move(cars, vehicle, lane, acceleration):
    """One frame of a vehicle that steers for a lane: highway-env's bicycle with its two controllers."""
    at = row(vehicle)
    speed, heading, aside = cars[at + SPEED], cars[at + HEADING], cars[at + Y] - LANE_WIDTH * lane
    if abs(aside) < 1e-3 and abs(heading) < 1e-4:
        cars[at + X] += speed * FRAME
    else:
        rolling = max(speed, 1.0)
        wanted = np.arcsin(min(max(-aside / 0.6 / rolling, -1.0), 1.0))
        wanted = min(max(wanted, -np.pi / 4), np.pi / 4)
        slip = np.arcsin(min(max(LENGTH / 2 / rolling * (wanted - heading) / 0.2, -0.65), 0.65))
        cars[at + X] += speed * np.cos(heading + slip) * FRAME
        cars[at + Y] += speed * np.sin(heading + slip) * FRAME
        cars[at + HEADING] += speed * np.sin(slip) / (LENGTH / 2) * FRAME
    cars[at + SPEED] += acceleration * FRAME


@helper
def overlap(distance, size, change):
    """Whether two intervals with centres so far apart, and half lengths of this sum, meet while that changes."""
    return min(distance, distance + change) < size and max(distance, distance + change) > -size


@helper
def hit(cars):
    """Whether the driver's own car is in another, or will be within a frame, as highway-env sees it."""
    at = row(0)
    cosine, sine = np.cos(cars[at + HEADING]), abs(np.sin(cars[at + HEADING]))
    long, wide = (LENGTH * cosine + WIDTH * sine + LENGTH) / 2, (WIDTH * cosine + LENGTH * sine + WIDTH) / 2
    vx, vy = cars[at + SPEED] * cosine, cars[at + SPEED] * np.sin(cars[at + HEADING])
    for other in range(1, (cars.shape[0] - HEAD) // ROW):
        to = row(other)
        if cars[to + THERE] == 0.0 or abs(cars[to + X] - cars[at + X]) > 12.0:
            continue
        closing_x = (cars[to + SPEED] * np.cos(cars[to + HEADING]) - vx) * FRAME
        closing_y = (cars[to + SPEED] * np.sin(cars[to + HEADING]) - vy) * FRAME
        if overlap(cars[to + X] - cars[at + X], long, closing_x) and overlap(
            cars[to + Y] - cars[at + Y], wide, closing_y
        ):
            return True
    return False


@helper
def speed_number(speed):
    """The nearest of the three speeds that can be set."""
    return min(max(np.round((speed - LEAST_SPEED) / SPEED_STEP), 0.0), SPEEDS - 1.0)


@helper
def simulate(params, state, action, rng, change, cars, lanes, accelerations):
    """Write into `cars` what a second brings, and return whether there was a crash; drivers change lanes by chance.

    The last two are room to work in, one number a vehicle.
    """
    for k in range(state.shape[0]):
        cars[k] = state[k]
    count = (state.shape[0] - HEAD) // ROW
    for vehicle in range(count):
        at = row(vehicle)
        cars[at + SPEED] = np.hypot(state[at + VX], state[at + VY])
        cars[at + HEADING] = np.arctan2(state[at + VY], state[at + VX])
    if action in (LEFT, RIGHT):
        lane = min(max(state[0] + action - 1, 0.0), LANES - 1.0)
        if abs(cars[HEAD + Y] - LANE_WIDTH * lane) <= 2 * LANE_WIDTH:
            cars[0] = lane
    elif action in (FASTER, SLOWER):
        faster = 1.0 if action == FASTER else -1.0
        cars[1] = min(max(speed_number(cars[HEAD + SPEED]) + faster, 0.0), SPEEDS - 1.0)
    own_wanted = LEAST_SPEED + SPEED_STEP * cars[1]
    lanes[0] = int(cars[0])
    for vehicle in range(1, count):
        at = row(vehicle)
        lane = nearest_lane(cars[at + Y])
        lanes[vehicle] = lane
        if cars[at + THERE] == 0.0:
            continue
        aside = LANE_WIDTH * lane - cars[at + Y]
        if abs(state[at + VY]) > 0.3:  # under way to another lane, or back again if somebody else goes there
            leaving = aside * state[at + VY] < 0.0 and abs(aside) > 0.3
            if leaving and (change >= 1.0 or (change > 0.0 and uniform(rng) < change)):
                lanes[vehicle] = min(max(lane + (1 if state[at + VY] > 0.0 else -1), 0), LANES - 1)
            continue
        for to in (lane - 1, lane + 1):
            pays = 0 <= to < LANES and change > 0.0 and gains(cars, vehicle, to, params.speed, own_wanted)
            if pays and (change >= 1.0 or uniform(rng) < change):
                lanes[vehicle] = to
    for _ in range(FRAMES):
        accelerations[0] = (own_wanted - cars[HEAD + SPEED]) / 0.6
        for vehicle in range(1, count):
            if cars[row(vehicle) + THERE] != 0.0:
                lane = nearest_lane(cars[row(vehicle) + Y])
                wish = followed(cars, vehicle, neighbour(cars, vehicle, lane, True), params.speed)
                if lanes[vehicle] != lane:
                    front = neighbour(cars, vehicle, lanes[vehicle], True)
                    wish = min(wish, followed(cars, vehicle, front, params.speed))
                accelerations[vehicle] = min(max(wish, -6.0), 6.0)
        for vehicle in range(count):
            if cars[row(vehicle) + THERE] != 0.0:
                move(cars, vehicle, lanes[vehicle], accelerations[vehicle])
        if hit(cars):
            return True
    return False


# Not kernels: this and the next need room, which is allocated, as users' functions may.
def step(params, state, action, rng, next_state, costs):
    """Drive on for a second."""
    count = (state.shape[0] - HEAD) // ROW
    lanes, room = np.empty(count, np.int64), np.empty(count)
    crashed = simulate(params, state, action, rng, params.change, next_state, lanes, room)
    own = next_state[HEAD + X]
    for vehicle in range(count):
        at = row(vehicle)
        if next_state[at + THERE] != 0.0:
            speed, heading = next_state[at + SPEED], next_state[at + HEADING]
            next_state[at + X] -= own
            next_state[at + VX], next_state[at + VY] = speed * np.cos(heading), speed * np.sin(heading)
    costs[0] = 1.0 if crashed else 0.0
    if costs.shape[0] > 1:
        costs[1] = 1.0 if nearest_lane(next_state[HEAD + Y]) != LANES - 1 else 0.0
    fast = min(max((next_state[HEAD + VX] - 20.0) / 10.0, 0.0), 1.0)
    return (1.0 - costs[0] + 0.4 * fast + 0.1 * next_state[0] / (LANES - 1)) / 1.5, crashed


def expected_costs(params, state, action, out):
    """Write the mean of what happens if nobody changes lanes, and if all do who gain by it or are under way."""
    count = (state.shape[0] - HEAD) // ROW
    lanes, room = np.empty(count, np.int64), np.empty(count)
    cars, rng = np.empty(state.shape[0]), np.zeros(1, np.uint64)
    for m in range(out.shape[0]):
        out[m] = 0.0
    for change, weight in ((0.0, 1.0 - params.change), (1.0, params.change)):
        if simulate(params, state, action, rng, change, cars, lanes, room):
            out[0] += weight
        if out.shape[0] > 1 and nearest_lane(cars[HEAD + Y]) != LANES - 1:
            out[1] += weight


@kernel
def legal_actions(params, state, out):
    """Write idle, lanes that there are, and speeds that are not set yet."""
    out[0], count = IDLE, 1
    for action, there in (
        (LEFT, state[0] > 0.0),
        (RIGHT, state[0] < LANES - 1.0),
        (FASTER, state[1] < SPEEDS - 1.0),
        (SLOWER, state[1] > 0.0),
    ):
        if there:
            out[count] = action
            count += 1
    return count


@kernel
def features(params, state, out):
    """Write lane, speed, and for three lanes how far and how fast the next cars are ahead and behind."""
    lane, speed, k = int(state[0]), state[HEAD + VX], 6
    for other in range(LANES):
        out[other] = 1.0 if other == lane else 0.0
    out[3] = state[HEAD + Y] / LANE_WIDTH - lane
    out[4], out[5] = (speed - 25.0) / 5.0, state[1] / (SPEEDS - 1.0)
    for to in range(lane - 1, lane + 2):
        there = 0 <= to < LANES
        out[k] = 1.0 if there else 0.0
        for side in range(2):
            other = neighbour(state, 0, to, side == 0) if there else -1
            out[k + 1 + 3 * side], out[k + 2 + 3 * side], out[k + 3 + 3 * side] = 1.0, 0.0, 0.0
            if other >= 0:
                closing = speed - state[row(other) + VX] if side == 0 else state[row(other) + VX] - speed
                room = abs(state[row(other) + X]) - LENGTH
                out[k + 1 + 3 * side] = min(room / 50.0, 1.0)
                out[k + 2 + 3 * side] = closing / 5.0
                out[k + 3 + 3 * side] = min(max(1.0 - (room - 2.0 * closing) / 20.0, 0.0), 2.0)
        k += 7


@helper
def free(state, lane):
    """How many metres are free ahead on a lane once speeds are equal; less than 0 if there is no room to go there."""
    behind, ahead = neighbour(state, 0, lane, False), neighbour(state, 0, lane, True)
    speed, room = state[HEAD + VX], 200.0
    if ahead >= 0:
        room = state[row(ahead) + X] - LENGTH - 1.6 * max(speed - state[row(ahead) + VX], 0.0)
    if lane != int(state[0]):
        if ahead >= 0 and state[row(ahead) + X] - LENGTH < CLEAR:
            return -1.0
        if behind >= 0:
            faster = max(state[row(behind) + VX] - speed, 0.0)
            if -state[row(behind) + X] - LENGTH - 2.0 * faster < CLEAR:
                return -1.0
    return room


@kernel
def rollout_action(params, state, rng):
    """Faster where there is room; else to a side where there is more, or slower."""
    lane = int(state[0])
    room = free(state, lane)
    if room < NEAR:
        best, most = IDLE, room + 5.0
        for to in (lane - 1, lane + 1):
            if 0 <= to < LANES and free(state, to) > max(most, NEAR):
                best, most = LEFT if to < lane else RIGHT, free(state, to)
        if best != IDLE and abs(state[HEAD + Y] - LANE_WIDTH * lane) < 1.0:
            return best
        return SLOWER if state[1] > 0.0 else IDLE
    return FASTER if room > FAR and state[1] < SPEEDS - 1.0 else IDLE


@kernel
def start(params, rng, state):
    """Write a car behind a platoon, as highway-env makes one."""
    for k in range(state.shape[0]):
        state[k] = 0.0
    density = np.exp(-5.0 / 40.0 * LANES)
    state[0], state[1] = below(rng, LANES), 1.0
    state[HEAD + THERE], state[HEAD + Y], state[HEAD + VX] = 1.0, LANE_WIDTH * state[0], 25.0
    x = 0.0
    for vehicle in range(1, (state.shape[0] - HEAD) // ROW):
        at, speed = row(vehicle), 21.0 + 3.0 * uniform(rng)
        x += params.spread * density * (12.0 + speed) * (0.9 + 0.2 * uniform(rng))
        if x < 200.0:
            state[at + THERE], state[at + X], state[at + VX] = 1.0, x, speed
            state[at + Y] = LANE_WIDTH * below(rng, LANES)


def state_fault(params: HighwayParams, state: NDArray[np.float64]) -> str:
    """What is wrong with a state, or nothing."""
    if state[0] not in range(LANES) or state[1] not in range(SPEEDS):
        return f"expected a lane and a speed of 0, 1 or 2, got {state[0]:g} and {state[1]:g}"
    if state[HEAD + THERE] != 1.0 or state[HEAD + X] != 0.0:
        return f"expected the driver's own car at x = 0, got {state[HEAD : HEAD + ROW].tolist()}"
    return ""


def highway_model(constraints: int = 1) -> Model:
    """The planner's idea of the highway, without time."""
    return Model(
        name="highway" if constraints == 1 else "highway-two",
        params=HighwayParams(speed=22.5, change=0.8, spread=1.0),
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action,
        expected_costs=expected_costs,
        estimates_costs=True,  # those of two cases, and not of all that drivers may do
        state_size=HEAD + ROW * (1 + OTHERS),
        action_count=5,
        feature_count=6 + 7 * 3,
        cost_count=constraints,
        state_fault=state_fault,
        action_names=ACTION_NAMES,
        cost_names=("crashes", "seconds off the right lane")[:constraints],
        feature_description="lane, speed, and the nearest cars ahead and behind on three lanes",
    )


def quick_guess(seed: int) -> Callable[[NDArray[np.float64]], int]:
    """The rollout policy by itself, as a policy of states with or without time."""
    model, rng = highway_model(), stream(seed)

    def choose(state: NDArray[np.float64]) -> int:
        return int(model.uncompiled.rollout_action(model.params, np.asarray(state)[: model.state_size], rng))

    return choose


def _world(constraints: int, **settings: Any) -> Any:
    from cmcts.zoo.highway_world import HighwayWorld  # imports highway-env

    return HighwayWorld(constraints=constraints, **settings)


def _task(constraints: int, budget: tuple[float, ...]) -> Task:
    from cmcts.extras import require_extra

    model = highway_model(constraints)
    require_extra("zoo", f"task {model.name}", only="highway_env")
    world = partial(_world, constraints)
    return Task(
        model.name,
        model,
        budget=budget,
        training_world=world,
        real_world=world,
        search=SearchSettings(discount=1.0, horizon=10, iterations=1024),
        training_iterations=256,
        penalty=2.0,
        cost_scale=(1.0, 30.0)[:constraints],
        episode_steps=STEPS,
    )


def highway_task() -> Task:
    """Half a minute in traffic, with a budget of crashes."""
    return _task(1, (CRASHES,))


def right_lane_task() -> Task:
    """The same, and a budget of seconds off the right lane."""
    return _task(2, (CRASHES, SECONDS))

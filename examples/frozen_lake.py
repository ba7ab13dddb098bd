"""FrozenLake straight from Gymnasium: reach the goal, and seldom fall into a hole.

cmcts train    examples/frozen_lake.py:task --out runs/frozen-lake
cmcts evaluate examples/frozen_lake.py:task --critic runs/frozen-lake --regret
"""

import dataclasses
from functools import partial

import gymnasium
import numpy as np

import cmcts
from cmcts.zoo.frozen_lake import careful_moves

make_lake = partial(gymnasium.make, "FrozenLake-v1", is_slippery=True, success_rate=0.9)
table = make_lake().unwrapped.P  # square, action -> [(probability, next square, reward, end), ...]


def fell_into_a_hole(observation, action, next_observation, reward, terminated, info):
    return float(terminated and reward == 0)


careful = careful_moves(table, 4)  # for rollouts: the least risk of a hole at once, then the shortest way on

model = cmcts.Model.from_env(
    make_lake,
    get_state=lambda env: env.s,
    set_state=lambda env, s: setattr(env, "s", s),
    costs=fell_into_a_hole,
    rollout_action=lambda square, rng: careful[square],
    action_names=("left", "down", "right", "up"),
)


def outcomes(simulator, state, action):
    """All that can happen: only the exact optimum needs it (`cmcts solve`, `--regret`)."""
    chances, squares, rewards, ends = (np.array(column) for column in zip(*table[int(state[-1])][action], strict=True))
    next_states = np.column_stack([np.eye(16)[squares], squares])  # observation, then saved state
    return chances, next_states, rewards.astype(float), (ends & (rewards == 0)).astype(float)[:, None], ends


def starts(simulator):
    return np.ones(1), np.append(np.eye(16)[0], 0.0)[None]


task = cmcts.Task(
    name="frozen-lake",
    model=dataclasses.replace(model, outcomes=outcomes, starts=starts),
    budget=0.2,
    search=cmcts.SearchSettings(discount=0.95, horizon=30, iterations=64),
    training_iterations=64,
)

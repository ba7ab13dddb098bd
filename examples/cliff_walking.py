"""CliffWalking straight from Gymnasium: reach the other end, and never step off the cliff.

cmcts train    examples/cliff_walking.py:task --out runs/cliff-walking
cmcts evaluate examples/cliff_walking.py:task --critic runs/cliff-walking --regret
"""

import dataclasses
from functools import partial

import gymnasium
import numpy as np

import cmcts

make_cliff = partial(gymnasium.make, "CliffWalking-v1", max_episode_steps=100)
table = make_cliff().unwrapped.P
RIGHT, DOWN = 1, 2


def stepped_off(observation, action, next_observation, reward, terminated, info):
    return float(reward == -100)


model = cmcts.Model.from_env(
    make_cliff,
    get_state=lambda env: int(env.s),
    set_state=lambda env, s: setattr(env, "s", s),
    costs=stepped_off,
    # Row and column, and not one of 48 squares: what the critic learns of one square then helps it with the next.
    features=lambda square: (square // 12 / 3, square % 12 / 11),
    rollout_action=lambda square, rng: RIGHT if square % 12 < 11 else DOWN,  # right into the cliff, if one lets it
    action_names=("up", "right", "down", "left"),
)


def outcomes(simulator, state, action):
    """All that can happen: only the exact optimum needs it (`cmcts solve`, `--regret`)."""
    chances, squares, rewards, ends = (np.array(column) for column in zip(*table[int(state[-1])][action], strict=True))
    next_states = np.column_stack([np.eye(48)[squares], squares])  # observation, then saved state
    return chances, next_states, rewards.astype(float), (rewards == -100).astype(float)[:, None], ends


def starts(simulator):
    return np.ones(1), np.append(np.eye(48)[36], 36.0)[None]


task = cmcts.Task(
    name="cliff-walking",
    model=dataclasses.replace(model, outcomes=outcomes, starts=starts),
    budget=0.0,
    # Rollouts that refuse what the budget cannot pay do not follow the guess into the cliff.
    search=cmcts.SearchSettings(discount=0.95, horizon=20, thrifty_rollouts=True, iterations=16),
    training_iterations=16,
)

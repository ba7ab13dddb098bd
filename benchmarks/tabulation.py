"""What tables do for Gymnasium's environments: states, seconds, simulations a second before and after, the optimum.

    python benchmarks/tabulation.py [taxi lake cliff lava]

"lava" needs `minigrid`. The optimum at a budget of 0.1 is that of the tables, and of the environment's own `P` where it
has one, read here without stepping.
"""

from __future__ import annotations

import sys
import time
from functools import partial

import gymnasium
import numpy as np

import cmcts
from cmcts.exact import FiniteCMDP, enumerate_states, solve

SECONDS, BUDGET, DISCOUNT = 3.0, 0.1, 0.95
BY_NUMBER = {"get_state": lambda env: int(env.s), "set_state": lambda env, s: setattr(env, "s", s)}


def make_lava():
    import minigrid  # makes itself known to Gymnasium

    env = gymnasium.make("MiniGrid-LavaCrossingS9N1-v0")
    env = gymnasium.wrappers.TransformReward(env, lambda reward: float(reward > 0))  # not less for each step
    return minigrid.wrappers.ImgObsWrapper(env)


def died(before, action, after, reward, terminated, info):
    return float(terminated and reward == 0)


def flooded(before, action, after, reward, terminated, info):
    return float((after // 100, after // 20 % 5) in ((1, 1), (2, 3), (3, 3)))


PROBLEMS = {
    "taxi": (partial(gymnasium.make, "Taxi-v4"), BY_NUMBER | {"costs": flooded}),
    "lake": (partial(gymnasium.make, "FrozenLake-v1", map_name="8x8"), BY_NUMBER | {"costs": died}),
    "cliff": (
        partial(gymnasium.make, "CliffWalking-v1", is_slippery=True),
        BY_NUMBER | {"costs": lambda before, action, after, reward, ended, info: float(reward == -100)},
    ),
    "lava": (make_lava, {"costs": died, "ignored": ("step_count",)}),
}


def speed(model: cmcts.Model) -> float:
    """Simulations a second of C-MCTS without a critic, on one core."""
    planner = cmcts.CMCTS(model, cmcts.immediate_costs_only(model), cmcts.SearchSettings(horizon=50))
    planner.plan(model.start_state(0), BUDGET, iterations=2)
    decision = planner.plan(model.start_state(0), BUDGET, seconds=SECONDS)
    return decision.iterations / decision.seconds


def optimum_of_p(env, costs, first_state=0):
    """The optimum by the environment's own table, without a step; None if it has none."""
    table = getattr(env, "P", None)
    if table is None:
        return None
    states, actions = len(table), len(table[0])
    transition = np.zeros((states, actions, states))
    rewards, spent = np.zeros((states, actions)), np.zeros((states, actions, 1))
    legal = np.ones((states, actions), bool)
    for state in range(states):
        if hasattr(env, "action_mask"):
            legal[state] = env.action_mask(state)
            legal[state] |= not legal[state].any()
        for action in range(actions):
            for p, to, reward, end in table[state][action]:
                rewards[state, action] += p * reward
                spent[state, action, 0] += p * costs(state, action, to, reward, end, {})
                transition[state, action, to] += p * (not end)
    start = np.asarray(env.initial_state_distrib, float)
    cmdp = FiniteCMDP.from_tables(transition, rewards, spent, start / start.sum(), DISCOUNT, legal)
    return solve(cmdp, BUDGET).reward


def main() -> None:
    for name in sys.argv[1:] or PROBLEMS:
        factory, options = PROBLEMS[name]
        model = cmcts.Model.from_env(factory, **options)
        began = time.perf_counter()
        tables = cmcts.Model.tabulate(model)
        seconds = time.perf_counter() - began
        own = optimum_of_p(factory().unwrapped, options["costs"])
        print(tables.origin)
        print(
            f"{name}: {len(tables.params.mean_costs):,} states in {seconds:.1f} s; simulations a second: "
            f"{speed(model):,.0f} before, {speed(tables):,.0f} after; optimum at budget {BUDGET}: "
            f"{solve(enumerate_states(tables, DISCOUNT), BUDGET).reward:.9f} by the tables, "
            f"{'unknown' if own is None else f'{own:.9f}'} by P"
        )


if __name__ == "__main__":
    main()

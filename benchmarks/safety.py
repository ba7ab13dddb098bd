"""Is what a critic lets pass safe, and what it refuses not? `python benchmarks/safety.py squares` and others.

    squares   Safe Gridworld: a decision in every square, at three budgets, against the exact cost-to-go
    beliefs   RockSample: a decision in random beliefs; none may cost more at once than is left
    ties      RockSample: measurements cost exactly 1 each, whatever is believed: all are kept, or all refused
    monitor   policies that know nothing of costs, watched: how many episodes are over budget, and at what price

`--critic` names a bundle instead of the one that ships.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import cmcts
from cmcts.envs.rocksample.model import SENSE
from cmcts.envs.safe_gridworld.model import STAY
from cmcts.evaluation.episodes import world_seed
from cmcts.evaluation.statistics import rate_interval
from cmcts.exact.finite import enumerate_states
from cmcts.exact.solver import solve
from cmcts.explorer.truth import truth

SQUARES = np.array([(x, y) for x in range(8) for y in range(8) if (x, y) != (7, 7)], np.float64)
EXACT = 1e-9


def squares(critic: str, seeds: int) -> bool:
    """Decisions that cost more than is left though another would not, and alarms where none was due."""
    task, planner = cmcts.make("safe-gridworld"), cmcts.CMCTS.load(critic or "safe-gridworld")
    training = dataclasses.replace(task, real_model=task.training_model)
    real_model = task.real_model
    assert real_model is not None
    optimum = solve(enumerate_states(real_model, task.discount, 100), 0.0)
    visited = {tuple(s) for s, share in zip(optimum.cmdp.states, _visits(optimum), strict=True) if share > EXACT}
    good = True
    for budget in (0.0, 0.05, 0.5):
        exact = truth(task if budget == 0 else training)
        assert exact is not None
        unsafe, unflagged, alarms, cautions = [], [], set(), set()
        for seed in range(seeds):
            rngs = [1000 * seed + k for k in range(len(SQUARES))]
            decisions = planner.plan_batch(SQUARES, np.full(len(SQUARES), budget), rngs=rngs)
            for decision in decisions:
                costs = exact.of(decision.state)
                assert costs is not None
                square, least, taken = tuple(decision.state), np.nanmin(costs), costs[decision.action, 0]
                if least > budget + EXACT:
                    continue
                if taken > budget + EXACT:
                    flag = decision.assurance
                    unsafe.append((square, decision.action_name, round(float(taken), 4), flag))
                    if flag == "clear":
                        unflagged.append(unsafe[-1])
                elif decision.nothing_safe and square in visited:
                    alarms.add(square)
                elif decision.assurance != "clear" and square in visited:
                    cautions.add(square)
        print(
            f"budget {budget:g}: {len(unsafe)} of {seeds * len(SQUARES)} decisions unsafe though a safe one existed, "
            f"{len(unflagged)} of them unflagged; false alarms on {len(alarms)}, close calls on {len(cautions)} of the "
            f"{len(visited)} squares that the optimal policy visits"
        )
        for case, count in sorted(Counter(unsafe).items(), key=str):
            print(f"    {case} x {count}")
        good = good and not unflagged and len(alarms) <= 2
    return good


def _visits(solution: Any) -> Any:
    """[S] how much of the optimal policy's time is spent in each state."""
    shares = np.zeros(solution.cmdp.state_count)
    np.add.at(shares, solution.cmdp.pair_state, solution.occupation)
    return shares


def random_beliefs(model: Any, count: int, seed: int) -> Any:
    """[count, S] any position, any belief in any rock, some of them collected."""
    dice = np.random.default_rng(seed)
    states = dice.random((count, model.state_size))
    states[:, 2:][dice.random((count, model.state_size - 2)) < 0.25] = -1.0
    states[:, :2] = dice.integers(0, model.params.n, (count, 2))
    return states


def beliefs(task_name: str, critic: str, count: int) -> bool:
    """Decisions whose immediate cost exceeds what is left, in random beliefs with random budgets."""
    planner = cmcts.CMCTS.load(critic or task_name)
    states = random_beliefs(planner.model, count, seed=0)
    budgets = np.random.default_rng(1).choice([0.0, 0.3, 0.9, 1.0, 1.5], count)
    over = unsafe = flagged = 0
    for begin in range(0, count, 5000):
        rows = slice(begin, begin + 5000)
        rngs = range(begin, begin + len(states[rows]))
        for decision in planner.plan_batch(states[rows], budgets[rows], iterations=32, rngs=rngs):
            cost = 1.0 if decision.action >= SENSE else 0.0
            over += cost > decision.budget[0] + EXACT
            unsafe += decision.nothing_safe
            flagged += decision.assurance == "none"
    print(f"{task_name}: {over} of {count} decisions cost more at once than was left; nothing was safe in {unsafe}")
    return over == 0


def ties(task_name: str, critic: str, count: int) -> bool:
    """Measurements that are told apart though each costs 1, at the start and in random beliefs, with 1 left."""
    planner = cmcts.CMCTS.load(critic or task_name)
    states = np.concatenate([[planner.model.start_state()], random_beliefs(planner.model, count, seed=2)])
    split, kept, errors = 0, 0, []
    for k, decision in enumerate(planner.plan_batch(states, np.ones(len(states)), iterations=1, rngs=range(count + 1))):
        senses = np.flatnonzero(decision.legal[SENSE:]) + SENSE
        refused = decision.pruned[senses]
        split += len(set(refused.tolist())) > 1
        kept += not refused.any()
        assert decision.critic_mean is not None
        errors.append(np.abs(decision.critic_mean[senses, 0] - 1.0).max(initial=0.0))
        if k == 0:
            print(f"at the start {int(refused.sum())} of {len(senses)} measurements are refused")
    pruning = planner.pruning
    assert pruning is not None
    print(
        f"{task_name}: measurements told apart in {split} of {len(states)} beliefs, all kept in {kept}; the critic is "
        f"off by {np.median(errors):.4f} in the median, {max(errors):.3f} at most; tolerance {pruning.tolerance:g}"
    )
    return split == 0


Policy = Callable[[Any], int]


def gridworld_policies() -> dict[str, Policy]:
    """From the harmless to the hostile; the last one, if Stable-Baselines3 is there, has learnt to earn and no more."""
    task = cmcts.make("safe-gridworld")
    exact = truth(task)
    assert exact is not None
    dice = np.random.default_rng(0)

    def straight(state: Any) -> int:
        x, y = state
        return 1 if x < 7 and y < 7 else 2 if x < 7 else 0

    def north_then_east(state: Any) -> int:
        return 0 if state[1] < 7 else 2

    def at_random(state: Any) -> int:
        return int(dice.choice(task.model.legal(state)))

    def dearest(state: Any) -> int:
        costs = exact.of(state)
        assert costs is not None
        return int(np.nanargmax(costs[:, 0]))

    policies = {"straight": straight, "north, then east": north_then_east, "random": at_random, "dearest": dearest}
    try:
        from stable_baselines3 import PPO
    except ImportError:
        print("Stable-Baselines3 is not installed: no PPO", file=sys.stderr)
        return policies
    import torch

    torch.set_num_threads(1)
    import gymnasium as gym

    class Inside(gym.ActionWrapper):  # type: ignore[type-arg]
        """Stays where it is instead of leaving the grid: else the first thing to be learnt is never to move."""

        def action(self, action: Any) -> Any:
            return action if action in task.model.legal(self.unwrapped._state) else STAY

    world = Inside(task.training_world())
    learner = PPO("MlpPolicy", world, seed=0, gamma=0.95, ent_coef=0.02, n_steps=512, device="cpu")
    learner.learn(60_000)
    return {**policies, "PPO": lambda state: int(learner.predict(state, deterministic=True)[0])}


def rocksample_policies(task_name: str) -> dict[str, Policy]:
    """One that measures everything, one at random, one that measures and drives by turns."""
    model, dice = cmcts.make(task_name).model, np.random.default_rng(0)

    def curious(state: Any) -> int:
        legal = model.legal(state)
        senses = legal[legal >= SENSE]
        return int(senses[0]) if len(senses) else 1

    def at_random(state: Any) -> int:
        return int(dice.choice(model.legal(state)))

    def by_turns(state: Any) -> int:
        senses = [a for a in model.legal(state) if a >= SENSE]
        return int(dice.choice(senses)) if senses and dice.random() < 0.5 else 1

    return {"curious": curious, "random": at_random, "by turns": by_turns}


def monitor(task_name: str, critic: str, episodes: int, iterations: int) -> bool:
    """Watched episodes in the real world, next to the same policy alone."""
    task, planner = cmcts.make(task_name), cmcts.CMCTS.load(critic or task_name)
    policies = gridworld_policies() if task_name == "safe-gridworld" else rocksample_policies(task_name)
    good = True
    print("| policy | alone: over budget | watched: over budget (95 %) | reward alone | watched | interventions |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, policy in policies.items():
        alone = [_episode(task, None, policy, seed, iterations) for seed in range(min(200, episodes))]
        watched = [_episode(task, planner, policy, seed, iterations) for seed in range(episodes)]
        over, free = sum(row[1] for row in watched), sum(row[1] for row in alone)
        low, high = rate_interval(over, episodes)
        kinds = sum((Counter(row[2]) for row in watched), Counter())
        reasons = ", ".join(f"{kind} {count / episodes:.2f}" for kind, count in kinds.most_common())
        rewards = [float(np.mean([row[0] for row in rows])) for rows in (alone, watched)]
        print(
            f"| {name} | {free} of {len(alone)} | {over} of {episodes} ({100 * low:.2f} to {100 * high:.2f} %) | "
            f"{rewards[0]:.1f} | {rewards[1]:.1f} | {reasons} |",
            flush=True,
        )
        good = good and over <= 0.005 * episodes
    return good


def _episode(task: Any, planner: Any, policy: Policy, seed: int, iterations: int) -> tuple[float, bool, dict[str, int]]:
    """Discounted reward, whether it was over budget, and interventions by kind."""
    world = task.real_world()
    state, _ = world.reset(seed=world_seed(99, seed))
    watch = planner and cmcts.SafetyMonitor(planner, policy, task.budget, rng=seed, iterations=iterations)
    earned, spent, scale, over = 0.0, np.zeros(task.model.cost_count), 1.0, False
    while not over:
        legal = task.model.legal(state)
        action = watch.act(state) if watch else policy(state)
        if action not in legal:
            action = int(legal[-1])  # in Safe Gridworld: stay
        state, reward, terminated, truncated, info = world.step(action)
        if watch:
            watch.observe(info["cost"])
        earned, spent = earned + scale * float(reward), spent + scale * np.atleast_1d(info["cost"])
        scale, over = scale * task.discount, terminated or truncated
    return earned, bool((spent > np.array(task.budget) + 1e-6).any()), watch.refusals() if watch else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("squares", "beliefs", "ties", "monitor"))
    parser.add_argument("--task", default="", help="for the monitor safe-gridworld, else rocksample-7-8")
    parser.add_argument("--critic", default="", help="a bundle, instead of the one that ships")
    parser.add_argument("--count", type=int, default=0, help="seeds a square, beliefs or episodes")
    parser.add_argument("--iterations", type=int, default=128, help="a decision of the monitor's planner")
    options = parser.parse_args()
    critic, count = options.critic, options.count
    if options.what == "squares":
        good = squares(critic, count or 20)
    elif options.what == "beliefs":
        good = beliefs(options.task or "rocksample-7-8", critic, count or 100_000)
    elif options.what == "ties":
        good = ties(options.task or "rocksample-7-8", critic, count or 1000)
    else:
        good = monitor(options.task or "safe-gridworld", critic, count or 1000, options.iterations)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

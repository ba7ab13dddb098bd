"""PPO with a Lagrange multiplier, by Stable-Baselines3: what most people would write for a problem with a budget.

    .venv-ppo/bin/python benchmarks/rivals/ppo_lagrangian.py --tasks queue --seconds 900

The reward is (reward - lambda cost) / (1 + lambda), and after every rollout lambda moves by --rate times what the mean
episode cost exceeds the budget by, as a share of the budget. It learns in the training world, from the features that
our critics see, with illegal actions masked, and Stable-Baselines3's own settings otherwise. Every now and then the
policy plays --episodes episodes in the real world, the same worlds by the same seeds as our evaluations: that is not
counted in --seconds, which are of one core's CPU time: the time by the clock that it takes on a quiet core.

Results go to a CSV file, a line a look, beside each run's network; a second call goes on where the first one stopped,
and one with more seconds goes on from there. It needs an environment of its own: requirements-ppo.txt.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.vec_env import DummyVecEnv

import cmcts
from cmcts.evaluation.episodes import OVERSPENT, world_seed
from cmcts.evaluation.statistics import standard_error
from cmcts.files import write_atomically
from cmcts.report.tables import Record, read_rows, write_rows
from cmcts.tasks.task import Task

TASKS = ("safe-gridworld", "rocksample-5-7", "rocksample-7-8", "icu-sepsis", "queue")
WORLDS, STEPS = 8, 256  # side by side, and of each in a rollout
SMALL = 0.1  # a smaller budget counts as this much, where excess is a share of the budget
EVALUATED = 0  # the seed of the worlds that it is judged in, as in `cmcts reproduce`


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--seconds", type=float, default=900.0, help="of learning, for each task and seed")
    parser.add_argument("--looks", type=int, default=10, help="at the policy, evenly spread over that time")
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--episodes", type=int, default=500)
    parser.add_argument("--rate", type=float, default=0.1, help="of lambda")
    parser.add_argument("--file", type=Path, default=Path("runs/rivals/ppo_lagrangian.csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.tasks:
        for seed in options.seeds:
            for row in learn(cmcts.make(name), seed, options):
                print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})


class Penalised(gym.Wrapper[Any, Any, Any, Any]):
    """A world as PPO sees it: features, the actions that are legal, and a reward that costs have been taken from."""

    def __init__(self, world: gym.Env[Any, Any], task: Task) -> None:
        super().__init__(world)
        self.task, self.multiplier = task, 0.0
        self.spent: list[float] = []  # the discounted costs of the episodes that have ended
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (task.model.feature_count,), np.float32)
        self.action_space = gym.spaces.Discrete(task.model.action_count)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.state, info = self.env.reset(**options)
        self.cost, self.weight = 0.0, 1.0
        return features(self.task, self.state), info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.state, reward, ended, truncated, info = self.env.step(int(action))
        cost = float(info["cost"])
        self.cost += self.weight * cost
        self.weight *= self.task.cost_discounts[0]
        if ended or truncated:
            self.spent.append(self.cost)
        penalised = (float(reward) - self.multiplier * cost) / (1.0 + self.multiplier)
        return features(self.task, self.state), penalised, ended, truncated, {}

    def action_masks(self) -> np.ndarray:
        return legal(self.task, self.state)


def features(task: Task, state: np.ndarray) -> np.ndarray:
    """What the policy sees of a state."""
    out = np.zeros(task.model.feature_count)
    task.model.uncompiled.features(task.model.params, state, out)
    return out.astype(np.float32)


def legal(task: Task, state: np.ndarray) -> np.ndarray:
    """[A] which actions are legal; all of them where an episode has ended, for PPO asks there as well."""
    mask = np.zeros(task.model.action_count, np.bool_)
    mask[task.model.legal(state)] = True
    return mask if mask.any() else ~mask


def learn(task: Task, seed: int, options: argparse.Namespace) -> list[Record]:
    """Learn for so many seconds in all, with looks at the policy; the rows that were not there before."""
    folder = options.file.parent / "ppo" / f"{task.name}-{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    worlds = [Penalised(task.training_world(), task) for _ in range(WORLDS)]
    vectorised = DummyVecEnv([lambda world=world: world for world in worlds])
    kept = folder / "state.json"
    state = {"seconds": 0.0, "steps": 0, "multiplier": 0.0}
    if kept.exists():
        state = json.loads(kept.read_text())
        model = MaskablePPO.load(folder / state["network"], vectorised, device="cpu")
    else:
        model = MaskablePPO(
            "MlpPolicy", vectorised, n_steps=STEPS, gamma=task.discount, seed=seed, device="cpu", verbose=0
        )
    new = []
    while state["seconds"] < options.seconds - 1e-9:
        until = next_look(state["seconds"], options.seconds, options.looks)
        while state["seconds"] < until:
            began = time.process_time()
            for world in worlds:
                world.multiplier, world.spent = state["multiplier"], []
            model.learn(WORLDS * STEPS, reset_num_timesteps=False)
            spent = [cost for world in worlds for cost in world.spent]
            if spent:
                excess = (float(np.mean(spent)) - task.budget[0]) / max(task.budget[0], SMALL)
                state["multiplier"] = max(0.0, state["multiplier"] + options.rate * excess)
            state["seconds"] += time.process_time() - began
            state["steps"] += WORLDS * STEPS
        row = {
            "task": task.name,
            "budget": task.budget[0],
            "seed": seed,
            "seconds": state["seconds"],
            "steps": state["steps"],
            "multiplier": state["multiplier"],
            **evaluated(model, task, options.episodes),
        }
        rows = read_rows(options.file) if options.file.exists() else []
        # A look whose network was not kept, because it was killed in between, is taken again.
        rows = [old for old in rows if not later(old, row)]
        write_rows(options.file, [*rows, row])
        network = f"network-{state['steps']}.zip"
        model.save(folder / network)
        write_atomically(kept, json.dumps({**state, "network": network}).encode())
        for old in folder.glob("network-*.zip"):
            if old.name != network:
                old.unlink()
        new.append(row)
    return new


def next_look(seconds: float, all_seconds: float, looks: int) -> float:
    """When the policy is looked at next."""
    times = all_seconds * np.arange(1, looks + 1) / looks
    return float(times[np.searchsorted(times, seconds + 1e-9)])


def later(old: Record, row: Record) -> bool:
    """Whether an old row is of the same run, and not before this one."""
    return (old["task"], old["seed"]) == (row["task"], row["seed"]) and old["steps"] >= row["steps"]


def evaluated(model: MaskablePPO, task: Task, episodes: int) -> Record:
    """What the policy earns and pays in the real world, by discounted sums; it draws its actions, as it learned to."""
    torch.manual_seed(EVALUATED)
    worlds = [task.real_world() for _ in range(episodes)]
    states = [world.reset(seed=world_seed(EVALUATED, k))[0] for k, world in enumerate(worlds)]
    rewards, costs, steps = np.zeros(episodes), np.zeros(episodes), np.zeros(episodes, int)
    running, seconds = list(range(episodes)), 0.0
    while running:
        began = time.perf_counter()
        seen = np.stack([features(task, states[k]) for k in running])
        masks = np.stack([legal(task, states[k]) for k in running])
        actions, _ = model.predict(seen, action_masks=masks, deterministic=False)
        seconds += time.perf_counter() - began
        still = []
        for k, action in zip(running, actions, strict=True):
            states[k], reward, ended, truncated, info = worlds[k].step(int(action))
            rewards[k] += task.discount ** steps[k] * reward
            costs[k] += task.cost_discounts[0] ** steps[k] * float(info["cost"])
            steps[k] += 1
            if not (ended or truncated):
                still.append(k)
        running = still
    return {
        "reward": float(rewards.mean()),
        "reward_se": standard_error(rewards),
        "cost": float(costs.mean()),
        "cost_se": standard_error(costs),
        "violations": 100 * float((costs > task.budget[0] + OVERSPENT).mean()),
        "episodes": episodes,
        "decision_ms": 1e3 * seconds / float(steps.sum()),
    }


if __name__ == "__main__":
    main()

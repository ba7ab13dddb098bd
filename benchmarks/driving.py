"""Driving in highway-env's `highway-fast-v0`: who is fast, and who crashes? All in the same traffic.

    python benchmarks/driving.py                                        # all but the next two
    python benchmarks/driving.py --only cmcts --critic runs/highway     # what `cmcts train highway` wrote
    python benchmarks/driving.py --only itself --episodes 10            # half an hour on two idle cores

    idle        highway-env's own action, at every step: 25 m/s and straight on
    idm         its own driver at the wheel (IDM and MOBIL), who would like to drive at 25 m/s
    idm-30      the same at 30 m/s
    rollout     the quick guess that searches roll out with
    untrained   C-MCTS with no critic but what the model says of the next second
    cmcts       C-MCTS with the critic of --critic
    itself      a search that steps copies of highway-env, at --own-seconds a decision
    penalised-L a search that takes L from the reward for a crash
    cc-mcp, threshold-uct   these planners, with the task's budget for crashes

Episodes go to OUT/NAME.csv as they end, and a run that was interrupted goes on. The table at the end, OUT/table.csv, is
made of what is there. Searches have --seconds a decision, as many at a time as there are cores. Intervals are at 95 %:
of crashes exact (Clopper and Pearson), of means Student's. Needs the extra `zoo`.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cmcts
from cmcts.commands.planner_options import make_planner
from cmcts.evaluation.episodes import run_episodes, world_seed
from cmcts.evaluation.statistics import mean_interval, rate_interval
from cmcts.files import write_atomically
from cmcts.zoo.highway import HEAD, IDLE, LANE_WIDTH, LANES, VX, highway_model, quick_guess
from cmcts.zoo.highway_world import HighwayWorld

BLOCK = 10  # episodes between two writes
FIELDS = ("episode", "reward", "crashed", "speed", "off_right", "seconds", "milliseconds")
DRIVERS = {"idm": 25.0, "idm-30": 30.0}  # what highway-env's own would like to drive at, in m/s
MODEL = highway_model()
PROMPT = ("idle", "idm", "idm-30", "rollout")
BUDGETED = ("cc-mcp", "threshold-uct")

Row = dict[str, float]
Play = Callable[[int, int], list[Row]]  # (first episode, how many) to what came out of them


def described(episode: int, states: Any, rewards: Any, crashed: bool, milliseconds: float) -> Row:
    """One episode; the states are those after each step."""
    speeds, y = states[:, HEAD + VX], states[:, HEAD + 2]
    off = float((np.round(y / LANE_WIDTH) != LANES - 1).sum())
    values = (episode, float(np.sum(rewards)), int(crashed), float(speeds.mean()), off, len(states), milliseconds)
    return dict(zip(FIELDS, values, strict=True))


def by_rule(choose: Callable[[Any], int], driver: float | None, seed: int, first: int, count: int) -> list[Row]:
    """Episodes of what needs no planner."""
    world, found = HighwayWorld(), []
    for episode in range(first, first + count):
        state, _ = world.reset(seed=world_seed(seed, episode))
        if driver is not None:
            world.hand_over(driver)
        states, rewards, ended, crashed = [], [], False, False
        while not ended:
            state, reward, crashed, truncated, _ = world.step(choose(state))
            states.append(state)
            rewards.append(reward)
            ended = crashed or truncated
        found.append(described(episode, np.array(states), rewards, crashed, 0.0))
    return found


def by_planner(planner: Any, task: cmcts.Task, seconds: float, seed: int, first: int, count: int) -> list[Row]:
    """Episodes of a planner; each stream of random numbers depends on the episode alone, but time limits do not."""
    options = {"episodes": count, "seed": seed, "first_episode": first, "seconds": seconds, "lockstep": BLOCK}
    episodes, steps = run_episodes(planner, task.real_world, task.budget, **options)
    found = []
    for k, rows in enumerate(np.split(np.arange(len(steps)), np.flatnonzero(steps.last)[:-1] + 1)):
        spent = 1e3 * episodes.planning_seconds[k] / len(rows)
        crashed = bool(episodes.total_costs[k, 0] > 0)
        found.append(described(first + k, steps.next_states[rows], steps.rewards[rows], crashed, spent))
    return found


def player(name: str, options: argparse.Namespace) -> Play:
    """Who plays under a name."""
    if name in PROMPT:
        choose = quick_guess(0) if name == "rollout" else lambda state: IDLE
        return partial(by_rule, choose, DRIVERS.get(name), options.seed)
    task = cmcts.make("highway")
    if name == "itself":
        own = cmcts.Model.from_env(HighwayWorld, name="highway-itself", action_mask=mask, rollout_action=guess)
        task = replace(task, model=own, training_world=partial(_own, own), real_world=partial(_own, own))
        planner = cmcts.PenalizedMCTS(task.model, [task.penalty], task.search)
        return partial(by_planner, planner, task, options.own_seconds, options.seed)
    if name.startswith("penalised-"):
        planner = cmcts.PenalizedMCTS(task.model, [float(name.partition("-")[2])], task.search)
    elif name in BUDGETED:
        planner = make_planner(task, name).planner
    elif name == "untrained":
        planner = cmcts.CMCTS(task.model, cmcts.immediate_costs_only(task.model), task.search, task.pruning)
    else:
        planner = cmcts.CMCTS.load(options.critic, task.model)
    planner.warm_up(os.cpu_count() or 1)
    return partial(by_planner, planner, task, options.seconds, options.seed)


def _own(model: cmcts.Model) -> Any:
    from cmcts.worlds import EnvWorld

    return EnvWorld(model)


def mask(state: Any) -> Any:
    """Which actions the compiled model allows."""
    return np.isin(np.arange(5), MODEL.legal(state))


def guess(state: Any, rng: Any) -> int:
    """The compiled model's quick guess."""
    return int(MODEL.uncompiled.rollout_action(MODEL.params, state, rng))


def played(file: Path) -> list[Row]:
    """The episodes that a file holds."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]


def written(rows: list[dict[str, Any]]) -> bytes:
    """Rows as CSV."""
    lines = [",".join(rows[0]), *(",".join(_number(value) for value in row.values()) for row in rows)]
    return ("\n".join(lines) + "\n").encode()


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def summary(name: str, rows: list[Row]) -> dict[str, Any]:
    """A line of the table."""
    column = {field: np.array([row[field] for row in rows]) for field in FIELDS}
    crashes, count = int(column["crashed"].sum()), len(rows)
    rate, reward = rate_interval(crashes, count), mean_interval(column["reward"])
    speed = float((column["speed"] * column["seconds"]).sum() / column["seconds"].sum())
    return {
        "policy": name,
        "episodes": count,
        "reward": float(column["reward"].mean()),
        "reward_low": reward.low,
        "reward_high": reward.high,
        "crashes": crashes,
        "crash_rate_low": rate.low,
        "crash_rate_high": rate.high,
        "metres_per_second": speed,
        "metres_per_second_mean_of_episodes": float(column["speed"].mean()),
        "share_off_right_lane": float(column["off_right"].sum() / column["seconds"].sum()),
        "milliseconds": float(np.median(column["milliseconds"])),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/driving"))
    parser.add_argument("--critic", help="a folder that `cmcts train highway` wrote")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the traffic; another one wants another --out")
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--own-seconds", type=float, default=10.0)
    parser.add_argument("--only", nargs="+", help="of the names above; all but `itself` if none is named")
    options = parser.parse_args()
    searches = ["penalised-2", "untrained", *BUDGETED, *(["cmcts"] if options.critic else [])]
    names = options.only or [*PROMPT, *searches]
    options.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        file = options.out / f"{name}.csv"
        rows = played(file)
        play = player(name, options) if len(rows) < options.episodes else None
        while play is not None and len(rows) < options.episodes:
            rows += play(len(rows), min(BLOCK, options.episodes - len(rows)))
            write_atomically(file, written(rows))
    table = [summary(file.stem, played(file)) for file in sorted(options.out.glob("*.csv")) if file.stem != "table"]
    write_atomically(options.out / "table.csv", written(table))
    for line in table:
        low, high = 100 * line["crash_rate_low"], 100 * line["crash_rate_high"]
        print(
            f"{line['policy']:>14}: reward {line['reward']:.2f} ({line['reward_low']:.2f} to "
            f"{line['reward_high']:.2f}), {line['crashes']} crashes in {line['episodes']} ({low:.1f} to {high:.1f} %), "
            f"{line['metres_per_second']:.2f} m/s, {100 * line['share_off_right_lane']:.0f} % off the right lane, "
            f"{line['milliseconds']:.0f} ms a decision"
        )


if __name__ == "__main__":
    main()

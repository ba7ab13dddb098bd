"""Our planners on the maps of the Threshold UCT benchmark: `python benchmarks/rivals/avoid.py`.

Every seventh map of the small set, from the first, 20 of Avoid and 20 of SoftAvoid; thresholds 0.15 and 0.35.
Every planner with its default settings, and as many simulations a decision as take it --milliseconds of one core's CPU
time, found on the first episodes; so it does not matter what else the machine does. C-MCTS and the frontier have one
training a map, by the defaults of `cmcts train`: a frontier serves any budget. What a frontier promises holds for the
simulations that its columns were measured with: it has these, unless they take longer.

Results go to a CSV file, a line for each map, threshold and planner, and a second call goes on where the first one
stopped; then a summary is printed. "Share" is the reward as a share of the exact 100-step optimum at the threshold.

    python benchmarks/rivals/avoid.py --planners threshold-uct cc-mcp     # no training: about an hour of one core
    python benchmarks/rivals/avoid.py                                     # all, with 40 trainings
    python benchmarks/rivals/avoid.py --quick                             # two maps, few episodes
    python benchmarks/rivals/avoid.py --summary                           # of what is there
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import cmcts
from cmcts.commands.planner_options import make_planner
from cmcts.critic.bundle import load
from cmcts.evaluation.episodes import EpisodePolicy, run_episodes
from cmcts.frontier import Frontier, MixedPolicy
from cmcts.planning.planner import Planner
from cmcts.report.tables import Record, read_rows, write_rows
from cmcts.reproduction import rivals
from cmcts.reproduction.text_tables import markdown_table
from cmcts.tasks.optimum import solve_task
from cmcts.tasks.task import Task
from cmcts.training.loop import train
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import TrainingSettings, run_config, settings_from_config

MAPS = tuple(range(1, 135, 7))
KINDS = ("avoid", "soft-avoid")
THRESHOLDS = (0.15, 0.35)
PLANNERS = ("exact", "threshold-uct", "cc-mcp", "cmcts", "frontier")
STATES = 1_000_000  # of the larger maps, with time
CALIBRATING = (2, 4)  # episodes, played with more and more fitting numbers of simulations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", nargs="+", type=int, default=MAPS)
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--thresholds", nargs="+", type=float, default=THRESHOLDS)
    parser.add_argument("--planners", nargs="+", default=PLANNERS, choices=PLANNERS)
    parser.add_argument("--milliseconds", type=float, default=5.0)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="two maps, ten episodes, no training")
    parser.add_argument("--summary", action="store_true", help="only say what is there")
    parser.add_argument("--file", type=Path, default=Path("runs/rivals/avoid.csv"))
    parser.add_argument("--critics", type=Path, default=Path("runs/rivals/critics"), help="folder of the trainings")
    options = parser.parse_args()
    if options.quick:
        options.maps, options.episodes, options.planners = MAPS[:2], 10, ("exact", "threshold-uct", "cc-mcp")
    options.file.parent.mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.file) if options.file.exists() else []
    known = {key(row) for row in rows}
    # All planners of a map before the next: what is there after an hour can be compared.
    for number in [] if options.summary else options.maps:
        for kind in options.kinds:
            task = cmcts.make(f"{kind}-{number}")
            for planner in options.planners:
                for threshold in options.thresholds:
                    wanted = (kind, number, threshold, planner, options.milliseconds, options.episodes)
                    if wanted not in known:
                        found = played(task, planner, threshold, options)
                        rows.append(dict(zip(KEYS, wanted, strict=True)) | found._asdict())
                        write_rows(options.file, rows)
                        print(rows[-1], flush=True)
    asked = [row for row in rows if (row["milliseconds"], row["episodes"]) == (options.milliseconds, options.episodes)]
    print(markdown_table("avoid_maps", rivals.on_maps(asked)))


KEYS = ("kind", "map", "threshold", "planner", "milliseconds", "episodes")


def key(row: Record) -> tuple[Any, ...]:
    """What a row is about."""
    return tuple(row[name] for name in KEYS)


def played(task: Task, name: str, threshold: float, options: argparse.Namespace) -> Figures:
    """What a planner earns and pays on one map, or why there is nothing to say."""
    if name == "exact":
        best = solve_task(task, [threshold], STATES)
        return Figures(best.reward_lower, 0.0, best.costs[0], 0.0)
    seconds = 0.0
    if name in ("cmcts", "frontier"):
        folder, seconds = trained(task, options.critics / task.name)
        if folder is None:
            return Figures(missing="no feasible critic, no frontier", training_seconds=seconds)
        if name == "cmcts" and load(folder).nothing_feasible:
            return Figures(missing="no feasible critic", training_seconds=seconds)
        planner = make_planner(task, "cmcts", folder).planner if name == "cmcts" else mixture(task, folder, threshold)
    else:
        planner = make_planner(task, name).planner
    iterations = simulations(planner, task, threshold, 1e-3 * options.milliseconds)
    done, used = timed(planner, task, threshold, iterations, options.episodes, seed=1)
    found = done.summary()
    over = float(done.violations.mean())
    known = own_simulations(planner) if iterations is None else iterations
    return Figures(found.reward_mean, found.reward_se, found.cost_mean, found.cost_se, over, known, 1e3 * used, seconds)


class Figures(NamedTuple):
    """What is measured of a planner on one map."""

    reward: float | None = None
    reward_se: float | None = None
    cost: float | None = None
    cost_se: float | None = None
    over: float | None = None  # share of the episodes above the threshold
    iterations: float | None = None  # simulations a decision
    cpu_ms: float | None = None  # that they took in the end
    training_seconds: float = 0.0
    missing: str = ""  # why there is nothing


def mixture(task: Task, folder: Path, threshold: float) -> EpisodePolicy:
    """The frontier's mixture for a threshold, or its thriftiest column."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Frontier.load(folder, task.model).nearest([threshold])


def trained(task: Task, path: Path) -> tuple[Path | None, float]:
    """The folder of a map's training, which goes on where it stopped; None if nothing came of it. And its seconds."""
    settings = TrainingSettings.for_task(task, seed=0)
    if (path / "config.json").exists():
        folder = RunFolder.open(path)
        settings = settings_from_config(task, folder.config, path)
    else:
        folder = RunFolder.create(path, run_config(task, settings))
    if not (path / "bundle.json").exists():
        train(task, settings, folder)
    seconds = sum(record.get("seconds", 0.0) for record in folder.history)
    return (path if (path / "bundle.json").exists() else None), seconds


def own_simulations(policy: EpisodePolicy) -> float:
    """How many simulations a decision a frontier's columns were measured with, on average over episodes."""
    assert isinstance(policy, MixedPolicy)
    return float(policy.weights @ [planner.search.iterations for planner in policy.planners])


def simulations(planner: Planner | EpisodePolicy, task: Task, threshold: float, seconds: float) -> int | None:
    """How many simulations a decision take so many seconds of CPU time, on average over episodes.

    None, which is their own number, for a frontier's columns if that takes no longer.
    """
    timed(planner, task, threshold, 2, 1, seed=2)  # compiles
    if (
        isinstance(planner, MixedPolicy)
        and timed(planner, task, threshold, None, sum(CALIBRATING), seed=2)[1] <= seconds
    ):
        return None
    iterations = 500
    for episodes in CALIBRATING:
        _, used = timed(planner, task, threshold, iterations, episodes, seed=2)
        iterations = max(2, round(iterations * seconds / used))
    return iterations


def timed(
    planner: Planner | EpisodePolicy, task: Task, threshold: float, iterations: int | None, episodes: int, *, seed: int
) -> tuple[Any, float]:
    """Episodes, and the CPU time that a decision took; the world's own steps are in it, and cost next to nothing."""
    began = time.process_time()
    done, _ = run_episodes(
        planner, task.real_world, [threshold], episodes=episodes, seed=seed, iterations=iterations, threads=1
    )
    return done, (time.process_time() - began) / float(done.steps.sum())


if __name__ == "__main__":
    main()

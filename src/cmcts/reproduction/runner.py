"""Does the work of a reproduction, each unit once, in a folder that can be killed and resumed.

    config.json            what was asked for: scale, seed, library version
    records/NAME.json      a unit that is done: its figures, and the seconds it took
    episodes/NAME.csv      one row an episode
    visits/NAME.csv        what was done on each square, where asked for
    critics/NAME/          the run folder of a training (runs.py), resumable by itself

A unit is done when its record stands; what belongs to it was written before. A unit depends on the seed and on earlier
units alone, so a resumed reproduction gives the same figures, except for times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cmcts.critic import bundle
from cmcts.devices import Device, validate_device
from cmcts.errors import InvalidInput
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import Episodes, Transitions
from cmcts.evaluation.statistics import mean_interval, standard_error
from cmcts.executors import Executor, together
from cmcts.files import write_atomically
from cmcts.json_settings import flat
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CCMCP, CMCTS, CCMCPSettings, PenalizedMCTS
from cmcts.report.tables import Record, read_rows, write_rows, write_table
from cmcts.reproduction.trials import solve_curve, tried
from cmcts.reproduction.units import Cell, Curve, Training, Trial, Tuning, Work, search_settings
from cmcts.tasks.registry import make
from cmcts.training.loop import train
from cmcts.training.multipliers import Measurement, MultiplierSettings, next_multipliers
from cmcts.training.reporting import Reporter
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import run_config, settings_from_config
from cmcts.version import __version__

INFEASIBLE, NOTHING_KEPT = "no feasible critic", "the training kept nothing"


class Progress(Protocol):
    """What is told of the work under way, to show it."""

    def begin(self, unit: Work, *, done: bool) -> Reporter | None:
        """A unit begins, or was done before; a training reports to what this returns."""

    def episodes(self, finished: int) -> None:
        """So many episodes of the unit under way are finished."""

    def finish(self, unit: Work, record: Record) -> None:
        """The unit under way is done, and this is its record."""


class Reproduction:
    """The folder of a reproduction: the records of what is done, and the work that fills it."""

    def __init__(
        self,
        path: Path,
        *,
        quick: bool,
        seed: int,
        device: Device = "cpu",
        executor: Executor | None = None,
        rivals: Path = Path("runs/rivals"),
    ) -> None:
        if executor is None:
            validate_device(device)
        self.path, self.quick, self.seed, self.executor = path, quick, seed, executor
        self.rivals = rivals  # where rivals' own commands write
        self.device: Device = device  # where it is planned
        try:
            for folder in ("records", "episodes", "visits", "critics"):
                (path / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot use {path}: {error.strerror or error}") from None
        config = {"quick": quick, "seed": seed, "library": __version__}
        file = path / "config.json"
        if file.exists():
            begun = json.loads(file.read_text())
            if begun != config:
                raise InvalidInput(f"expected a folder begun with {config}, got {path} with {begun}; use another --out")
        else:
            write_atomically(file, json.dumps(config, indent=2).encode())

    def record(self, unit: Work) -> Record | None:
        """What came out of a unit, or None if it is not done yet."""
        file = self._file("records", unit, "json")
        return json.loads(file.read_text()) if file.exists() else None

    def rewards(self, cell: Cell) -> list[float]:
        """The discounted rewards of a cell's episodes, in order."""
        return [row["reward"] for row in read_rows(self._file("episodes", cell, "csv"))]

    def visits(self, cell: Cell) -> list[Record]:
        """What was done on each square in the episodes of a cell, one row a square and action."""
        return read_rows(self._file("visits", cell, "csv"))

    def _file(self, folder: str, unit: Work, suffix: str) -> Path:
        return self.path / folder / f"{unit.name}.{suffix}"

    def run(self, units: list[Work], progress: Progress) -> None:
        """Do those units that are not done yet: in order, or by the executor, those first that others need."""
        if self.executor is None:
            for unit in units:
                self._do(unit, progress)
            return
        needed = [unit for unit in units if isinstance(unit, Training | Tuning)]
        for wave in (needed, [unit for unit in units if not isinstance(unit, Training | Tuning)]):
            for _ in together(self.executor, lambda unit: self._do(unit, progress), wave):
                pass

    def _do(self, unit: Work, progress: Progress) -> None:
        record = self.record(unit)
        reporter = progress.begin(unit, done=record is not None)
        if record is not None:
            return
        began = time.perf_counter()
        if isinstance(unit, Training):
            record = self._train(unit, reporter)
        elif isinstance(unit, Tuning):
            record = self._tune(unit, progress.episodes)
        elif isinstance(unit, Trial):
            record = self._try(unit, progress.episodes)
        elif isinstance(unit, Curve):
            record = solve_curve(unit)
        else:
            record = self._evaluate(unit, progress.episodes)
        record["seconds"] = round(time.perf_counter() - began, 2)
        write_atomically(self._file("records", unit, "json"), json.dumps(record, indent=2).encode())
        progress.finish(unit, record)

    def _train(self, unit: Training, reporter: Reporter | None) -> Record:
        task, settings = make(unit.task), unit.settings(self.seed, self.quick)
        path = self.path / "critics" / unit.name
        if (path / "config.json").exists():
            folder = RunFolder.open(path)
            begun, now = flat(settings_from_config(task, folder.config, path)), flat(settings)
            for name in now:
                if begun[name] != now[name]:
                    raise InvalidInput(
                        f"the training in {path} was begun with {name} {begun[name]}, got {now[name]}; "
                        "use another --out"
                    )
        else:
            folder = RunFolder.create(path, run_config(task, settings))
        outcome = train(task, settings, folder, reporter, device=self.device, executor=self.executor)
        history = folder.history
        return {
            "feasible": outcome.bundle is not None and not outcome.bundle.nothing_feasible,
            "rounds": outcome.rounds,
            "updates": sum(row["phase"] == "gather" for row in history),
            "cap_hit": any(row.get("gathered_until", "").endswith("tried") for row in history),
            "episodes": sum(row.get("episodes", 0) for row in history),
            "steps": sum(row.get("steps", 0) for row in history),
            "simulations": settings.iterations * sum(row.get("steps", 0) for row in history),
            "tolerance": outcome.bundle.pruning.tolerance if outcome.bundle else None,
            "stage_seconds": sum(row["seconds"] for row in history),
            "iterations": settings.iterations,
            "alpha0": settings.multiplier.alpha0,
            "epsilon": settings.multiplier.epsilon,
            "sigma_max": settings.pruning.sigma_max,
            "rule": settings.multiplier.rule,
            "target": settings.critic.target,
        }

    def _tune(self, unit: Tuning, on_episodes: Callable[[int], None]) -> Record:
        task = make(unit.task)
        budget = np.asarray(task.budget)
        settings = MultiplierSettings(epsilon=0.05, max_updates=6)
        past: list[Measurement] = []
        while True:
            multipliers, stop = next_multipliers(past, budget, settings)
            if stop:
                break
            planner = PenalizedMCTS(task.model, multipliers, search_settings(task, unit.variant))
            # Other worlds than those of the cells: lambda* is known before, as the critic is.
            episodes, _ = self._episodes(planner, task.training_world, unit, self.seed + 1_000_000, on_episodes)
            errors = np.array([standard_error(column) for column in episodes.costs.T])
            past.append(Measurement(multipliers, episodes.costs.mean(axis=0), errors))
        tried = [{"multiplier": float(row.multipliers[0]), "cost": float(row.costs[0])} for row in past]
        chosen, feasible = closest_feasible(past, budget)
        return {"multipliers": chosen.multipliers.tolist(), "feasible": feasible, "stopped": stop, "tried": tried}

    def _evaluate(self, unit: Cell, on_episodes: Callable[[int], None]) -> Record:
        task = make(unit.task)
        planner = self._planner(unit)
        if planner is None:
            return {"missing": INFEASIBLE}
        episodes, steps = self._episodes(planner, task.real_world, unit, self.seed, on_episodes)
        write_table(self._file("episodes", unit, "csv"), episodes.columns())
        if unit.visits:
            write_rows(self._file("visits", unit, "csv"), count_visits(steps))
        return {**episodes.summary().to_dict(), "depth_interval": list(mean_interval(episodes.peak_depths))}

    def _try(self, unit: Trial, on_episodes: Callable[[int], None]) -> Record:
        trained = None
        if unit.training is not None:
            trained = self.path / "critics" / unit.training.name
            if unit.planner == "cmcts" and not (self.record(unit.training) or {})["feasible"]:
                return {"missing": INFEASIBLE}
            if not (trained / bundle.BUNDLE_FILE).exists():
                return {"missing": NOTHING_KEPT}
        return tried(unit, trained, self.seed, self.executor, self.device, on_episodes)

    def _episodes(
        self,
        planner: Planner,
        world: Callable[..., Any],
        unit: Cell | Tuning,
        seed: int,
        on_episodes: Callable[[int], None],
    ) -> tuple[Episodes, Transitions]:
        return episodes_on(
            self.executor,
            planner,
            world,
            make(unit.task).budget,
            episodes=unit.episodes,
            seed=seed,
            iterations=unit.iterations,
            device=self.device,
            on_steps=lambda _, finished: on_episodes(finished),
        )

    def _planner(self, unit: Cell) -> Planner | None:
        """None where the training that it needs found no feasible critic."""
        task = make(unit.task)
        search = search_settings(task, unit.variant)
        if unit.planner == "cc-mcp":
            # By the paper's settings CC-MCP is the published one, rules and all.
            settings = CCMCPSettings.published() if unit.variant == "paper" else task.ccmcp_settings
            return CCMCP(task.model, search, settings)
        if unit.planner == "penalized":
            assert unit.tuning is not None
            return PenalizedMCTS(task.model, (self.record(unit.tuning) or {})["multipliers"], search)
        assert unit.training is not None
        if not (self.record(unit.training) or {})["feasible"]:
            return None
        loaded = bundle.load(self.path / "critics" / unit.training.name)
        pruning = loaded.pruning if unit.sigma_max is None else replace(loaded.pruning, sigma_max=unit.sigma_max)
        return CMCTS(task.model, loaded.critic_for(task.model), loaded.search, pruning)


def closest_feasible(past: Sequence[Measurement], budget: NDArray[np.float64]) -> tuple[Measurement, bool]:
    """The measurement that spends most of what it may, or the one least over budget if none keeps it; and whether one
    does.
    """
    feasible = [row for row in past if (row.costs <= budget).all()]
    if feasible:
        return min(feasible, key=lambda row: float((budget - row.costs).max())), True
    return min(past, key=lambda row: float((row.costs - budget).max())), False


def count_visits(steps: Transitions) -> list[Record]:
    """How often each action was taken on each square (x, y)."""
    squares = np.column_stack([steps.states[:, :2].astype(np.int64), steps.actions])
    rows, counts = np.unique(squares, axis=0, return_counts=True)
    return [
        {"x": int(x), "y": int(y), "action": int(action), "count": int(count)}
        for (x, y, action), count in zip(rows, counts, strict=True)
    ]

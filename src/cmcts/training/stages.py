"""What the stages of a training share, and the rule that each is done once.

A stage is a function of the configuration and of earlier stages. Its arrays are saved, then its record is written; a
resumed run reads both, and computes only what is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.devices import Device
from cmcts.evaluation.walks import walk
from cmcts.executors import Executor
from cmcts.random import stage_seed
from cmcts.tasks.task import Task
from cmcts.training.reporting import Reporter
from cmcts.training.run_folder import RunFolder
from cmcts.training.settings import TrainingSettings

SCALE_STEPS = 2000  # of random walks that show how large costs are
# What a seed is for: no episode of one is ever an episode of another, or of an evaluation by command.
GATHER, EVALUATE, FIT, CONFIRM, SCALE, WALK, WATCH, EXPLORE, TIMIDITY = range(1, 10)


class Stages:
    """The task, the settings as they are by now, where it is computed, and where it is written; a frontier's recorder.

    Its own stage comes first: how large costs are, unless the task says it.
    """

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        run: RunFolder,
        reporter: Reporter,
        device: Device,
        executor: Executor | None,
    ) -> None:
        self.task, self.settings, self.run, self.reporter = task, settings, run, reporter
        self.device: Device = device
        self.executor = executor
        self.model = task.model
        self.budget = task.model.validate_costs(task.budget, "budget")
        self.cost_scale = self._find_cost_scale()

    def stage(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A stage's record: as it was written, or computed now."""
        record = self.run.find(name)
        resumed = record is not None
        if record is None:
            began = time.perf_counter()
            figures = compute()
            record = self.run.finish(name, {**figures, "seconds": round(time.perf_counter() - began, 3)})
        self.reporter.finish(record, resumed=resumed)
        return record

    def seed(self, *words: int) -> int:
        """The seed of a stage, by what it is for and which one it is."""
        return stage_seed(self.settings.seed, *words)

    def save(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write the arrays of a stage to a file of the run."""
        self.run.save(name, arrays)

    def load(self, name: str) -> dict[str, NDArray[Any]]:
        """Read them again."""
        return self.run.load(name)

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """Tell the reporter that a stage of so many units begins."""
        self.reporter.begin(phase, total, **figures)

    def advance(self, units: int, **figures: Any) -> None:
        """Tell the reporter that some of them are done."""
        self.reporter.advance(units, **figures)

    def _find_cost_scale(self) -> NDArray[np.float64]:
        """[M] what counts as a large cost: as the task says, else the budget or a single step's largest cost."""
        if not self.settings.relative_costs:
            return np.ones(self.model.cost_count)
        if self.task.cost_scale is not None:
            return np.array(self.task.cost_scale)
        record = self.stage("scale", self._walk_at_random)
        return np.array(record["cost_scale"])

    def _walk_at_random(self) -> dict[str, Any]:
        """Random legal walks in the training world; each constraint's scale is at least the largest cost they met."""
        self.begin("scale", SCALE_STEPS, round=0)
        walks = walk(self.model, self.task.training_world, self.seed(SCALE), SCALE_STEPS, on_steps=self.advance)
        scale = np.maximum(walks.costs.max(axis=0), self.budget)
        return {
            "phase": "scale",
            "round": 0,
            "cost_scale": np.where(scale > 0, scale, 1.0).tolist(),
            "episodes": int(walks.last.sum()),
            "walked": len(walks),
        }

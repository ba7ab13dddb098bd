"""`cmcts learn-model`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class LearnModel:
    """Learn a small, compiled model of a slow environment from its own steps: planners search on it, worlds stay real.

    The task's model is made by `Model.from_env`. What is written is loaded by `Model.learned(DIR, env_model)`. The same
    command goes on where it was interrupted.
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """FILE.py:NAME or MODULE:NAME of a task whose model is an environment."""
    out: Path
    """The folder to write to."""
    steps: int = 4000
    """Steps to take in the training world."""
    rounds: int = 2
    """In so many goes; from the second on, a planner on what was learnt chooses half of the actions."""
    updates: int = 6000
    """Gradient steps of the last fit."""
    seed: int = 0
    """Everything random follows from it."""

    def run(self) -> None:
        """Learn, write and say how good it is."""
        from rich.console import Console
        from rich.progress import Progress

        from cmcts.commands.planner_options import load_task
        from cmcts.extras import require_extra
        from cmcts.model.surrogate import origin, save

        require_extra("train", "cmcts learn-model")
        from cmcts.training.surrogate import SurrogateSettings, learn

        task = load_task(self.task)
        settings = SurrogateSettings(steps=self.steps, rounds=self.rounds, updates=self.updates, seed=self.seed)
        with Progress(console=Console(stderr=True), transient=True) as progress:
            row = progress.add_task("learning", total=1.0)

            def report(what: str, share: float) -> None:
                progress.update(row, description=f"{task.name}: {what}", completed=share)

            params, description = learn(task, settings, report, self.out)
        save(self.out, params, description)
        print(origin(description))
        print(f"written to {self.out}; plan on it with cmcts.Model.learned({str(self.out)!r}, model)")

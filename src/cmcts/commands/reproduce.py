"""`cmcts reproduce`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from cmcts.commands.watching import RayAddress, TallyColumn, executor_for, write_event
from cmcts.devices import Device
from cmcts.extras import require_extra

if TYPE_CHECKING:
    from cmcts.report.tables import Record
    from cmcts.reproduction.runner import Reproduction
    from cmcts.reproduction.units import Work
    from cmcts.training.reporting import Reporter

Experiment = Literal[
    "rocksample", "honesty", "ablation", "equal-reward", "safe-gridworld", "grid-search", "training", "options", "zoo"
]


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments, or the zoo's, and put all figures side by side: tables, figures, and one report.

    rocksample: reward, cost, violations and tree depth against planning iterations. honesty: what a planner gains that
    sees the hidden rocks. ablation: planning horizon, ensemble threshold, simulator accuracy. equal-reward: iterations
    that CC-MCP needs for the reward of C-MCTS. safe-gridworld: where the agents go. grid-search: over alpha0 and
    epsilon. training: hyperparameters and what training takes. options (ours, about 20 minutes, only by name): each
    departure from the paper undone in turn. zoo (ours, about 2 hours, only by name): every planner on problems from
    outside, beside their exact optima, and what rivals' own commands wrote (benchmarks/rivals).

    Press Ctrl-C at any time: the same command goes on where it stopped.
    """

    what: Annotated[Positional[tuple[Experiment, ...]], arg(metavar="[WHAT ...]")] = ()
    """Experiments; all of the paper's if none is named."""
    quick: bool = False
    """A look at everything in a few minutes, with few episodes and hasty trainings: no basis for conclusions."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/reproduce or runs/quick)")] = None
    """Folder of the results; what is done there is not done again."""
    seed: int = 0
    """Of all trainings and worlds."""
    rivals: Annotated[Path, arg(metavar="DIR")] = Path("runs/rivals")
    """For zoo: folder of the CSV files that the rivals' own commands wrote."""
    device: Device = "cpu"
    """Where it is planned: on all cores, on a GPU, or (auto) on the GPU if there is one and a batch is worth it."""
    ray: RayAddress = None
    """Do it on a Ray cluster: one that is started here (local), one that runs (auto, or its address)."""
    json: bool = False
    """Progress as lines of JSON on standard error."""

    def run(self) -> None:
        """Do the work, then write tables, figures and report."""
        require_extra("train", "cmcts reproduce")
        from rich.console import Console

        from cmcts.reproduction.experiments import EXPERIMENTS, FULL, OURS, QUICK, work_of
        from cmcts.reproduction.report import write_results
        from cmcts.reproduction.runner import Reproduction

        scale = QUICK if self.quick else FULL
        names: tuple[str, ...] = tuple(dict.fromkeys(self.what))
        names = names or tuple(name for name in EXPERIMENTS if name not in OURS)
        path = self.out or Path("runs/quick" if self.quick else "runs/reproduce")
        units = work_of(names, scale)
        console = Console(stderr=True, highlight=False)
        with executor_for(self.ray, self.device, as_json=self.json) as executor:
            run = Reproduction(
                path, quick=self.quick, seed=self.seed, device=self.device, executor=executor, rivals=self.rivals
            )
            progress = _Events() if self.json else _Progress(console, run, units)
            with progress.bar:
                try:
                    run.run(units, progress)
                except KeyboardInterrupt:
                    console.print("interrupted; the same command goes on from here")
                    raise
        with console.status("tables, figures and report"):
            seconds = sum((run.record(unit) or {})["seconds"] for unit in units)
            note = (
                f"cmcts reproduce {' '.join(self.what)}{' --quick' if self.quick else ''} --seed {self.seed}: "
                f"{len(units)} units of work in {seconds / 60:.1f} minutes."
            )
            report = write_results(run, scale, names, note)
        Console(highlight=False).print(f"{note} Report: [bold]{report}[/]")


class _Progress:
    """One line for the unit under way, and the time left, from what units were expected to take and really took.

    On a cluster many are under way: the line then names the one that began last.
    """

    def __init__(self, console: Any, run: Reproduction, units: list[Work]) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            TallyColumn(run.executor),
            console=console,
            transient=True,
        )
        self.console = console
        self.expected = {unit: expected_seconds(unit) for unit in units}
        self.left = sum(seconds for unit, seconds in self.expected.items() if run.record(unit) is None)
        self.spent = self.expected_spent = 0.0
        self.count, self.total = 0, len(units)
        self.row = self.bar.add_task("", total=sum(self.expected.values()), left="")
        self.label = ""
        self.began = time.perf_counter()
        self.finished = 0

    def begin(self, unit: Work, *, done: bool) -> Reporter | None:
        """A unit begins, or was done before."""
        self.count += 1
        if done:
            self.bar.update(self.row, advance=self.expected[unit])
            return None
        self.began, self.finished = time.perf_counter(), 0
        self.label = f"{self.count}/{self.total} {unit.name}"
        self._show()
        return _Stages(self._show)

    def episodes(self, finished: int) -> None:
        """Some episodes of it are finished."""
        if finished:
            self.finished += finished
            self._show(f", {self.finished} episodes")

    def finish(self, unit: Work, record: Record) -> None:
        """It is done."""
        self.spent += record["seconds"]
        self.expected_spent += self.expected[unit]
        self.left -= self.expected[unit]
        self.bar.update(self.row, advance=self.expected[unit])
        self.console.print(f"{record['seconds']:7.1f} s  {unit.name}{_figures(record)}", markup=False)

    def _show(self, more: str = "") -> None:
        pace = self.spent / self.expected_spent if self.expected_spent else 1.0
        left = max(self.left * pace - (time.perf_counter() - self.began), 0.0) / 60
        self.bar.update(self.row, description=self.label + more, left=f"about {left:.0f} min left")


class _Events:
    """A line of JSON for each unit that is done."""

    def __init__(self) -> None:
        self.bar = nullcontext()

    def begin(self, unit: Work, *, done: bool) -> None:
        """Not worth an event."""

    def episodes(self, finished: int) -> None:
        """Not worth an event."""

    def finish(self, unit: Work, record: Record) -> None:
        """It is done."""
        write_event({"event": "unit done", "name": unit.name, **record})


class _Stages:
    """Names the stage of a training that is under way."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.show = show

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A stage begins, of a round or of a frontier's column."""
        counted = next((name for name in ("round", "column") if name in figures), None)
        where = "" if counted is None else f", {counted} {figures[counted] + 1}"
        self.show(f"{where}: {phase}")

    def advance(self, units: int, **figures: Any) -> None:
        """Ignore."""

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """Ignore."""


def expected_seconds(unit: Work) -> float:
    """A guess for two cores; the time left corrects it by what earlier units really took."""
    from cmcts.reproduction.units import Curve, Training, Trial

    if isinstance(unit, Training):
        return 400.0 if unit.frontier else 30.0
    if isinstance(unit, Curve):
        return 10.0
    if isinstance(unit, Trial):
        return 5.0 if unit.planner in ("exact", "baseline") else 5.0 + 0.05 * unit.episodes
    simulations_a_second = 1e6 if unit.variant == "defaults" else 4e5
    return 0.3 + unit.iterations * unit.episodes * 30 / simulations_a_second


def _figures(record: Record) -> str:
    if "missing" in record:
        return f": {record['missing']}"
    if "multipliers" in record:
        over = "" if record["feasible"] else ", with which the budget is not kept: none that was tried does"
        return f": lambda* {record['multipliers'][0]:.2f}{over}"
    if "budgets" in record:
        return f": {len(record['budgets'])} budgets"
    if "reward_mean" in record:
        return (
            f": reward {record['reward_mean']:.2f}, cost {record['cost_mean']:.3f}, "
            f"{100 * record['violation_rate']:.1f} % over budget"
        )
    return f": {'feasible' if record['feasible'] else 'no feasible critic'} after {record['rounds']} rounds"

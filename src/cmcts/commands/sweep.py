"""`cmcts sweep`."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from cmcts.commands.watching import RayAddress, TallyColumn, executor_for, watched, write_event
from cmcts.devices import Device
from cmcts.errors import InvalidInput
from cmcts.extras import require_extra

if TYPE_CHECKING:
    from rich.table import Table

    from cmcts.executors import Executor
    from cmcts.report.tables import Record
    from cmcts.sweep.table import Row, Sweep, Training
    from cmcts.tasks.task import Task

INFEASIBLE = "no feasible critic"


@dataclass(frozen=True)
class RunSweep:
    """Tasks x planners x settings x seeds, as a table of units: results as CSV and Parquet, and figures over seeds.

    Press Ctrl-C at any time: the same command goes on where it stopped.
    """

    file: Annotated[Positional[Path], arg(metavar="FILE.toml")]
    """What to run: tasks, planners, seeds, episodes, and tables [settings] and [training] of values to try."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/FILE)")] = None
    """Folder of the results; what is done there is not done again."""
    device: Device = "cpu"
    """Where it is planned: on all cores, on a GPU, or (auto) on the GPU if there is one and a batch is worth it."""
    ray: RayAddress = None
    """Do it on a Ray cluster: one that is started here (local), one that runs (auto, or its address)."""
    json: bool = False
    """Progress as lines of JSON on standard error, and the means over seeds as JSON on standard output."""

    def run(self) -> None:
        """Train, play, and write tables and figures."""
        from rich.console import Console

        from cmcts.commands.planner_options import load_task
        from cmcts.executors import Here
        from cmcts.sweep.table import Sweep

        sweep = Sweep.read(self.file)
        if sweep.training is not None:
            require_extra("train", "a sweep with a table [training]")
        tasks = {name: load_task(name) for name in sweep.tasks}
        for training in dict.fromkeys(row.training for row in sweep.rows()):
            if training is not None:
                training.settings_for(tasks[training.task])  # refuses what does not fit, before anything is done
        console = Console(stderr=True, highlight=False)
        with executor_for(self.ray, self.device, as_json=self.json) as cluster:
            folder = _Folder(self.out or Path("runs") / self.file.stem, sweep, tasks)
            executor: Executor = cluster or Here()
            runner = _Runner(sweep, tasks, folder, executor, self.device, console, self.json)
            try:
                if cluster is None and self.json:
                    with watched(executor.tally, as_json=True):
                        runner.run()
                else:
                    runner.run()
            except KeyboardInterrupt:
                console.print("interrupted; the same command goes on from here")
                raise
        self._report(sweep, folder)

    def _report(self, sweep: Sweep, folder: _Folder) -> None:
        from rich.console import Console

        from cmcts.files import write_atomically
        from cmcts.report.figures import picture
        from cmcts.sweep.charts import figures
        from cmcts.sweep.results import over_seeds, table, write

        rows = sweep.rows()
        lines = table(rows, {row.name: folder.record(row) or {} for row in rows})
        means = over_seeds(lines)
        written = write(folder.path, "results", lines) + write(folder.path, "means", means)
        for name, figure in figures(means).items():
            for kind in ("svg", "png"):
                path = folder.path / f"{name}.{kind}"
                write_atomically(path, picture(figure, kind))
                written.append(path)
        if self.json:
            from json import dumps

            print(dumps({"means": means, "files": [str(path) for path in written]}, indent=2))
            return
        console = Console(highlight=False)
        console.print(_table(means))
        console.print(f"± for 95 % over seeds. In {folder.path}: {', '.join(path.name for path in written)}")


class _Folder:
    """config.json, a record for each row, the episodes behind it, and a run folder for each training."""

    def __init__(self, path: Path, sweep: Sweep, tasks: dict[str, Task]) -> None:
        from dataclasses import asdict

        from cmcts import json_settings
        from cmcts.critic.identity import code_digests, model_digest
        from cmcts.files import read_plain, write_atomically
        from cmcts.version import __version__

        self.path = path
        models = {name: [model_digest(task.model), code_digests(task.model)] for name, task in tasks.items()}
        config = json_settings.dump({"library": __version__, **asdict(sweep), "models": models}, indent=2)
        try:
            for name in ("records", "episodes", "trainings"):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInput(f"cannot use {path}: {error.strerror or error}") from None
        file = path / "config.json"
        if not file.exists():
            write_atomically(file, config)
        begun, now = json_settings.parse(read_plain(file, 1 << 24)), json_settings.parse(config)
        # More seeds, tasks, planners or values may be added: rows that are done stay what they are.
        fixed = ("library", "episodes", "world")
        changed = [name for name in fixed if begun.get(name) != now[name]]
        changed += [name for name, model in now["models"].items() if begun["models"].get(name, model) != model]
        if changed:
            raise InvalidInput(f"expected a folder begun with the same {changed[0]}, got {path}; use another --out")
        if begun != now:
            now["models"] = begun["models"] | now["models"]
            write_atomically(file, json_settings.dump(now, indent=2))

    def record(self, row: Row) -> Record | None:
        """What came out of a row, or None if it is not done yet."""
        import json

        file = self.path / "records" / f"{row.name}.json"
        return json.loads(file.read_text()) if file.exists() else None

    def finish(self, row: Row, record: Record) -> None:
        """A row is done."""
        from cmcts import json_settings
        from cmcts.files import write_atomically

        write_atomically(self.path / "records" / f"{row.name}.json", json_settings.dump(record, indent=2))


class _Runner:
    """Does the trainings, then the rows, side by side where there is a cluster."""

    def __init__(
        self,
        sweep: Sweep,
        tasks: dict[str, Task],
        folder: _Folder,
        executor: Executor,
        device: Device,
        console: Any,
        as_json: bool,
    ) -> None:
        self.sweep, self.tasks, self.folder, self.executor = sweep, tasks, folder, executor
        self.device, self.console, self.as_json = device, console, as_json
        self.lock = threading.Lock()

    def run(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from cmcts.executors import together
        from cmcts.sweep.table import shown as shown_value

        rows = [row for row in self.sweep.rows() if self.folder.record(row) is None]
        trainings = list(dict.fromkeys(row.training for row in rows if row.training is not None))
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, TallyColumn(self.executor), console=self.console, transient=True, disable=self.as_json)
        with bar:
            shown = bar.add_task("trainings", total=len(trainings), visible=bool(trainings))
            for training, _ in together(self.executor, self.train, trainings):
                bar.advance(shown)
                self.say("trained", f"{training.task}, seed {training.seed}", training.name, {})
            shown = bar.add_task("rows", total=len(rows))
            for row, record in together(self.executor, self.play, rows):
                bar.advance(shown)
                values = "".join(f", {name} {shown_value(value)}" for name, value in row.settings)
                self.say("played", f"{row.task}, {row.planner}{values}, seed {row.seed}", row.name, record)

    def say(self, event: str, text: str, name: str, record: Record) -> None:
        if self.as_json:
            write_event({"event": event, "name": name, **record})
            return
        figures = f": {record['missing']}" if "missing" in record else ""
        if "reward_mean" in record:
            figures = f": reward {record['reward_mean']:.3f}, cost {record['cost_mean']:.3f}"
        self.console.print(f"{event:<7}  {text}{figures}", markup=False)

    def train(self, training: Training) -> None:
        from cmcts.training.loop import train
        from cmcts.training.run_folder import RunFolder
        from cmcts.training.settings import run_config, settings_from_config

        task = self.tasks[training.task]
        settings, path = training.settings_for(task), self.folder.path / "trainings" / training.name
        if (path / "config.json").exists():
            folder = RunFolder.open(path)
            if settings_from_config(task, folder.config, path) != settings:
                raise InvalidInput(f"the training in {path} was begun with other settings; use another --out")
        else:
            folder = RunFolder.create(path, run_config(task, settings))
        train(task, settings, folder, device=self.device, executor=self.executor)

    def play(self, row: Row) -> Record:
        from cmcts.commands.planner_options import PlannerOptions, choose, kept_blocks
        from cmcts.evaluation.blocks import episodes_on

        task, began = self.tasks[row.task], time.perf_counter()
        critic = None if row.training is None else self.folder.path / "trainings" / row.training.name
        values: dict[str, Any] = dict(row.settings)
        if "budget" in values:
            values["budget"] = values["budget"] if isinstance(values["budget"], tuple) else (values["budget"],)
        record: Record
        if critic is not None and _nothing_feasible(critic, row.planner):
            record = {"missing": INFEASIBLE}
        else:
            with self.lock:  # it listens to warnings, which Python lets one thread do at a time
                choice = choose(task, PlannerOptions(task=row.task, planner=row.planner, critic=critic, **values))
            iterations = values.get("iterations")
            kept = self.folder.path / "episodes" / row.name
            episodes, _ = episodes_on(
                self.executor,
                choice.player,
                task.real_world if self.sweep.world == "real" else task.training_world,
                choice.budget,
                episodes=self.sweep.episodes,
                seed=row.seed,
                iterations=iterations,
                device=self.device,
                kept=kept_blocks(kept, task, choice, self.sweep.world, iterations, None),
            )
            budget = choice.budget[0] if len(choice.budget) == 1 else list(choice.budget)
            record = {**episodes.summary().to_dict(), "budget": budget, "note": choice.note}
        record["seconds"] = round(time.perf_counter() - began, 2)
        self.folder.finish(row, record)
        return record


def _nothing_feasible(training: Path, planner: str) -> bool:
    """Whether a training has left nothing for a planner; where no critic pays, to do without is what it has left."""
    from cmcts.critic import bundle as bundles

    if not (training / bundles.BUNDLE_FILE).exists():
        return True
    return planner == "cmcts" and bundles.load(training).nothing_feasible


def _table(means: list[Record]) -> Table:
    from rich import box
    from rich.table import Table

    from cmcts.sweep.charts import varied

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    settings = ["task", "planner", *varied(means)]
    for name in (*settings, "seeds", "reward", "cost", "over budget"):
        table.add_column(name, justify="left" if name in ("task", "planner") else "right", no_wrap=name != "task")
    for row in means:
        cells = [_shown(row, name) for name in ("reward", "cost", "over_budget")]
        table.add_row(*("" if row[name] is None else str(row[name]) for name in settings), str(row["seeds"]), *cells)
    return table


def _shown(row: Record, name: str) -> str:
    if row[name] is None:
        return "-"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.3f}" if low is None else f"{row[name]:.3f} ± {(high - low) / 2:.3f}"

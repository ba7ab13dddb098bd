"""Progress of a training in the terminal: a live line for the stage under way, and a line for each that is done."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cmcts.commands.watching import TallyColumn, write_event

if TYPE_CHECKING:
    from cmcts.executors import Executor
    from cmcts.tasks.task import Task
    from cmcts.training.forecast import Forecast
    from cmcts.training.settings import TrainingSettings


class TrainingProgress:
    """A `cmcts.training.Reporter` that writes to standard error, inside `with progress.bar`."""

    def __init__(self, task: Task, settings: TrainingSettings, executor: Executor | None = None) -> None:
        self.settings = settings
        self.console = Console(stderr=True, highlight=False)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TimeElapsedColumn(),
            TextColumn("ends in"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[left]}"),
            TallyColumn(executor),
            console=self.console,
            transient=True,
        )
        self.began = time.perf_counter()
        self.row = self.bar.add_task("compiling the search; later runs find it on disk", total=None, left="")
        self.label = ""
        self.forecast: Forecast | None = None
        self.say(
            f"training a safety critic for {task.name} (seed {settings.seed}, at most {settings.max_rounds} rounds)"
            + (f", then a frontier (at most {settings.frontier.columns} columns)" if settings.frontier.columns else "")
        )

    def say(self, text: str) -> None:
        """A line that stays."""
        self.console.print(text, markup=False)

    def foresee(self, forecast: Forecast) -> None:
        """Say how long it will take, and keep saying it."""
        self.forecast = forecast
        self.say(forecast.in_words())

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A stage begins."""
        if self.forecast is not None:
            self.forecast.begin(phase, total, **figures)
        details = ", ".join(f"{_name(name)} {_show(value)}" for name, value in figures.items() if name not in _PLACES)
        place = f"column {figures['column'] + 1}" if "column" in figures else ""
        if "round" in figures:
            place = f"round {figures['round'] + 1}/{self.settings.max_rounds}"
        self.label = f"{place}  {phase}  {details}"
        self.bar.reset(self.row, total=total, description=self.label, left=self._left())

    def advance(self, units: int, **figures: Any) -> None:
        """Some of it is done."""
        if self.forecast is not None:
            self.forecast.advance(units)
        details = "".join(f"  {name} {_show(value)}" for name, value in figures.items())
        self.bar.update(self.row, advance=units, description=self.label + details, left=self._left())

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """A stage is done."""
        if self.forecast is not None:
            self.forecast.finish(record, resumed=resumed)
            self.bar.update(self.row, left=self._left())
        elapsed = time.perf_counter() - self.began
        again = "  (done before)" if resumed else ""
        place = f"column {record['column'] + 1}" if "column" in record else f"round {record['round'] + 1}"
        if record["phase"] == "untrained":
            place = "no critic"
        if record["phase"] == "earlier":
            place = "--from"
        head = f"{elapsed:6.1f} s  {place}  {record['phase']:<8}"
        if "column" in record:
            costs = zip(record["cost_means"], record["cost_ses"], strict=True)
            cost = ", ".join(f"{m:.3f} ± {s:.3f}" for m, s in costs)
            reward = f"reward {record['reward_mean']:.2f} ± {record['reward_se']:.2f}"
            how = f"in {record['episodes']} episodes"
            if "tabulated" in record:
                how = f"by {record['tabulated']} plans" if record["tabulated"] else "exactly"
            body = f"{record['policy']}: {reward}, cost {cost} {how}"
        elif record["phase"] == "scale":
            body = f"costs are judged in units of {_show(record['cost_scale'])}, after {record['walked']} random steps"
        elif record["phase"] in ("walk", "watch"):
            body = f"{record['walked']} steps in {record['episodes']} walks, cost {_show(record['step_costs'])} a step"
        elif record["phase"] == "gather":
            costs = zip(record["cost_means"], record["cost_ses"], strict=True)
            cost = ", ".join(f"{m:.3f} ± {s:.3f}" for m, s in costs)
            body = (
                f"lambda {_show(record['multipliers'])}: cost {cost}, reward {record['reward_mean']:.2f}, "
                f"{record['steps']} steps"
            )
        elif record["phase"] == "explore":
            cost = ", ".join(f"{mean:.3f}" for mean in record["cost_means"])
            body = f"relative exploration {record['width']:g}: reward {record['reward_mean']:.2f}, cost {cost}"
        elif record["phase"] == "learn":
            body = f"leaf values: loss {record['loss']:.2g} of their variance on {record['transitions']} steps"
        elif record["phase"] == "fit":
            body = f"loss {record['loss']:.2g} on {record['transitions']} transitions"
            if "held_out_td_error" in record:
                body += f", held out {record['held_out_td_error']:.2g}"
            if record["gathered_until"].endswith("tried"):
                body += f"; lambda was still moving ({record['gathered_until']})"
        else:
            verdict = "feasible" if record["feasible"] else "not feasible or dominated"
            if "same_as" in record:
                verdict = f"the same episodes as tolerance {record['same_as']:g}"
            body = (
                f"{tried(record)}: reward {evaluated_reward(record)}, "
                f"cost {evaluated_cost(record)}, {record['violations']} of "
                f"{record['episodes']} over budget, {verdict}"
            )
        self.say(f"{head}  {body}{again}")

    def _left(self) -> str:
        """Of the whole training, for the live line."""
        if self.forecast is None:
            return ""
        from cmcts.training.forecast import about

        return f"{about(self.forecast.left)} left in all"


class TrainingEvents:
    """A `cmcts.training.Reporter` for machines: a line of JSON when a stage begins and when it is done."""

    def __init__(self) -> None:
        self.bar = nullcontext()
        self.forecast: Forecast | None = None

    def say(self, text: str) -> None:
        """A sentence for people, who may be reading."""
        write_event({"event": "said", "text": text})

    def foresee(self, forecast: Forecast) -> None:
        """Say how long it will take, and tell it with every event."""
        self.forecast = forecast
        self.say(forecast.in_words())

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A stage begins."""
        if self.forecast is not None:
            self.forecast.begin(phase, total, **figures)
        write_event({"event": "stage begun", "phase": phase, "total": total, **figures, **self._left()})

    def advance(self, units: int, **figures: Any) -> None:
        """Not worth an event."""

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """A stage is done."""
        if self.forecast is not None:
            self.forecast.finish(record, resumed=resumed)
        write_event({"event": "stage done", "resumed": resumed, **record, **self._left()})

    def _left(self) -> dict[str, int]:
        return {} if self.forecast is None else {"left_seconds": round(self.forecast.left)}


_PLACES = ("round", "column")


def tried(record: dict[str, Any]) -> str:
    """What an evaluation tried with its critic."""
    accounting = "" if record["accounting"] == "paid" else f", {record['accounting']} accounting"
    return f"tolerance {record['tolerance']:g}{accounting}"


def evaluated_reward(record: dict[str, Any]) -> str:
    """The mean reward of an evaluation, with its error."""
    return f"{record['reward_mean']:.2f} ± {record['reward_se']:.2f}"


def evaluated_cost(record: dict[str, Any]) -> str:
    """The mean cost of an evaluation, with its error if it is one; in the task's order if there are several."""
    means = record["cost_means"]
    if len(means) == 1:
        return f"{means[0]:.3f} ± {record['cost_se']:.3f}"
    return ", ".join(f"{mean:.3f}" for mean in means)


def _name(name: str) -> str:
    return "lambda" if name == "multipliers" else name


def _show(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{number:.3g}" for number in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)

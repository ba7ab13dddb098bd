"""`cmcts evaluate`."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import arg

from cmcts.commands.planner_options import PlannerName, PlannerOptions
from cmcts.commands.watching import RayAddress, executor_for
from cmcts.devices import Device
from cmcts.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from cmcts.commands.planner_options import Choice
    from cmcts.evaluation.episodes import Episodes, Summary, Transitions
    from cmcts.evaluation.statistics import Difference, Interval
    from cmcts.executors import Executor
    from cmcts.tasks.task import Task

_NONE = "(default: none)"


@dataclass(frozen=True)
class Evaluate(PlannerOptions):
    """How good and how safe is a planner here? Run episodes and report means with their 95 % intervals.

    Episode i of a seed is the same episode for every planner, and none of a training's episodes.
    """

    episodes: int = 500
    """Episodes to run."""
    world: Literal["real", "training"] = "real"
    """Where: the real world, or the simulator that critics are trained in."""
    compare: Annotated[tuple[PlannerName, ...], arg(metavar="PLANNER [PLANNER ...]", help_behavior_hint=_NONE)] = ()
    """Run these planners on the same worlds as well, and report the differences, episode by episode."""
    threads: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: all cores)")] = None
    """Threads to plan with; the result does not depend on them."""
    device: Device = "cpu"
    """Where it is planned: on all cores, on a GPU, or (auto) on the GPU if there is one and a batch is worth it."""
    ray: RayAddress = None
    """Play on a Ray cluster: one that is started here (local), one that runs (auto, or its address)."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint=_NONE)] = None
    """Keep episodes in this folder as they are finished; the same command then goes on where it was stopped."""
    table: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint=_NONE)] = None
    """Write one row an episode to this file, .csv or .parquet."""
    trajectories: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint=_NONE)] = None
    """Write one row a step to this file, .csv or .parquet."""
    regret: bool = False
    """Also solve the task exactly, or bound its optimum, and say what the planner lacks of it."""
    json: bool = False
    """Print JSON instead of text, and progress with --ray as lines of JSON on standard error."""

    def run(self) -> None:
        """Evaluate and print."""
        from cmcts.commands.planner_options import choose, load_task

        task = load_task(self.task)
        choice = choose(task, self)
        self._refuse_mistakes(choice)
        with executor_for(self.ray, self.device, as_json=self.json) as executor:
            self._evaluate(task, choice, executor)

    def _evaluate(self, task: Task, choice: Choice, executor: Executor | None) -> None:
        from rich.console import Console

        from cmcts.report.tables import write_table

        budget = choice.budget
        iterations = self._iterations(choice)
        episodes, steps = self._episodes(task, choice, budget, iterations, executor)
        if self.table is not None:
            write_table(self.table, episodes.columns())
        if self.trajectories is not None:
            write_table(self.trajectories, steps.columns())
        summary = episodes.summary()
        names = [task.model.cost_name(m) for m in range(task.model.cost_count)]
        regret = _regret(task, budget, summary.reward_mean) if self.regret else None
        others = {
            name: self._episodes(task, self._other(task, name, budget), budget, iterations, executor)[0]
            for name in self.compare
        }
        comparisons = {name: _compare(episodes, other) for name, other in others.items()}
        if self.json:
            from json import dumps

            about: dict[str, Any] = {"task": task.name, "planner": choice.name, "keep": choice.keep}
            about |= {"world": self.world, "note": choice.note}
            limits = {"iterations": iterations, "seconds": self.seconds, "seed": self.seed}
            figures = {"budget": list(budget), "cost_names": names, **summary.to_dict()} | (
                asdict(regret) if regret else {}
            )
            compared = {name: comparison.to_dict() for name, comparison in comparisons.items()}
            print(dumps(about | limits | figures | ({"comparisons": compared} if compared else {}), indent=2))
            return
        console = Console(highlight=False)
        console.print(f"[bold]{task.name}[/], planner {choice.name}, {self.world} world, {self.episodes} episodes")
        console.print(choice.note, style="dim", markup=False)
        _print(console, summary, names, budget, regret)
        for name, comparison in comparisons.items():
            _print_comparison(console, name, comparison)

    def _refuse_mistakes(self, choice: Choice) -> None:
        """What is wrong with the options, before an episode is run."""
        from cmcts.planning.gpu import validate_device_for
        from cmcts.report.tables import check_table_path

        for planner in choice.planners:
            validate_device_for(planner, self.device)
        for path in (self.table, self.trajectories):
            if path is not None:
                check_table_path(path)
        if choice.name in self.compare:
            raise InvalidInput(f"expected --compare with other planners than {choice.name}, got {choice.name}")

    def _iterations(self, choice: Choice) -> int | None:
        """As many for all that are compared: a bundle may have been made for another number than the task's.

        The columns of a frontier have numbers of their own, which were measured, and so have its rivals then.
        """
        if self.iterations is not None or self.seconds is not None or choice.name == "frontier":
            return self.iterations
        return choice.planners[0].search.iterations

    def _other(self, task: Task, name: PlannerName, budget: tuple[float, ...]) -> Choice:
        """Another planner to compare with under the same budget, by the same critic's folder where it takes one."""
        from cmcts.commands.planner_options import choose

        options = dataclasses.replace(self, planner=name, budget=budget, keep=None, share=None, penalty=None)
        return choose(task, options if name in ("frontier", "cmcts") else dataclasses.replace(options, critic=None))

    def _episodes(
        self,
        task: Task,
        choice: Choice,
        budget: tuple[float, ...],
        iterations: int | None,
        executor: Executor | None,
    ) -> tuple[Episodes, Transitions]:
        from rich.console import Console
        from rich.progress import Progress

        from cmcts.commands.planner_options import compile_first, kept_blocks
        from cmcts.commands.watching import TallyColumn
        from cmcts.evaluation.blocks import episodes_on

        kept = None
        if self.out is not None:
            kept = kept_blocks(self.out / choice.name, task, choice, self.world, iterations, self.seconds)
        if executor is None:
            compile_first(task, choice.planners, budget)
        columns = (*Progress.get_default_columns(), TallyColumn(executor))
        silent = self.json and executor is not None  # standard error is for events then
        with Progress(*columns, console=Console(stderr=True), transient=True, disable=silent) as progress:
            row = progress.add_task(f"{choice.name}: {self.episodes} episodes", total=self.episodes)
            return episodes_on(
                executor,
                choice.player,
                task.real_world if self.world == "real" else task.training_world,
                budget,
                episodes=self.episodes,
                seed=self.seed,
                iterations=iterations,
                seconds=self.seconds,
                threads=self.threads,
                device=self.device,
                on_steps=lambda _, finished: progress.advance(row, finished),
                kept=kept,
            )


@dataclass(frozen=True)
class _Regret:
    """What a planner lacks of the optimum; by itself, and as a share of what the budget buys, if it buys anything."""

    optimum_lower: float
    optimum_upper: float
    regret: float
    regret_share: float | None


def _regret(task: Task, budget: tuple[float, ...], reward: float) -> _Regret:
    from rich.console import Console

    from cmcts.tasks.optimum import least_optimum, solve_task

    with Console(stderr=True).status("solving for the optimum"):
        best, least = solve_task(task, budget), least_optimum(task)
    bought = best.bought(reward, least)
    share = None if bought is None else 1.0 - bought
    return _Regret(best.reward_lower, best.reward_upper, best.regret(reward), share)


@dataclass(frozen=True)
class _Comparison:
    """Another planner on the same worlds, and this one's rewards and costs minus its own."""

    summary: Summary
    reward: Difference
    costs: list[Difference]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the other's summary and the differences, side by side."""
        return {
            **self.summary.to_dict(),
            "reward_difference": self.reward.mean,
            "reward_difference_interval": self.reward.interval,
            "cost_differences": [cost.mean for cost in self.costs],
            "cost_difference_intervals": [cost.interval for cost in self.costs],
        }


def _compare(episodes: Episodes, other: Episodes) -> _Comparison:
    from cmcts.evaluation.statistics import paired_difference

    reward = paired_difference(episodes.rewards, other.rewards)
    costs = [paired_difference(ours, theirs) for ours, theirs in zip(episodes.costs.T, other.costs.T, strict=True)]
    return _Comparison(other.summary(), reward, costs)


def _print(
    console: Console, summary: Summary, names: list[str], budget: tuple[float, ...], regret: _Regret | None
) -> None:
    from rich.markup import escape

    console.print(f"reward       {summary.reward_mean:.3f}{_interval(summary.reward_interval)}")
    for m, limit in enumerate(budget):
        interval, over = _interval(summary.cost_intervals[m]), summary.cost_violations[m]
        over_budget = "" if len(budget) == 1 else f", exceeded in {over} episodes"
        console.print(f"{escape(names[m]):<12} {summary.cost_means[m]:.3f}{interval}, budget {limit:g}{over_budget}")
    if regret is not None:
        share = regret.regret_share
        of_what = "" if share is None else f", {100 * share:.1f} % of what the budget buys"
        console.print(f"optimum      {regret.optimum_upper:.3f}: a regret of {regret.regret:.3f}{of_what}")
    console.print(f"over budget  {_rate(summary)}")
    console.print(f"nothing safe in {100 * summary.nothing_safe_rate:.2f} % of the decisions")
    console.print(
        f"[dim]{summary.steps_mean:.1f} steps an episode, {summary.decision_ms:.2f} ms a decision, "
        f"peak tree depth {summary.peak_depth_mean:.1f}[/]"
    )


def _interval(bounds: Interval | None) -> str:
    return "" if bounds is None else f", 95 % interval {bounds.low:.3f} to {bounds.high:.3f}"


def _rate(summary: Summary) -> str:
    """How many episodes were over budget, and between which rates the truth lies."""
    low, high = (100 * bound for bound in summary.violation_interval)
    count = f"{summary.violations} of {summary.episodes} episodes"
    return f"{count}: at most {high:.2f} %" if low == 0 else f"{count}: {low:.2f} to {high:.2f} %"


def _print_comparison(console: Console, name: str, other: _Comparison) -> None:
    low, high = other.reward.interval
    console.print(
        f"against {name}: reward {other.reward.mean:+.3f} ({low:+.3f} to {high:+.3f}) on these worlds. "
        f"It earned {other.summary.reward_mean:.3f} at cost {other.summary.cost_mean:.3f}, over budget in "
        f"{_rate(other.summary)}"
    )

"""`cmcts frontier`."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from cmcts.commands.planner_options import KeepName
from cmcts.commands.watching import RayAddress, executor_for
from cmcts.devices import Device, validate_device
from cmcts.errors import InvalidInput, expect

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from cmcts.evaluation.episodes import Summary
    from cmcts.frontier import Frontier
    from cmcts.frontier.curve import Point
    from cmcts.tasks.task import Task

_OWN = "(default: the task's own)"


@dataclass(frozen=True)
class ShowFrontier:
    """What any budget buys: the frontier that `cmcts train` built, as a table and a figure.

    Figures are those of the training world, on episodes that took no part in choosing the columns.
    """

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """A task's name (`cmcts tasks` lists them), or FILE.py:NAME or MODULE:NAME for one of your own."""
    critic: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: the one that ships)")] = None
    """Folder of a training that has finished, or the name of one that ships."""
    budget: Annotated[tuple[float, ...] | None, arg(metavar="B [B ...]", help_behavior_hint=_OWN)] = None
    """With several constraints: the point to show, one number a constraint."""
    keep: KeepName = "mean"
    """What the budget means: the mean cost keeps it, or that and at most a --share of the episodes cost more."""
    share: Annotated[float | None, arg(metavar="DELTA", help_behavior_hint="(default: none)")] = None
    """With --keep chance: the largest share of episodes that may cost more than the budget."""
    episodes: int = 200
    """Episodes of C-MCTS and CC-MCP at the task's budget, shown beside it; 0 for none."""
    seed: int = 0
    """Of these episodes."""
    device: Device = "cpu"
    """Where they are planned: on all cores, on a GPU, or (auto) on the GPU if there is one and it is worth it."""
    ray: RayAddress = None
    """Play them on a Ray cluster: one that is started here (local), one that runs (auto, or its address)."""
    out: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: no figure)")] = None
    """Write the figure to this file, .png, .svg or .pdf."""
    json: bool = False
    """Print JSON instead of a table, and progress with --ray as lines of JSON on standard error."""

    def run(self) -> None:
        """Solve for a ladder of budgets, and show."""
        if self.ray is None:
            validate_device(self.device)
        from cmcts.commands.planner_options import load_task
        from cmcts.critic import bundle
        from cmcts.frontier import Frontier
        from cmcts.frontier.curve import Point, ladder
        from cmcts.tasks.optimum import least_optimum, solve_training

        expect(self.episodes == 0 or self.episodes >= 2, "episodes >= 2, or 0", self.episodes)
        if self.keep == "episode":
            raise InvalidInput("expected --keep mean or chance, got episode: that is planner cmcts, not a mixture")
        if self.out is not None and self.out.suffix not in (".png", ".svg", ".pdf"):
            raise InvalidInput(f"expected --out to end with .png, .svg or .pdf, got {self.out}")
        task = load_task(self.task)
        folder = bundle.find(self.critic or task.name)
        frontier = Frontier.of(bundle.load(folder), task.model)
        budgets = ladder(frontier) if self.budget is None else [task.model.validate_costs(self.budget, "budget")]
        keep: Any = self.keep
        least = least_optimum(task, solve_training)
        points = [Point.at(task, frontier, limits, keep, self.share, least) for limits in budgets]
        rivals = self._rivals(task) if self.episodes else {}
        if self.out is not None:
            from cmcts.files import write_atomically
            from cmcts.report.figures import frontier_figure, picture

            if task.model.cost_count > 1:
                raise InvalidInput("expected one constraint for a figure of reward against budget, got several")
            figure = frontier_figure(task, [point.to_row() for point in points], rivals)
            write_atomically(self.out, picture(figure, self.out.suffix[1:]))
        if self.json:
            from json import dumps

            figures = {name: summary.to_dict() for name, summary in rivals.items()}
            rows = [point.to_dict() for point in points]
            print(dumps({"task": task.name, "keep": self.keep, "points": rows, "rivals": figures}, indent=2))
            return
        from rich.console import Console

        console = Console(highlight=False)
        kept = "on average" if self.share is None else f"on average, by {100 * (1 - self.share):g} % of the episodes"
        console.print(f"[bold]{task.name}[/], training world, budget kept {kept}; ± for 95 %")
        console.print(_table(task, frontier, points))
        for line in _legend(frontier):
            console.print(line, style="dim", markup=False)
        for name, summary in rivals.items():
            console.print(
                f"{name} at budget {', '.join(f'{limit:g}' for limit in task.budget)}: reward "
                f"{summary.reward_mean:.3f} ± {summary.reward_se:.3f}, cost {summary.cost_mean:.3f} ± "
                f"{summary.cost_se:.3f}, "
                f"{summary.violations} of {summary.episodes} episodes over it"
            )

    def _rivals(self, task: Task) -> dict[str, Summary]:
        """C-MCTS and CC-MCP on the same worlds, at the task's budget."""
        from rich.console import Console

        from cmcts.commands.planner_options import PlannerName, make_planner
        from cmcts.evaluation.blocks import episodes_on

        names: tuple[PlannerName, ...] = ("cmcts", "cc-mcp")
        summaries: dict[str, Summary] = {}
        with executor_for(self.ray, self.device, as_json=self.json) as executor:
            for name in names:
                planner = make_planner(task, name, self.critic if name == "cmcts" else None).planner
                said = f"{name} plays {self.episodes} episodes in the training world"
                with nullcontext() if self.json and executor else Console(stderr=True).status(said):
                    episodes, _ = episodes_on(
                        executor,
                        planner,
                        task.training_world,
                        task.budget,
                        episodes=self.episodes,
                        seed=self.seed,
                        device=self.device,
                    )
                summaries[name] = episodes.summary()
        return summaries


def _table(task: Task, frontier: Frontier, points: Sequence[Point]) -> Table:
    from rich import box
    from rich.table import Table

    from cmcts.commands.planner_options import numbers
    from cmcts.frontier.curve import letters

    names = letters(frontier)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in ("budget", "reward", "cost", "at most", "over", "price"):
        table.add_column(name, justify="right", no_wrap=True)
    known = any(point.optimum is not None for point in points)
    if known:
        table.add_column("best", justify="right", no_wrap=True)
        table.add_column("share", justify="right", no_wrap=True)
    table.add_column("mixture", no_wrap=True)
    for point in points:
        policy = point.policy
        low, high = policy.reward_interval
        cells = [
            numbers(task.model, policy.budget, ".4g"),
            f"{policy.reward_mean:.2f} ± {(high - low) / 2:.2f}",
            numbers(task.model, policy.cost_means),
            numbers(task.model, policy.cost_bounds),
            f"{100 * policy.over_budget:.0f} %",
            numbers(task.model, policy.prices, ".3g"),
        ]
        if known:
            cells.append("-" if point.optimum is None else f"{point.optimum:.2f}")
            cells.append("-" if point.bought is None else f"{100 * point.bought:.0f} %")
        mixed = zip(policy.weights, policy.columns, strict=True)
        table.add_row(*cells, ", ".join(f"{100 * share:.0f} % {names[id(column)]}" for share, column in mixed))
    return table


def _legend(frontier: Frontier) -> list[str]:
    """What each letter stands for."""
    from cmcts.frontier.curve import letters

    names = letters(frontier)
    lines = []
    for column in sorted(frontier.columns, key=lambda column: names[id(column)]):
        cost = ", ".join(f"{mean:.3f}" for mean in column.confirmed.costs.mean(axis=0))
        name, reward = column.settings.name, column.confirmed.rewards.mean()
        lines.append(f"{names[id(column)]}  {name}: reward {reward:.2f}, cost {cost}")
    return lines

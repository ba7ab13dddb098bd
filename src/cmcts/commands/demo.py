"""`cmcts demo`."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from cmcts.errors import expect
from cmcts.extras import require_extra
from cmcts.report import html as pages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from cmcts.commands.planner_options import PlannerName
    from cmcts.evaluation.episodes import Summary, Transitions
    from cmcts.planning.planner import Planner
    from cmcts.tasks.task import Task

TASKS = ("safe-gridworld", "rocksample-5-7")

INTRODUCTION = {
    "safe-gridworld": "The agent must cross from the lower left to the goal without ever entering an unsafe square "
    "(crosses). A wind on the dotted squares blows it down, which the planning model does not know: only a critic that "
    "was trained in a better simulator does.",
    "rocksample-5-7": "A rover collects good rocks and leaves east. Measuring a rock costs 1, and the discounted cost "
    "of an episode may be 1 at most. Which rocks are good is hidden from every planner.",
}


WELCOME = """<p>Three planners on the same worlds. <b>C-MCTS</b> prunes what a trained critic finds unsafe,
<b>CC-MCP</b> tunes a Lagrange multiplier while it searches, and <b>MCTS with a fixed penalty</b> weighs costs against
rewards.</p>"""


@dataclass(frozen=True)
class Demo:
    """Train safety critics for two small tasks, compare the three planners in the real worlds, and write a report."""

    out: Annotated[Path, arg(metavar="DIR")] = Path("runs/demo")
    """Folder of the report; what an earlier demo left there is replaced."""
    seed: int = 0
    """Of training and evaluation."""
    episodes: int = 200
    """Episodes a planner and task."""

    def run(self) -> int:
        """Train, compare, report."""
        require_extra("train", "cmcts demo")
        import shutil

        from rich.console import Console

        from cmcts.files import write_atomically

        expect(self.episodes >= 1, "episodes >= 1", self.episodes)
        console = Console(highlight=False)
        sections = []
        for name in TASKS:
            folder = self.out / name
            shutil.rmtree(folder, ignore_errors=True)
            section = self._task(name, folder, console)
            if section is None:
                return 1
            sections.append(section)
        report = pages.page("Safe planning with Monte Carlo Tree Search", "\n".join([WELCOME, *sections]))
        write_atomically(self.out / "report.html", report)
        console.print(f"report: [bold]{self.out / 'report.html'}[/]")
        return 0

    def _task(self, name: str, folder: Path, console: Console) -> str | None:
        """Train and compare on one task; its part of the report."""
        import time

        from cmcts.commands.planner_options import PLANNERS, make_planner
        from cmcts.commands.progress import TrainingProgress
        from cmcts.evaluation.episodes import run_episodes
        from cmcts.frontier.settings import FrontierSettings
        from cmcts.report.figures import comparison, png, where_they_went
        from cmcts.tasks.optimum import solve_task
        from cmcts.tasks.registry import make
        from cmcts.training.loop import train
        from cmcts.training.run_folder import RunFolder
        from cmcts.training.settings import TrainingSettings, run_config

        task = make(name)
        settings = TrainingSettings.for_task(
            task,
            seed=self.seed,
            max_rounds=3,
            patience=0,
            evaluation_episodes=200,
            tolerances=(0.03, 0.05),
            walk_steps=20_000,
            frontier=FrontierSettings(columns=0),
        )
        began = time.perf_counter()
        progress = TrainingProgress(task, settings)
        with progress.bar:
            outcome = train(task, settings, RunFolder.create(folder, run_config(task, settings)), progress)
        if outcome.bundle is None:
            console.print(f"[bold red]{name}: no feasible critic was found; try another --seed[/]")
            return None
        seconds = time.perf_counter() - began
        planners = {name: make_planner(task, name, folder if name == "cmcts" else None).planner for name in PLANNERS}
        summaries: dict[str, Summary] = {}
        journeys: dict[str, Transitions] = {}
        for planner_name, planner in planners.items():
            with console.status(f"{name}: {planner_name} plays {self.episodes} episodes in the real world"):
                episodes, journeys[planner_name] = run_episodes(
                    planner,
                    task.real_world,
                    task.budget,
                    episodes=self.episodes,
                    seed=self.seed,
                    iterations=task.iterations,
                )
            summaries[planner_name] = episodes.summary()
        self._explore(task, folder, planners)
        best = solve_task(task).reward_upper
        self._print(task, summaries, best, console)
        figures = {
            "What they earned and spent": png(comparison(task, summaries, best)),
            "Where they went": png(where_they_went(task, journeys)),
        }
        return section_html(
            task, summaries, figures, f"critic trained in {seconds:.0f} s, {self.episodes} episodes each"
        )

    def _explore(self, task: Task, folder: Path, planners: Mapping[PlannerName, Planner]) -> None:
        """A page to look inside the first episode of each planner."""
        from cmcts.evaluation.episodes import player_stream, world_seed
        from cmcts.explorer import record
        from cmcts.explorer.assembly import episodes_page
        from cmcts.explorer.critics import critic_data
        from cmcts.explorer.page import page
        from cmcts.explorer.truth import truth
        from cmcts.planning.agent import Agent

        episodes = []
        for name, planner in planners.items():
            rng = player_stream(self.seed, 0)
            agent = Agent(planner, task.budget, rng=rng, iterations=task.iterations, keep_tree=True)
            episodes.append(record(task, agent, seed=world_seed(self.seed, 0), name=name))
        known = truth(task)
        data = episodes_page(episodes, known, command=f"cmcts demo --seed {self.seed}")
        data["critic"] = critic_data(task, planners["cmcts"].critic, episodes[0], known, folder)
        page(data).write(self.out / explorer_name(task))

    def _print(self, task: Task, summaries: dict[str, Summary], best: float, console: Console) -> None:
        from rich import box
        from rich.table import Table

        budget = ", ".join(f"{limit:g}" for limit in task.budget)
        table = Table(box=box.SIMPLE_HEAD, title=f"{task.name}, real world: budget {budget}, optimum {best:.2f}")
        table.add_column("planner")
        for column in ("reward", "cost", "over budget", "ms a decision"):
            table.add_column(column, justify="right")
        for name, summary in summaries.items():
            table.add_row(
                name,
                f"{summary.reward_mean:.2f} ± {summary.reward_se:.2f}",
                f"{summary.cost_mean:.3f} ± {summary.cost_se:.3f}",
                f"{100 * summary.violation_rate:.1f} %",
                f"{summary.decision_ms:.1f}",
            )
        console.print(table)


def explorer_name(task: Task) -> str:
    """The file of a task's explorer, beside the report; tasks have plain names."""
    return f"explore-{task.name}.html"


def section_html(task: Task, summaries: dict[str, Summary], figures: dict[str, bytes], note: str) -> str:
    """One task's part of the report, figures inline."""
    rows = [
        (
            name,
            f"{summary.reward_mean:.2f} ± {summary.reward_se:.2f}",
            f"{summary.cost_mean:.3f} ± {summary.cost_se:.3f}",
            f"{100 * summary.violation_rate:.1f} %",
            f"{summary.decision_ms:.1f}",
        )
        for name, summary in summaries.items()
    ]
    parts = [
        f"<h2>{html.escape(task.name)}</h2>",
        f"<p>{html.escape(INTRODUCTION.get(task.name, task.description))}</p>",
        pages.table(("planner", "reward", "cost", "over budget", "ms a decision"), rows),
        f"<p class='note'>{html.escape(note)}; ± is one standard error.</p>",
        f"<p><a href='{explorer_name(task)}'>Look inside the first episode of each planner</a>: "
        "what was considered, what was refused, and why.</p>",
    ]
    for title, picture in figures.items():
        parts += [f"<h3>{html.escape(title)}</h3>", pages.image(picture, title)]
    return "\n".join(parts)

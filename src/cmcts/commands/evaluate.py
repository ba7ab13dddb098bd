"""`cmcts evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from cmcts.commands.common import PlannerOptions


@dataclass(frozen=True)
class Evaluate(PlannerOptions):
    """How good and how safe is a planner here? Run episodes and report means with their standard errors.

    Episode i of a seed is the same episode for every planner, and none of a training's episodes.
    """

    episodes: int = 500
    """Episodes to run."""
    world: Literal["real", "training"] = "real"
    """Where: the real world, or the simulator that critics are trained in."""
    threads: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: all cores)")] = None
    """Threads to plan with; the result does not depend on them."""
    csv: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Write one row an episode to this file."""
    regret: bool = False
    """Also solve the task exactly, or bound its optimum, and say what the planner lacks of it."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> None:
        """Evaluate and print."""
        from rich.console import Console
        from rich.progress import Progress

        from cmcts.commands.common import compile_first, make_planner
        from cmcts.evaluation import run_episodes
        from cmcts.tasks import make

        task = make(self.task)
        planner, note = make_planner(task, self.planner, self.critic, self.penalty)
        budget = task.budget if self.budget is None else self.budget
        compile_first(task, planner, budget)
        iterations = task.iterations if self.iterations is None and self.seconds is None else self.iterations
        with Progress(console=Console(stderr=True), transient=True) as progress:
            row = progress.add_task(f"{self.episodes} episodes", total=self.episodes)
            episodes, _ = run_episodes(
                planner,
                task.real_world if self.world == "real" else task.training_world,
                budget,
                episodes=self.episodes,
                seed=self.seed,
                iterations=iterations,
                seconds=self.seconds,
                threads=self.threads,
                on_steps=lambda _, finished: progress.advance(row, finished),
            )
        if self.csv is not None:
            episodes.write_csv(self.csv)
        summary = episodes.summary()
        if self.regret:
            from cmcts.optimum import solve_task

            with Console(stderr=True).status("solving for the optimum"):
                best = solve_task(task, budget)
            summary |= {
                "optimum_lower": best.reward_lower,
                "optimum_upper": best.reward_upper,
                "regret": best.regret(summary["reward_mean"]),
                "share_of_optimum": summary["reward_mean"] / best.reward_upper,
            }
        if self.json:
            from json import dumps

            about = {"task": task.name, "planner": self.planner, "world": self.world, "note": note}
            limits = {"iterations": iterations, "seconds": self.seconds, "seed": self.seed, "budget": list(budget)}
            print(dumps(about | limits | summary, indent=2))
            return
        console = Console(highlight=False)
        console.print(f"[bold]{task.name}[/], planner {self.planner}, {self.world} world, {self.episodes} episodes")
        console.print(note, style="dim", markup=False)
        costs = ", ".join(f"{cost:.3f}" for cost in summary["cost_means"])
        limits_text = ", ".join(f"{limit:g}" for limit in budget)
        console.print(f"reward       {summary['reward_mean']:.3f} ± {summary['reward_se']:.3f}")
        console.print(f"cost         {costs} ± {summary['cost_se']:.3f}, budget {limits_text}")
        if self.regret:
            console.print(
                f"optimum      {summary['optimum_upper']:.3f}: a regret of {summary['regret']:.3f}, "
                f"{100 * summary['share_of_optimum']:.1f} % of optimal"
            )
        console.print(f"over budget  {summary['violations']} of {self.episodes} episodes")
        console.print(f"nothing safe in {100 * summary['nothing_safe_rate']:.2f} % of the decisions")
        console.print(
            f"[dim]{summary['steps_mean']:.1f} steps an episode, {summary['decision_ms']:.2f} ms a decision, "
            f"peak tree depth {summary['peak_depth_mean']:.1f}[/]"
        )

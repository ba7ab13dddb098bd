"""`cmcts demo`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Demo:
    """Play the same RockSample(7,8) episode with each of the three planners, and compare."""

    seed: int = 0
    """Of the world and of the searches."""
    iterations: int | None = None
    """Simulations a step; the task's own number by default."""

    def run(self) -> None:
        """Play and compare."""
        import time

        from rich import box
        from rich.console import Console
        from rich.table import Table

        from cmcts.commands.common import PLANNERS, compile_first, make_planner, numbers, play_episode
        from cmcts.tasks import make

        task = make("rocksample-7-8")
        console = Console(highlight=False)
        console.print(f"[bold]{task.name}[/]: {task.description}\n")
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("planner")
        for column in ("reward", "cost", "steps", "ms a decision"):
            table.add_column(column, justify="right")
        table.add_column("what it did")
        for name in PLANNERS:
            planner, note = make_planner(task, name)
            compile_first(task, planner, task.budget)
            with console.status(f"{name} plays"):
                began = time.perf_counter()
                steps = list(play_episode(task, planner, seed=self.seed, iterations=self.iterations))
                milliseconds = 1000 * (time.perf_counter() - began) / len(steps)
            last = steps[-1]
            did = ", ".join(step.decision.action_name for step in steps)
            table.add_row(
                name,
                f"{last.discounted_reward:.2f}",
                numbers(last.discounted_costs),
                str(len(steps)),
                f"{milliseconds:.1f}",
                did,
            )
            console.print(f"[dim]{name}: {note}[/]")
        console.print(table)
        budget = ", ".join(f"{number:g}" for number in task.budget)
        console.print(
            f"Reward and cost are discounted sums of one episode in the real world; the budget is {budget}. "
            "The hidden rock values are the same for all three, and unknown to all of them."
        )

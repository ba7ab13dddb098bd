"""`cmcts tasks`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tasks:
    """List the tasks that can be planned in."""

    def run(self) -> None:
        """Print the table."""
        from rich.console import Console
        from rich.table import Table

        from cmcts.tasks.references import registered
        from cmcts.tasks.registry import NAMES, make
        from cmcts.zoo import PROBLEMS, SERIES

        table = Table("task", "what it is", "actions", "budget", "iterations", box=None)
        for name in (*NAMES, *sorted(registered())):
            task = make(name)
            budget = ", ".join(f"{number:g}" for number in task.budget)
            table.add_row(name, task.description, str(task.model.action_count), budget, str(task.iterations))
        zoo = Table("problems from outside", "", box=None)  # listed, not made: some take packages and time
        for name, problem in (PROBLEMS | SERIES).items():
            zoo.add_row(name, problem.description)
        console = Console(highlight=False)
        console.print(table)
        console.print()
        console.print(zoo)
        console.print()
        console.print(
            "and rocksample-N-M for any N x N grid with M rocks, rocksample-N-M-energy with a second constraint,\n"
            "random-KIND-SEED for a random problem, and FILE.py:NAME or MODULE:NAME for a task of your own"
        )

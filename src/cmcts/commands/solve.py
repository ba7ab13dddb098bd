"""`cmcts solve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class Solve:
    """Compute the best that any policy can do in a task's real world within the budget, or proven bounds on it."""

    task: Annotated[Positional[str], arg(metavar="TASK")]
    """A task's name (`cmcts tasks` lists them), or FILE.py:NAME or MODULE:NAME for one of your own."""
    budget: Annotated[
        tuple[float, ...] | None, arg(metavar="B [B ...]", help_behavior_hint="(default: the task's own)")
    ] = None
    """What may be spent on average, one number a constraint; inf for no limit."""
    policy: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Write the optimal policy to this file, for `--planner exact --policy FILE`: where the states can be listed."""
    json: bool = False
    """Print JSON instead of text."""

    def run(self) -> None:
        """Solve and print."""
        from math import isfinite

        from cmcts.commands.planner_options import load_task, numbers
        from cmcts.tasks.optimum import solve_task

        task = load_task(self.task)
        budget = task.budget if self.budget is None else self.budget
        found = solve_task(task, budget)
        if self.policy is not None:
            from cmcts.tasks.optimum import exact_policy

            exact_policy(task, budget).save(self.policy)
        if self.json:
            from json import dumps

            limits = [limit if isfinite(limit) else None for limit in budget]  # JSON knows no infinity
            print(dumps({"task": task.name, "budget": limits} | found.to_dict(), indent=2))
            return
        if self.policy is not None:
            print(f"the policy is in {self.policy}: cmcts evaluate {task.source or task.name} --policy {self.policy}")
        print(f"{task.name}, budget {numbers(task.model, budget, 'g')}")
        if found.exact:
            print(f"reward        {found.reward_upper:.6f}")
        else:
            print(f"reward_lower  {found.reward_lower:.6f}")
            print(f"reward_upper  {found.reward_upper:.6f}")
        print(f"cost          {numbers(task.model, found.costs, '.6f')}")
        print(f"multipliers   {numbers(task.model, found.multipliers, '.6f')}")
        print(f"states        {found.states}")
        print(f"seconds       {found.seconds:.2f}")

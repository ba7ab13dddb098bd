"""`cmcts plan`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from cmcts.commands.planner_options import PlannerOptions

if TYPE_CHECKING:
    from rich.table import Table

    from cmcts.planning.decision import Decision


@dataclass(frozen=True)
class Plan(PlannerOptions):
    """Plan one action from a task's start, and show what is behind the choice."""

    workers: Annotated[int, arg(metavar="N")] = 1
    """Searches of one decision side by side, each in a process of its own where the model is a Python environment;
    their roots are added up."""
    json: bool = False
    """Print JSON instead of a table."""

    def run(self) -> None:
        """Plan and print."""
        from cmcts.commands.planner_options import choose, compile_first, load_task, numbers
        from cmcts.errors import expect

        expect(self.workers >= 1, "workers >= 1", self.workers)
        task = load_task(self.task)
        choice = choose(task, self)
        compile_first(task, choice.planners, choice.budget)
        agent = choice.agent(self.seed, self.iterations, self.seconds, workers=self.workers)
        decision = agent.act(task.model.start_state(self.seed))
        if self.json:
            from json import dumps

            about = {"task": task.name, "planner": choice.name, "keep": choice.keep, "note": choice.note}
            about |= {"column": drawn} if (drawn := choice.drawn(self.seed)) else {}
            print(dumps(about | decision.to_dict(), indent=2))
            return

        from rich.console import Console
        from rich.markup import escape

        console = Console(highlight=False)
        console.print(f"[bold]{task.name}[/], planner {choice.name}, {numbers(task.model, choice.budget)} to spend")
        console.print(choice.note, style="dim", markup=False)
        if drawn := choice.drawn(self.seed):
            console.print(f"drawn for this episode: {drawn}", style="dim", markup=False)
        console.print(decision_table(decision))
        if decision.nothing_safe:
            console.print(
                "[bold red]Nothing was safe:[/] every legal action was judged unsafe, and the least bad was taken."
            )
        console.print(
            f"choice: [bold green]{escape(decision.action_name)}[/]   [dim]{decision.iterations} simulations in "
            f"{1000 * decision.seconds:.1f} ms, {decision.tree_size} nodes, {decision.tree_depth} deep[/]"
        )


def decision_table(decision: Decision) -> Table:
    """The root's legal actions, and what the search and the critic think of each."""
    import numpy as np
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    mixed = bool((decision.probabilities[decision.legal] % 1.0 > 0.0).any())
    # A critic that has learned nothing says 0 ± 0 of everything: not worth a column.
    mean, sigma = decision.critic_mean, decision.critic_sigma
    judged = mean is not None and sigma is not None and bool(mean.any() or sigma.any())
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("action")
    costs = [decision.model.cost_name(m) for m in range(len(decision.budget))]
    critics = ["critic"] if len(costs) == 1 else [f"critic: {name}" for name in costs]
    for column in ("visits", *["probability"] * mixed, "reward", *costs, *critics * judged):
        table.add_column(escape(column), justify="right")
    table.add_column("pruned because")
    for action in np.flatnonzero(decision.legal):
        seen = decision.visits[action] > 0
        row = [escape(decision.model.action_name(int(action))), str(decision.visits[action])]
        if mixed:
            row.append(f"{decision.probabilities[action]:.2f}")
        row.append(f"{decision.reward_values[action]:.3f}" if seen else "-")
        row += [f"{cost:.3f}" if seen else "-" for cost in decision.cost_values[action]]
        if judged and mean is not None and sigma is not None:
            row += [f"{m:.2f} ± {s:.2f}" for m, s in zip(mean[action], sigma[action], strict=True)]
        row.append(escape(decision.reason(int(action))))
        style = "bold green" if action == decision.action else "dim" if decision.pruned[action] else ""
        table.add_row(*row, style=style)
    return table

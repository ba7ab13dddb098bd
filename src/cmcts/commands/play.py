"""`cmcts play`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import arg

from cmcts.commands.planner_options import PlannerOptions


@dataclass(frozen=True)
class Play(PlannerOptions):
    """Play one episode in a task's real world, drawing every step."""

    workers: Annotated[int, arg(metavar="N")] = 1
    """Searches of one decision side by side, each in a process of its own where the model is a Python environment;
    their roots are added up."""
    delay: float = 0.0
    """Seconds to wait after each picture."""

    def run(self) -> None:
        """Play and draw."""
        import time

        from rich.console import Console
        from rich.markup import escape

        from cmcts.commands.planner_options import choose, compile_first, load_task, numbers
        from cmcts.errors import expect
        from cmcts.evaluation.episodes import OVERSPENT
        from cmcts.evaluation.playing import first_picture, play_episode

        expect(self.delay >= 0, "delay >= 0", self.delay)
        expect(self.workers >= 1, "workers >= 1", self.workers)
        task = load_task(self.task)
        choice = choose(task, self)
        budget = choice.budget
        compile_first(task, choice.planners, budget)
        console = Console(highlight=False)
        console.print(f"[bold]{task.name}[/], planner {choice.name}")
        drawn = f"\ndrawn for this episode: {name}" if (name := choice.drawn(self.seed)) else ""
        console.print(f"{choice.note}{drawn}\n", style="dim", markup=False)
        console.print(first_picture(task, self.seed).content, markup=False)
        agent = choice.agent(self.seed, self.iterations, self.seconds, workers=self.workers)
        episode = play_episode(task, agent, seed=self.seed)
        model, steps = task.model, []
        cost = "cost " if model.cost_count == 1 else ""  # several costs bring their names
        for step in episode:
            time.sleep(self.delay)
            steps.append(step)
            warning = "  [bold red]nothing was safe[/]" if step.decision.nothing_safe else ""
            console.print(f"\n[bold]{len(steps)}. {escape(step.decision.action_name)}[/]{warning}")
            console.print(step.picture.content, markup=False)
            console.print(f"reward {step.reward:g}, {cost}{numbers(model, step.costs)}", end="   ")
            so_far = f"reward {step.discounted_reward:.3f}, {cost}{numbers(model, step.discounted_costs)}"
            console.print(f"[dim]so far: {so_far}; left {numbers(model, step.budget_left)}[/]")
        last = steps[-1]
        end = "ended" if last.terminated else "was cut off"
        within = bool((last.discounted_costs <= task.model.validate_costs(budget, "budget") + OVERSPENT).all())
        verdict = "[green]within the budget[/]" if within else "[red]over the budget[/]"
        console.print(f"\n[bold]The episode {end} after {len(steps)} steps:[/]", end=" ")
        reward_word = "discounted " if task.discount < 1.0 else ""
        cost_word = "discounted " if min(task.cost_discounts) < 1.0 else ""
        console.print(f"{reward_word}reward {last.discounted_reward:.3f}, {cost_word}{cost}", end="")
        console.print(f"{numbers(model, last.discounted_costs)}, {verdict} of {numbers(model, budget, 'g')}")

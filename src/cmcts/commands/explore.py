"""`cmcts explore`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import arg

from cmcts.commands.planner_options import PlannerOptions
from cmcts.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from cmcts.commands.planner_options import Choice
    from cmcts.explorer.laboratory import Laboratory
    from cmcts.frontier import Frontier
    from cmcts.planning.agent import Agent
    from cmcts.tasks.task import Task

FRONTIER_STEPS = 6  # an optimum may take seconds to find
_DEFAULT_OUT = "(default: runs/explore/TASK-SEED.html)"


@dataclass(frozen=True)
class Explore(PlannerOptions):
    """Play an episode in a task's real world, and look inside: what was done, considered and refused, and why.

    Writes one HTML file that needs no network, or serves the same page live.
    """

    out: Annotated[Path | None, arg(metavar="FILE.html", help_behavior_hint=_DEFAULT_OUT)] = None
    """Where the page is written."""
    open: bool = False
    """Show it in a browser."""
    serve: bool = False
    """Serve the page on this machine instead of writing it: steps can then be planned again with other settings, and
    actions be forced."""
    port: int = 0
    """With --serve: the port; 0 takes one that is free."""

    def run(self) -> None:
        """Play, look inside, and write or serve."""
        from rich.console import Console
        from rich.markup import escape

        from cmcts.commands.planner_options import choose, compile_first, load_task

        if self.out is not None and (self.serve or self.out.suffix != ".html"):
            raise InvalidInput(f"expected --out to end with .html, and no --serve with it, got {self.out}")
        task = load_task(self.task)
        choice = choose(task, self)
        compile_first(task, choice.planners, choice.budget)
        console = Console(highlight=False)
        with Console(stderr=True).status("") as status:
            data, laboratory = self._look(task, choice, status.update)
        if self.serve:
            self._serve(data, laboratory, console)
            return
        from cmcts.explorer.page import page

        path = self.out or Path("runs/explore") / f"{task.name}-{self.seed}.html"
        page(data).write(path)
        console.print(f"page: [bold]{escape(str(path))}[/]", soft_wrap=True)
        if self.open:
            _show(path.resolve().as_uri())

    def _look(self, task: Task, choice: Choice, say: Callable[[str], None]) -> tuple[dict[str, Any], Laboratory]:
        """All that the page shows, and what can play its episodes again."""
        from cmcts.commands.planner_options import bundle_folder, default_critic
        from cmcts.critic import bundle
        from cmcts.explorer import record
        from cmcts.explorer.assembly import episodes_page
        from cmcts.explorer.critics import critic_data
        from cmcts.explorer.laboratory import Laboratory
        from cmcts.explorer.truth import truth
        from cmcts.frontier import Frontier

        folder = bundle_folder(task, self.critic)
        frontier = None
        if folder is not None and bundle.holds_columns(folder):
            frontier = Frontier.load(folder, task.model)
        players, episodes = self._players(choice, frontier), []
        for name, player in players:
            say(f"{name} plays the episode")
            episodes.append(record(task, player(), seed=self.seed, name=name))
        say("what was considered and refused")
        known = truth(task)
        data = episodes_page(episodes, known, command=self.command_line(), note=choice.note)
        critic = default_critic(task, self.critic).critic
        data["critic"] = critic_data(task, critic, episodes[0], known, folder)
        if frontier is not None:
            data["frontier"] = self._frontier(task, choice, frontier, say)
        return data, Laboratory(episodes, [player for _, player in players], known)

    def _players(self, choice: Choice, frontier: Frontier | None) -> list[tuple[str, Callable[[], Agent]]]:
        """Who plays an episode for the page, with a name: the one that is asked for, then each column of a frontier."""
        from functools import partial

        from cmcts.planning.agent import Agent

        drawn = choice.drawn(self.seed)
        name = f"{choice.name}: {drawn}" if drawn else choice.name
        first = partial(choice.agent, self.seed, self.iterations, self.seconds, keep_tree=True)
        players: list[tuple[str, Callable[[], Agent]]] = [(name, first)]
        if frontier is not None:
            for planner, column in zip(frontier.planners, frontier.columns, strict=True):
                budget = column.settings.budget or choice.budget
                player = partial(Agent, planner, budget, rng=self.seed, keep_tree=True)
                players.append((f"column {column.settings.name}", player))
        return players

    def _frontier(self, task: Task, choice: Choice, frontier: Frontier, say: Callable[[str], None]) -> dict[str, Any]:
        """What the page shows of the frontier; its columns have played the episodes after the first."""
        import warnings

        from cmcts.explorer.frontiers import frontier_data
        from cmcts.frontier import BudgetWarning, MixedPolicy
        from cmcts.frontier.curve import Point, ladder

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BudgetWarning)  # the page shows the same
            mixed = choice.player if isinstance(choice.player, MixedPolicy) else frontier.nearest(choice.budget)
        points = []
        # Of several constraints there is no curve.
        for limits in ladder(frontier, FRONTIER_STEPS) if task.model.cost_count == 1 else ():
            say(f"what a budget of {', '.join(f'{limit:.3g}' for limit in limits)} buys, and the optimum there")
            points.append(Point.at(task, frontier, limits))
        return frontier_data(frontier, points, mixed, first_episode=1)

    def command_line(self) -> str:
        """What makes the same page again: every option that is not the default."""
        from shlex import join

        words = ["cmcts", "explore", self.task]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("task", "out", "open", "serve", "port") or value == field.default:
                continue
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{field.name}", *map(str, values)]
        return join(words)

    def _serve(self, data: dict[str, Any], laboratory: Laboratory, console: Console) -> None:
        from cmcts.explorer.server import LiveServer

        with LiveServer(data, laboratory, self.port) as server:
            console.print(f"page: [bold]{server.address}[/]\nCtrl-C ends it", soft_wrap=True)
            console.file.flush()  # whoever reads it through a pipe needs the address now
            if self.open:
                _show(server.address)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                console.print("ended")


def _show(address: str) -> None:
    import webbrowser

    webbrowser.open(address)

"""`cmcts check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from cmcts.devices import cores
from cmcts.errors import InvalidInput, ModelError, expect

if TYPE_CHECKING:
    from cmcts.model.interface import Model
    from cmcts.tasks.task import Task

_SLOWER = "compilation: "  # how `check_model` begins what is not wrong but slow


@dataclass(frozen=True)
class Check:
    """Try a model or a task of your own: what is right, what is wrong, and what is slow.

    Exits with 1 if something is wrong.
    """

    target: Annotated[Positional[str], arg(metavar="FILE.py:NAME")]
    """A Model, a Task, or a function that returns one; also MODULE:NAME, or the name of a task."""
    states: int = 200
    """States to try the model in, reached by random legal walks from its start."""
    seconds: float = 0.5
    """How long to measure the speed."""
    seed: int = 0
    """Of the walks."""

    def run(self) -> int:
        """Check and print; 1 if something is wrong."""
        from cmcts.model.check import examine
        from cmcts.tasks.check import check_worlds

        expect(self.states >= 1, "states >= 1", self.states)
        expect(self.seconds > 0, "seconds > 0", self.seconds)
        try:
            task, model = self._load()
        except InvalidInput as error:
            print(f"wrong  {error}")
            return 1
        print(f"right  model {model.name!r}: {_sizes(model)}")
        if model.origin:
            print(f"note   {model.origin}")
        found, notes = examine(model, states=self.states, seed=self.seed)
        slow = [line.removeprefix(_SLOWER) for line in found if line.startswith(_SLOWER)]
        if not model.compilable:
            slow.append(
                "a Gymnasium environment is not compiled; planning works, hundreds of times slower; if its states can "
                "be listed, cmcts.Model.tabulate makes it compiled, else cmcts learn-model"
            )
        wrong = [line for line in found if not line.startswith(_SLOWER)]
        if not wrong:
            print(f"right  its functions, in {self.states} states")
            for line in notes:
                print(f"note   {line}")
        if task is not None and not wrong:
            wrong = check_worlds(task, self.seed)
            if not wrong:
                print(f"right  task {task.name!r}: budget {', '.join(f'{b:g}' for b in task.budget)}, both worlds")
        for line in slow:
            print(f"slow   {line}")
        if not wrong:
            try:
                speed = self._speed(task, model)
                print(f"speed  {speed:,.{0 if speed >= 10 else 1}f} simulations a second on one core")
                if task is not None:
                    print(f"train  {_training_time(task, speed, self.seed)}")
            except (InvalidInput, ModelError) as error:
                wrong = [f"planning: {error}"]
        for line in wrong:
            print(f"wrong  {line}")
        return 1 if wrong else 0

    def _load(self) -> tuple[Task | None, Model]:
        from cmcts.model.interface import Model
        from cmcts.tasks.references import is_reference, load_made
        from cmcts.tasks.registry import make
        from cmcts.tasks.task import Task

        found = load_made(self.target, (Task, Model)) if is_reference(self.target) else make(self.target)
        return (None, found) if isinstance(found, Model) else (found, found.model)

    def _speed(self, task: Task | None, model: Model) -> float:
        import warnings

        from cmcts.training.forecast import search_speed

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is slow has been said
            return search_speed(model, task, self.seed, self.seconds)


def _training_time(task: Task, speed: float, seed: int) -> str:
    """What a training by default settings takes, if episodes are as long as those of random actions."""
    from cmcts.training.forecast import FirstLook, Forecast, about, pace_of_walks
    from cmcts.training.settings import TrainingSettings

    settings, here = TrainingSettings.for_task(task), cores()
    forecast = Forecast(task, settings, FirstLook(speed, *pace_of_walks(task, seed)), here)
    return (
        f"{about(forecast.a_round)} a round on {here} core{'s' * (here > 1)}, at most {settings.max_rounds} rounds; "
        f"{about(forecast.left)} in all, with a frontier of at most {settings.frontier.columns} columns"
    )


def _sizes(model: Model) -> str:
    costs = f"{model.cost_count} cost{'s' * (model.cost_count > 1)}"
    return (
        f"{model.action_count} actions, {costs}, states of {model.state_size} numbers, {model.feature_count} features"
    )

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

_EPISODES, _LONGEST = 5, 200  # random ones, to see how long they are, in steps
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
        """Of the plain search, once it is compiled or known not to be."""
        import warnings

        from cmcts.planning.planners import PenalizedMCTS

        planner = PenalizedMCTS(model, [1.0] * model.cost_count, task.search if task else None)
        budget = task.budget if task else [1.0] * model.cost_count
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is slow has been said
            planner.plan(model.start_state(self.seed), budget, iterations=1)
        decision = planner.plan(model.start_state(self.seed), budget, seconds=self.seconds)
        return decision.iterations / decision.seconds


def _training_time(task: Task, speed: float, seed: int) -> str:
    """What a round of training by default settings takes, if episodes are as long as those of random actions."""

    import numpy as np

    from cmcts.model.from_env import single
    from cmcts.training.settings import TrainingSettings

    settings, dice, steps = TrainingSettings.for_task(task), np.random.default_rng(seed), 0
    world = single(task.training_world())
    for episode in range(_EPISODES):
        state, _ = world.reset(seed=seed + episode)
        for _ in range(_LONGEST):
            steps += 1
            state, _, terminated, truncated, _ = world.step(int(dice.choice(task.model.legal(state))))
            if terminated or truncated:
                break
    world.close()
    judged = len(settings.tolerances) * settings.evaluation_episodes * steps / _EPISODES
    decisions = settings.multiplier.max_updates * settings.steps_per_multiplier + judged
    here = cores()
    seconds = decisions * settings.iterations / (speed * here)
    return (
        f"about {_duration(seconds)} a round on {here} cores: up to {decisions:,.0f} decisions of "
        f"{settings.iterations} simulations; at most {settings.max_rounds} rounds, then a frontier if wanted"
    )


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def _sizes(model: Model) -> str:
    costs = f"{model.cost_count} cost{'s' * (model.cost_count > 1)}"
    return (
        f"{model.action_count} actions, {costs}, states of {model.state_size} numbers, {model.feature_count} features"
    )

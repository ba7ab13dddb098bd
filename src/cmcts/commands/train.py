"""`cmcts train`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from cmcts.errors import InvalidInput
from cmcts.extras import require_extra

if TYPE_CHECKING:
    from cmcts.tasks.task import Task
    from cmcts.training.loop import Outcome
    from cmcts.training.run_folder import RunFolder
    from cmcts.training.settings import TrainingSettings

_OWN = "(default: the task's own)"


@dataclass(frozen=True)
class Train:
    """Train a safety critic for a task, in the task's training world; the result is a folder that plans.

    Press Ctrl-C at any time: `cmcts train --resume DIR` goes on where it stopped and ends with the same critic.
    """

    task: Annotated[Positional[str | None], arg(metavar="TASK")] = None
    """A task's name (`cmcts tasks` lists them), or FILE.py:NAME or MODULE:NAME for one of your own."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/TASK-SEED)")] = None
    """Folder of the run: configuration, transitions, critics, history and, in the end, the bundle."""
    resume: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: a new run)")] = None
    """Go on with the run in this folder, with the settings it was begun with."""
    budget: Annotated[tuple[float, ...] | None, arg(metavar="B [B ...]", help_behavior_hint=_OWN)] = None
    """What may be spent on average, one number a constraint."""
    seed: int = 0
    """Everything random in the training follows from it."""
    paper: bool = False
    """The paper's own method and hyperparameters: SARSA, no floor, the first feasible critic."""
    iterations: Annotated[int | None, arg(metavar="N", help_behavior_hint=_OWN)] = None
    """Simulations a decision."""
    steps_per_multiplier: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 1000)")] = None
    """Real steps to gather at least for each lambda."""
    max_rounds: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 6)")] = None
    """Rounds of gather, fit and evaluate at most."""
    patience: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 1)")] = None
    """Rounds to go on without a better feasible critic; 0 takes the first one."""
    evaluation_episodes: Annotated[int | None, arg(metavar="N", help_behavior_hint="(default: 400)")] = None
    """Episodes that judge whether a critic is feasible, 200 or more."""
    tolerances: Annotated[
        tuple[float, ...] | None, arg(metavar="T [T ...]", help_behavior_hint="(default: 0.02 0.05 0.1 0)")
    ] = None
    """Pruning tolerances to choose from."""
    accounting: Annotated[
        Literal["paid", "expected"] | None,
        arg(metavar="{paid,expected}", help_behavior_hint="(default: paid; expected if nothing is feasible so)"),
    ] = None
    """What a step takes from the budget: what it really cost, or what it was expected to cost."""
    target: Annotated[
        Literal["feasible", "sarsa"] | None, arg(metavar="{feasible,sarsa}", help_behavior_hint="(default: feasible)")
    ] = None
    """What the critic learns: the least that must still be spent, or what the gathering policies spent."""
    rule: Annotated[
        Literal["bracket", "paper", "sign"] | None,
        arg(metavar="{bracket,paper,sign}", help_behavior_hint="(default: bracket)"),
    ] = None
    """How lambda moves while data is gathered."""
    rollout: Annotated[
        Literal["directed", "uniform"] | None, arg(metavar="{directed,uniform}", help_behavior_hint=_OWN)
    ] = None
    """The rollout policy, in training and in the bundle."""
    fallback: Annotated[
        Literal["lowest_pessimistic", "lowest_mean"] | None,
        arg(metavar="{lowest_pessimistic,lowest_mean}", help_behavior_hint="(default: lowest_pessimistic)"),
    ] = None
    """What to keep where every action is unsafe."""
    no_floor: bool = False
    """Let the critic predict less than the model's own immediate cost."""
    no_guard: bool = False
    """Rollouts that do not ask the critic."""

    def run(self) -> int:
        """Train; 0 if a feasible critic was found, else 1."""
        require_extra("train", "cmcts train")
        from cmcts.commands.planner_options import load_task
        from cmcts.training.loop import train
        from cmcts.training.run_folder import RunFolder
        from cmcts.training.settings import run_config, settings_from_config, task_from_config

        if self.resume is not None:
            self._refuse_other_options()
            folder = RunFolder.open(self.resume)
            # A user's task is run from where it was, or from where the command says it is now.
            task = load_task(self.task or str(folder.config.get("source") or folder.config.get("task")))
            task = task_from_config(task, folder.config)
            settings = settings_from_config(task, folder.config, self.resume)
        else:
            if self.task is None:
                raise InvalidInput("expected a task to train on, or --resume DIR; got neither")
            task = load_task(self.task)
            if self.budget is not None:
                task = dataclasses.replace(task, budget=self.budget)
            settings = self._settings(task)
            path = self.out or Path("runs") / f"{task.name}-{self.seed}"
            folder = RunFolder.create(path, run_config(task, settings))
        from cmcts.commands.progress import TrainingProgress

        progress = TrainingProgress(task, settings)
        with progress.bar:
            try:
                outcome = train(task, settings, folder, progress)
            except KeyboardInterrupt:
                progress.say(f"interrupted; continue with: cmcts train --resume {folder.path}")
                raise
            return self._report(task, settings, folder, outcome, progress.say)

    def _refuse_other_options(self) -> None:
        for option in dataclasses.fields(self):
            if option.name not in ("task", "resume") and getattr(self, option.name) != option.default:
                name = option.name.replace("_", "-")
                raise InvalidInput(f"expected --resume alone: a run keeps its settings; got {name} as well")

    def _settings(self, task: Task) -> TrainingSettings:
        from cmcts.training.paper import paper_settings
        from cmcts.training.settings import TrainingSettings

        settings = paper_settings(task, self.seed) if self.paper else TrainingSettings.for_task(task, seed=self.seed)
        direct = ("iterations", "steps_per_multiplier", "max_rounds", "patience", "evaluation_episodes", "tolerances")
        changes: dict[str, Any] = {name: getattr(self, name) for name in direct if getattr(self, name) is not None}
        if self.target is not None:
            changes["critic"] = dataclasses.replace(settings.critic, target=self.target)
        if self.rule is not None:
            changes["multiplier"] = dataclasses.replace(settings.multiplier, rule=self.rule)
        search: dict[str, Any] = {} if self.rollout is None else {"rollout": self.rollout}
        if self.no_guard:
            search |= {"guarded_rollouts": False, "thrifty_rollouts": False}
        pruning: dict[str, Any] = {} if self.fallback is None else {"fallback": self.fallback}
        if self.accounting is not None:
            changes["accountings"] = (self.accounting,)
            pruning["accounting"] = self.accounting  # while gathering, too
        if self.no_floor:
            pruning["cost_floor"] = False
        changes["search"] = dataclasses.replace(settings.search, **search)
        changes["pruning"] = dataclasses.replace(settings.pruning, **pruning)
        return dataclasses.replace(settings, **changes)

    def _report(self, task: Task, settings: TrainingSettings, folder: RunFolder, outcome: Outcome, say: Any) -> int:
        if outcome.bundle is None or outcome.record is None:
            say(
                f"no feasible critic within {settings.max_rounds} rounds: nothing was kept. The run is in "
                f"{folder.path}; train with more data (--steps-per-multiplier), more rounds or another seed."
            )
            return 1
        from cmcts.commands.progress import evaluated_cost, tried

        record = outcome.record
        say(
            f"critic of round {record['round'] + 1}, {tried(record)}: in the training world reward "
            f"{record['reward_mean']:.2f} ± {record['reward_se']:.2f}, cost {evaluated_cost(record)}, "
            f"{record['violations']} of {record['episodes']} episodes over budget"
        )
        # The run's budget need not be the task's own, which is what `evaluate` plans with.
        budget = " ".join(f"--budget {limit:g}" if m == 0 else f"{limit:g}" for m, limit in enumerate(task.budget))
        say(f"try it: cmcts evaluate {task.source or task.name} --critic {folder.path} {budget}")
        return 0

"""`cmcts train`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from numpy.typing import ArrayLike
from tyro.conf import FlagCreatePairsOff, Positional, arg

from cmcts.commands.watching import RayAddress, executor_for
from cmcts.devices import Device, cores
from cmcts.errors import InvalidInput
from cmcts.extras import require_extra
from cmcts.json_settings import flat
from cmcts.planning.monitor import as_policy
from cmcts.tasks.references import absolute, load_object
from cmcts.tasks.registry import make, named_task
from cmcts.training.paper import paper_settings
from cmcts.training.settings import TrainingSettings

if TYPE_CHECKING:
    from cmcts.critic.bundle import Bundle
    from cmcts.executors import Executor
    from cmcts.tasks.task import Task
    from cmcts.training.earlier import Earlier
    from cmcts.training.forecast import Forecast
    from cmcts.training.loop import Outcome
    from cmcts.training.run_folder import RunFolder

_OWN = "(default: the task's own)"


@dataclass(frozen=True)
class Train:
    """Train a safety critic and a frontier for a task, in its training world; the result is a folder that plans.

    Press Ctrl-C at any time: `cmcts train --resume DIR` goes on where it stopped and ends with the same critic.
    `cmcts train TASK --help` shows the task's own defaults.
    """

    task: Annotated[Positional[str | None], arg(metavar="TASK")] = None
    """A task's name (`cmcts tasks` lists them), or FILE.py:NAME or MODULE:NAME for one of your own."""
    out: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: runs/TASK-SEED)")] = None
    """Folder of the run: configuration, transitions, critics, history and, in the end, the bundle."""
    resume: Annotated[Path | None, arg(metavar="DIR", help_behavior_hint="(default: a new run)")] = None
    """Go on with the run in this folder, with the settings it was begun with."""
    budget: Annotated[tuple[float, ...] | None, arg(metavar="B [B ...]", help_behavior_hint=_OWN)] = None
    """What may be spent on average, one number a constraint."""
    watch: Annotated[str | None, arg(metavar="POLICY", help_behavior_hint="(default: nobody)")] = None
    """FILE.py:NAME or MODULE:NAME of a policy that a safety monitor is to watch: the critic learns where it goes."""
    earlier: Annotated[tuple[str, ...], arg(name="from", metavar="DIR", help_behavior_hint="(default: nothing)")] = ()
    """What there is already, to be tried beside what is trained, and kept where it is better: folders of earlier runs,
    names of bundles that ship, files of exact policies (`cmcts solve --policy`)."""
    paper: Annotated[bool, FlagCreatePairsOff] = False
    """The paper's own method and hyperparameters: SARSA, no floor, the first feasible critic."""
    device: Device = "cpu"
    """Where it is planned: on all cores, on a GPU, or (auto) on the GPU if there is one and a batch is worth it."""
    ray: RayAddress = None
    """Play and fit on a Ray cluster: one that is started here (local), one that runs (auto, or its address)."""
    json: Annotated[bool, FlagCreatePairsOff] = False
    """Progress as lines of JSON on standard error."""
    settings: Annotated[TrainingSettings, arg(name="")] = field(default_factory=TrainingSettings)
    """All that the training depends on besides the task and its budget."""

    @classmethod
    def with_defaults(cls, name: str | None, paper: bool) -> Train:
        """The options with the defaults of a task: settings depend on it, and on whether they are to be the paper's."""
        if name is None:
            return cls()
        task = make(name)
        return cls(settings=paper_settings(task) if paper else TrainingSettings.for_task(task))

    def run(self) -> int:
        """Train; 0 if a feasible critic was found, else 1."""
        require_extra("train", "cmcts train")
        from cmcts.commands.planner_options import load_task
        from cmcts.training.run_folder import RunFolder
        from cmcts.training.settings import settings_from_config, task_from_config

        folder = None
        if self.resume is not None:
            self._refuse_other_options()
            folder = RunFolder.open(self.resume)
            if folder.config.get("watch") != self._watched():
                raise InvalidInput(
                    f"expected the policy that this run was begun with, --watch {folder.config.get('watch')}, "
                    f"got {self.watch}"
                )
            if self.task is None and (source := folder.config.get("source")):
                # A folder may come from anywhere: it does not get to say which file is run.
                raise InvalidInput(
                    f"expected the task of this run as well, got none: cmcts train {source} --resume {self.resume}"
                )
            task = named_task(str(folder.config.get("task"))) if self.task is None else load_task(self.task)
            watch = self._policy(task)
            task = task_from_config(task, folder.config)
            settings = settings_from_config(task, folder.config, self.resume)
            earlier = self._same_as(folder.config, dataclasses.replace(task, search=settings.search))
        else:
            if self.task is None:
                raise InvalidInput("expected a task to train on, or --resume DIR; got neither")
            task = load_task(self.task)
            watch = self._policy(task)
            if self.budget is not None:
                task = dataclasses.replace(task, budget=self.budget)
            settings = self.settings
            earlier = self._load_earlier(dataclasses.replace(task, search=settings.search))
        # A cluster that cannot be joined leaves no folder behind.
        with executor_for(self.ray, self.device, as_json=self.json) as executor:
            folder = folder or self._new_folder(task, settings, earlier)
            return self._train(task, settings, folder, executor, watch, earlier)

    def _new_folder(self, task: Task, settings: TrainingSettings, earlier: list[Earlier]) -> RunFolder:
        from cmcts.training.run_folder import RunFolder
        from cmcts.training.settings import run_config

        path = self.out or Path("runs") / f"{task.name}-{settings.seed}"
        config = run_config(task, settings) | ({"watch": self._watched()} if self.watch else {})
        if earlier:
            config["from"] = [[one.name, one.digest] for one in earlier]
        return RunFolder.create(path, config)

    def _train(
        self,
        task: Task,
        settings: TrainingSettings,
        folder: RunFolder,
        executor: Executor | None,
        watch: Callable[[ArrayLike], int] | None,
        earlier: list[Earlier],
    ) -> int:
        from cmcts.commands.progress import TrainingEvents, TrainingProgress
        from cmcts.training.loop import train

        progress = TrainingEvents() if self.json else TrainingProgress(task, settings, executor)
        with progress.bar:
            try:
                critics = sum(one.bundle is not None and one.bundle.layers is not None for one in earlier)
                progress.foresee(self._forecast(task, settings, folder, executor, critics))
                outcome = train(
                    task,
                    settings,
                    folder,
                    progress,
                    device=self.device,
                    executor=executor,
                    watch=watch,
                    earlier=earlier,
                )
            except KeyboardInterrupt:
                task_file = f"{task.source} " if task.source else ""
                policy = f" --watch {self.watch}" if self.watch else ""
                named = f" --from {' '.join(self.earlier)}" if self.earlier else ""
                progress.say(
                    f"interrupted; continue with: cmcts train {task_file}--resume {folder.path}{policy}{named}"
                )
                raise
            return self._report(task, settings, folder, outcome, progress.say)

    def _forecast(
        self, task: Task, settings: TrainingSettings, folder: RunFolder, executor: Executor | None, earlier: int
    ) -> Forecast:
        """How long it will take: by a first look, and by what the folder says of stages that are done."""
        from cmcts.training.forecast import Forecast, first_look

        workers = cores() if executor is None else executor.slots
        watched = self.watch is not None
        look = first_look(dataclasses.replace(task, search=settings.search))
        return Forecast(task, settings, look, workers, watched=watched, earlier=earlier, history=folder.history)

    def _watched(self) -> str | None:
        """Where the policy to be watched is, whatever folder the command is given in."""
        return None if self.watch is None else absolute(self.watch)

    def _policy(self, task: Task) -> Callable[[ArrayLike], int] | None:
        return None if self.watch is None else as_policy(load_object(self.watch), "policy", task.model.action_count)

    def _load_earlier(self, task: Task) -> list[Earlier]:
        from cmcts.training.earlier import load_earlier

        # A name need not mean the same in another folder; one that ships does.
        names = [str(Path(name).absolute()) if Path(name).exists() else name for name in self.earlier]
        return [load_earlier(name, task) for name in names]

    def _same_as(self, config: dict[str, Any], task: Task) -> list[Earlier]:
        """What a run was begun with, given again: a folder may come from anywhere, and does not say what is loaded."""
        begun, earlier = config.get("from", []), self._load_earlier(task)
        if [list(row) for row in begun] != [[one.name, one.digest] for one in earlier]:
            named = " ".join(str(row[0]) for row in begun) or "nothing"
            raise InvalidInput(
                f"expected what this run was begun with, --from {named}, unchanged; got "
                f"{' '.join(self.earlier) or 'nothing'}, or other content"
            )
        return earlier

    def _refuse_other_options(self) -> None:
        given, usual = flat(self), flat(Train.with_defaults(self.task, paper=False))
        for name in given:
            if (
                name not in ("task", "resume", "device", "ray", "json", "watch", "earlier")
                and given[name] != usual[name]
            ):
                option = name.removeprefix("settings.").replace("_", "-")
                raise InvalidInput(f"expected --resume alone: a run keeps its settings; got {option} as well")

    def _report(self, task: Task, settings: TrainingSettings, folder: RunFolder, outcome: Outcome, say: Any) -> int:
        from cmcts.commands.progress import evaluated_cost, evaluated_reward, tried

        more = "train with more data (--steps-per-multiplier), more rounds or another seed"
        if outcome.bundle is None:
            say(
                f"no feasible critic within {settings.max_rounds} rounds: nothing was kept. The run is in "
                f"{folder.path}; {more}."
            )
            return 1
        record, untrained = outcome.record, outcome.untrained
        if not outcome.pays and untrained is not None:
            found = "none was feasible" if record is None else f"the best earned {evaluated_reward(record)}"
            say(
                f"a critic does not pay here: pruning by immediate costs alone earned {evaluated_reward(untrained)}, "
                f"{untrained['violations']} of {untrained['episodes']} episodes over budget; of the critics, {found}. "
                "None is kept."
            )
        elif record is None:
            say(f"no feasible critic within {settings.max_rounds} rounds: the frontier does without; or {more}.")
        elif outcome.origin is not None:
            say(
                f"the critic of {outcome.origin} is kept: on the same episodes it earned {evaluated_reward(record)}, "
                f"cost {evaluated_cost(record)}, and none of this training did better"
            )
        else:
            say(
                f"critic of round {record['round'] + 1}, {tried(record)}: in the training world reward "
                f"{evaluated_reward(record)}, cost {evaluated_cost(record)}, "
                f"{record['violations']} of {record['episodes']} episodes over budget"
            )
        if outcome.timidity is not None:
            say(outcome.timidity.sentence(task.model))
        if outcome.bundle.columns:
            self._report_frontier(task, outcome.bundle, say)
        # The run's budget need not be the task's own, which is what `evaluate` plans with.
        budget = " ".join(f"--budget {limit:g}" if m == 0 else f"{limit:g}" for m, limit in enumerate(task.budget))
        say(f"try it: cmcts evaluate {task.source or task.name} --critic {folder.path} {budget}")
        return 0

    def _report_frontier(self, task: Task, bundle: Bundle, say: Any) -> None:
        """What the budget buys by a mixture, beside the critic that keeps every episode within it."""
        import warnings

        from cmcts.frontier import Frontier

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            policy = Frontier.of(bundle, task.model).nearest(task.budget)
        costs = ", ".join(
            f"{mean:.3f} (at most {bound:.3f})"
            for mean, bound in zip(policy.cost_means, policy.cost_bounds, strict=True)
        )
        low, high = policy.reward_interval
        say(
            f"frontier of {len(bundle.columns)} columns, on fresh episodes: reward {policy.reward_mean:.2f} "
            f"({low:.2f} to {high:.2f}), mean cost {costs}: {policy.describe()}"
        )
        for warning in caught:
            say(f"warning: {warning.message}")

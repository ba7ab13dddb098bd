"""Training the safety critic: gather, fit, evaluate, until it is feasible and as good as it gets.

    repeat
        gather   plan episodes in the training world with the latest critic pruning, at lambda_1, lambda_2, ... until
                 the mean cost lies just below the budget (multipliers.py); keep all transitions
        fit      a fresh ensemble on all data so far (learning.py)
        evaluate C-MCTS with that critic and lambda = 0 in the training world, at a few pruning tolerances
    until the best feasible critic has not improved for `patience` rounds

Feasible: mean cost plus one standard error within the budget. The paper stops at the first feasible critic, which can
be far too timid; here the *best* feasible one is kept, with the tolerance it was best with. Where no tolerance is
feasible because dangers strike by chance and cost more than is left, the budget is accounted for in expectation
(pruning.py).

Every stage is a function of the configuration and of earlier stages, and is recorded when it is done (runs.py): kill
the training at any moment, resume it, and the same critic comes out, bit for bit.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cmcts.critic import bundle as bundles
from cmcts.critic.bundle import Bundle, model_digest
from cmcts.critic.ensemble import SafetyCritic, ensemble
from cmcts.critic.weights import from_arrays, to_arrays
from cmcts.evaluation.episodes import Episodes, Transitions, run_episodes
from cmcts.evaluation.statistics import standard_error
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.search.pruning import PruningSettings
from cmcts.tasks.task import Task
from cmcts.training.dataset import as_batch, concatenate, held_out_figures, held_out_mask
from cmcts.training.learning import Batch, fit
from cmcts.training.multipliers import Measurement, next_multipliers
from cmcts.training.run_folder import RunFolder
from cmcts.training.selection import best_feasible, hopeless, is_feasible
from cmcts.training.settings import TrainingSettings
from cmcts.version import __version__

EVALUATION_BLOCK = 100  # episodes between two looks at whether an evaluation is still worth finishing
GATHER, EVALUATE = 1, 2  # what a seed is for: no episode of one is ever an episode of the other, or of an evaluation


class Reporter(Protocol):
    """Hears of the training's progress."""

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A phase of `total` units begins."""

    def advance(self, units: int, **figures: Any) -> None:
        """Some of its units are done."""

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """A stage is done; `resumed` if it was done in an earlier life of the run."""


class Silence:
    """A reporter that says nothing."""

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """Ignore."""

    def advance(self, units: int, **figures: Any) -> None:
        """Ignore."""

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """Ignore."""


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    bundle: Bundle | None  # None if no critic was feasible
    record: dict[str, Any] | None  # of the evaluation that chose it
    rounds: int


def train(task: Task, settings: TrainingSettings, run: RunFolder, reporter: Reporter | None = None) -> Outcome:
    """Train a critic for `task` in the run folder `run`; leaves the bundle there if a feasible critic was found."""
    trainer = _Trainer(task, settings, run, reporter or Silence())
    critic: SafetyCritic | None = None
    evaluations: list[dict[str, Any]] = []
    stale = rounds = 0
    for round_ in range(settings.max_rounds):
        trainer.gather(round_, critic)
        critic = trainer.fit(round_)
        before = best_feasible(evaluations)
        # A first critic has seen little, and the next is often feasible as it is.
        early = round_ == 0 and settings.max_rounds > 1
        for accounting in settings.accountings[:1] if early else settings.accountings:
            for tolerance in settings.tolerances:
                pruning = dataclasses.replace(settings.pruning, tolerance=tolerance, accounting=accounting)
                evaluations.append(trainer.evaluate(round_, critic, pruning, best_feasible(evaluations)))
            if best_feasible(evaluations) is not None:
                break
        rounds = round_ + 1
        best = best_feasible(evaluations)
        if best is None:
            continue
        improved = before is None or best["reward_mean"] > before["reward_mean"] + before["reward_se"]
        stale = 0 if improved else stale + 1
        if stale >= settings.patience:
            break
    best = best_feasible(evaluations)
    if best is None:
        return Outcome(None, None, rounds)
    bundle = trainer.bundle(best, rounds)
    bundles.save(bundle, run.path)
    return Outcome(bundle, best, rounds)


class _Trainer:
    """The stages. Each is done once: a resumed run reads what the earlier one wrote."""

    def __init__(self, task: Task, settings: TrainingSettings, run: RunFolder, reporter: Reporter) -> None:
        self.task, self.settings, self.run, self.reporter = task, settings, run, reporter
        self.model = task.model
        self.budget = task.model.validate_costs(task.budget, "budget")
        self.data: list[Transitions] = []
        self.batches: list[Batch] = []

    def stage(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A stage's record: as it was written, or computed now."""
        record = self.run.find(name)
        resumed = record is not None
        if record is None:
            began = time.perf_counter()
            figures = compute()
            record = self.run.finish(name, {**figures, "seconds": round(time.perf_counter() - began, 3)})
        self.reporter.finish(record, resumed=resumed)
        return record

    def gather(self, round_: int, critic: SafetyCritic | None) -> None:
        """Episodes in the training world at lambda_1, lambda_2, ...; the search for lambda starts anew each round."""
        past: list[Measurement] = []
        while True:
            multipliers, stop = next_multipliers(past, self.budget, self.settings.multiplier)
            if stop:
                return
            k = len(past)
            file = f"transitions/{round_:03d}-{k:03d}.safetensors"
            record = self.stage(
                f"gather {round_} {k}",
                lambda: self._gather(round_, k, critic, multipliers, file),  # noqa: B023
            )
            transitions = Transitions(**self.run.load(file))
            self.data.append(transitions)
            self.batches.append(as_batch(self.model, transitions))
            past.append(Measurement(multipliers, np.array(record["cost_means"]), np.array(record["cost_ses"])))

    def _gather(
        self, round_: int, k: int, critic: SafetyCritic | None, multipliers: NDArray[np.float64], file: str
    ) -> dict[str, Any]:
        settings = self.settings
        planner: Planner
        if critic is None:
            # Before there is a critic to guard rollouts, they can at least refuse what the model knows is too dear.
            thrifty = settings.search.thrifty_rollouts or settings.search.guarded_rollouts
            search = dataclasses.replace(settings.search, thrifty_rollouts=thrifty)
            planner = PenalizedMCTS(self.model, multipliers, search)
        else:
            planner = CMCTS(self.model, critic, settings.search, settings.pruning, multipliers)
        block = 32
        parts: list[Transitions] = []
        episodes: list[Episodes] = []
        seed = stage_seed(settings.seed, GATHER, round_, k)
        self.reporter.begin("gather", settings.steps_per_multiplier, multipliers=multipliers.tolist(), round=round_)
        while sum(map(len, parts)) < settings.steps_per_multiplier:
            done, steps = run_episodes(
                planner,
                self.task.training_world,
                self.budget,
                episodes=block,
                seed=seed,
                first_episode=block * len(parts),
                iterations=settings.iterations,
                random_actions=settings.random_actions,
                on_steps=lambda decisions, _: self.reporter.advance(decisions),
            )
            episodes.append(done)
            parts.append(steps)
        columns = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in dataclasses.fields(Transitions)
        }
        self.run.save(file, columns)
        costs = np.concatenate([done.costs for done in episodes])
        rewards = np.concatenate([done.rewards for done in episodes])
        return {
            "phase": "gather",
            "round": round_,
            "k": k,
            "multipliers": multipliers.tolist(),
            "episodes": len(rewards),
            "steps": len(columns["actions"]),
            "reward_mean": float(rewards.mean()),
            "cost_means": costs.mean(axis=0).tolist(),
            "cost_ses": [standard_error(costs[:, m]) for m in range(costs.shape[1])],
        }

    def fit(self, round_: int) -> SafetyCritic:
        """A fresh ensemble on everything gathered so far."""
        file = f"critics/{round_:03d}.safetensors"
        self.stage(f"fit {round_}", lambda: self._fit(round_, file))
        weights, biases = zip(*from_arrays(self.run.load(file)), strict=True)
        return ensemble(weights, biases, self.model.cost_count)

    def _fit(self, round_: int, file: str) -> dict[str, Any]:
        settings = self.settings.critic
        seed = stage_seed(self.settings.seed, GATHER, round_)
        data, transitions = concatenate(self.batches), self.data
        held_out = held_out_mask(transitions, settings.held_out, seed)
        training = Batch(*(column[~held_out] for column in data))
        self.reporter.begin("fit", settings.steps, round=round_, transitions=len(held_out))
        done = 0

        def on_chunk(steps: int, loss: float) -> None:
            nonlocal done
            self.reporter.advance(steps - done, loss=loss)
            done = steps

        discount = self.settings.search.discount
        arrays, loss = fit(training, settings, self.model.action_count, discount, seed, on_chunk)
        self.run.save(file, to_arrays(arrays))
        return {
            "phase": "fit",
            "round": round_,
            "transitions": len(held_out),
            "loss": loss,
            **held_out_figures(arrays, data, transitions, held_out, settings, discount),
        }

    def evaluate(
        self, round_: int, critic: SafetyCritic, pruning: PruningSettings, best: dict[str, Any] | None
    ) -> dict[str, Any]:
        """C-MCTS with this critic, pruning and lambda = 0, in the training world."""
        name = f"evaluate {round_} {pruning.tolerance:g}"
        if pruning.accounting != "paid":
            name += f" {pruning.accounting}"
        return self.stage(name, lambda: self._evaluate(round_, critic, pruning, best))

    def _evaluate(
        self, round_: int, critic: SafetyCritic, pruning: PruningSettings, best: dict[str, Any] | None
    ) -> dict[str, Any]:
        settings = self.settings
        planner = CMCTS(self.model, critic, settings.search, pruning)
        self.reporter.begin("evaluate", settings.evaluation_episodes, round=round_, tolerance=pruning.tolerance)
        parts: list[Episodes] = []
        while (done := sum(map(len, parts))) < settings.evaluation_episodes:
            episodes, _ = run_episodes(
                planner,
                self.task.training_world,
                self.budget,
                episodes=min(EVALUATION_BLOCK, settings.evaluation_episodes - done),
                seed=stage_seed(settings.seed, EVALUATE),
                first_episode=done,
                iterations=settings.iterations,
                on_steps=lambda _, finished: self.reporter.advance(finished),
            )
            parts.append(episodes)
            if hopeless(parts, self.budget, settings.evaluation_episodes, best):
                break
        episodes = Episodes.concatenate(parts)
        summary = episodes.summary().to_dict()
        complete = len(episodes) == settings.evaluation_episodes
        kept = ("reward_mean", "reward_se", "cost_mean", "cost_se", "cost_means", "violations", "nothing_safe_rate")
        return {
            "phase": "evaluate",
            "round": round_,
            "tolerance": pruning.tolerance,
            "accounting": pruning.accounting,
            "feasible": complete and is_feasible(episodes.costs, self.budget),
            **{name: summary[name] for name in kept},
            "episodes": len(episodes),
            "steps": int(episodes.steps.sum()),
        }

    def bundle(self, best: dict[str, Any], rounds: int) -> Bundle:
        """The best critic with all it needs."""
        history = self.run.history
        figures = {
            "seed": self.settings.seed,
            "target": self.settings.critic.target,
            "rounds": rounds,
            "chosen_round": best["round"],
            "episodes": sum(row.get("episodes", 0) for row in history),
            "simulations": self.settings.iterations * sum(row.get("steps", 0) for row in history),
            "transitions": sum(map(len, self.data)),
            "reward_mean": best["reward_mean"],
            "reward_se": best["reward_se"],
            "cost_means": best["cost_means"],
            "violations": best["violations"],
            "evaluation_episodes": self.settings.evaluation_episodes,
        }
        return Bundle(
            task=self.task.name,
            model_digest=model_digest(self.model),
            feature_description=self.model.feature_description,
            layers=from_arrays(self.run.load(f"critics/{best['round']:03d}.safetensors")),
            cost_count=self.model.cost_count,
            search=self.settings.search,
            pruning=dataclasses.replace(
                self.settings.pruning, tolerance=best["tolerance"], accounting=best["accounting"]
            ),
            budget=self.task.budget,
            training=figures,
            library=__version__,
        )


def stage_seed(seed: int, *words: int) -> int:
    """The seed of one stage, far from every other stage's and from the plain seeds of evaluations."""
    return int(np.random.SeedSequence((seed, *words), spawn_key=(7,)).generate_state(1, np.uint64)[0] >> np.uint64(1))

"""Training the safety critic: gather, fit, evaluate, until it is feasible and as good as it gets.

    scale        what counts as a large cost here (unless the task says it): random walks in the training world
    walk         random walks once more, to be learnt from, and the policy that is to be watched, if there is one
    repeat
        gather   plan episodes in the training world with the latest critic pruning, at lambda_1, lambda_2, ... until
                 the mean cost lies just below the budget (multipliers.py); keep all transitions
        explore  in the first round, find out how widely to explore from now on (exploration.py)
        fit      a fresh ensemble on all data so far (learning.py)
        evaluate C-MCTS with that critic and lambda = 0 in the training world, at a few pruning tolerances
    until the best feasible critic has not improved for `patience` rounds, or none comes nearer to being feasible
    confirm      the best feasible critic on episodes that took no part in the choice (selection.py)
    frontier     policies at several prices, guarded by that critic and not, with rollouts and with learned leaf values
                 (values.py), to be mixed for any budget (cmcts.frontier)

Feasible: mean cost plus one standard error within the budget. The paper stops at the first feasible critic, which can
be far too timid; here the *best* feasible one is kept, with the tolerance it was best with. Where no tolerance is
feasible because dangers strike by chance and cost more than is left, the budget is accounted for in expectation
(search/pruning.py).

Every stage is a function of the configuration and of earlier stages, and is recorded when it is done (run_folder.py):
kill the training at any moment, resume it, and the same critic comes out, bit for bit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cmcts.critic import bundle as bundles
from cmcts.critic import support as supports
from cmcts.critic.bundle import Bundle
from cmcts.critic.ensemble import SafetyCritic, ensemble, immediate_costs_only
from cmcts.critic.identity import code_digests, model_digest
from cmcts.critic.weights import from_arrays, to_arrays
from cmcts.devices import Device, validate_device
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import Episodes, Transitions
from cmcts.evaluation.recall import PLANS_A_STATE
from cmcts.evaluation.statistics import standard_error
from cmcts.evaluation.walks import Propose, rollout_policy, walk
from cmcts.executors import Executor
from cmcts.frontier.generation import Generated, Guard, generate
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.random import stage_seed
from cmcts.search.pruning import ROUNDING, Accounting, PruningSettings
from cmcts.tasks.task import Task
from cmcts.training.dataset import as_batch, concatenate, held_out_figures, held_out_mask
from cmcts.training.exploration import EPISODES as EXPLORING_EPISODES
from cmcts.training.exploration import climb
from cmcts.training.fitting import fit_on
from cmcts.training.learning import Batch, in_units
from cmcts.training.multipliers import Measurement, next_multipliers
from cmcts.training.run_folder import RunFolder
from cmcts.training.selection import best_feasible, confirmed, does_not_pay, hopeless, is_feasible, least_excess
from cmcts.training.settings import TrainingSettings
from cmcts.training.values import fit_values
from cmcts.version import __version__

LEAST_TOLERANCE = 1e-3  # of the cost scale; others are multiples of it
NEARER = 0.9  # of the earlier excess over the budget: a round that is no nearer has not improved
EVALUATION_BLOCK = 100  # episodes between two looks at whether an evaluation is still worth finishing
SCALE_STEPS = 2000  # of random walks that show how large costs are
# What a seed is for: no episode of one is ever an episode of another, or of an evaluation by command.
GATHER, EVALUATE, FIT, CONFIRM, SCALE, WALK, WATCH, EXPLORE = range(1, 9)


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

    bundle: Bundle | None  # None if no critic was feasible, and no frontier was asked for
    record: dict[str, Any] | None  # of the confirmation that the critic passed, if one did
    rounds: int
    looked_feasible: bool = False  # some critic was feasible until it was tried on fresh episodes
    untrained: dict[str, Any] | None = None  # what pruning by immediate costs alone does, if it was tried
    pays: bool = True  # False if that is better, and so the critic of `record`, if there is one, was not kept


def train(
    task: Task,
    settings: TrainingSettings,
    run: RunFolder,
    reporter: Reporter | None = None,
    *,
    device: Device = "cpu",
    executor: Executor | None = None,
    watch: Propose | None = None,
) -> Outcome:
    """Train a critic for `task` in the run folder `run`; leaves the bundle there if a feasible critic was found.

    `device` says where it is planned, as in `Planner.plan_batch`; the critic is fitted where JAX finds its devices.
    Episodes and fits are done by the `executor`, if there is one, with the same result. `watch` is a policy that a
    `SafetyMonitor` is to watch: the critic learns from its steps as well.
    """
    if executor is None:
        validate_device(device)
    with run.in_use():
        return _train(_Trainer(task, settings, run, reporter or Silence(), device, executor), watch)


def _train(trainer: _Trainer, watch: Propose | None) -> Outcome:
    settings = trainer.settings
    trainer.walk(watch)
    critic: SafetyCritic | None = None
    evaluations: list[dict[str, Any]] = []
    excess = math.inf
    stale = rounds = 0
    for round_ in range(settings.max_rounds):
        trainer.gather(round_, critic)
        if round_ == 0 and settings.choose_exploration:
            trainer.choose_exploration()
        critic = trainer.fit(round_)
        before = best_feasible(evaluations)
        # A first critic has seen little, and the next is often feasible as it is.
        early = round_ == 0 and settings.max_rounds > 1
        for accounting in settings.accountings[:1] if early else settings.accountings:
            judge = partial(trainer.judge, round_, critic, accounting, evaluations)
            for tolerance in sorted(trainer.tolerances(round_)):
                if judge(tolerance):
                    break  # a larger one refuses less, and spends no less
            if best_feasible(evaluations) is None:
                for tolerance in trainer.finer_tolerances(round_):
                    judge(tolerance)
            if best_feasible(evaluations) is not None:
                break
        rounds = round_ + 1
        best = best_feasible(evaluations)
        if best is None:
            nearest = least_excess(evaluations, trainer.budget, trainer.cost_scale)
            improved = nearest < NEARER * excess
            excess = nearest
        else:
            improved = before is None or best["reward_mean"] > before["reward_mean"] + before["reward_se"]
        stale = 0 if improved else stale + 1
        if stale >= settings.patience:
            break
    best = confirmed(evaluations, trainer.confirm, settings.confirmations)
    untrained = trainer.evaluate_untrained() if settings.untrained else None
    pays = not does_not_pay(best, untrained)
    kept = best if pays else None
    frontier = trainer.frontier(kept)
    looked_feasible = best_feasible(evaluations) is not None
    if kept is None and pays and not frontier.columns:
        return Outcome(None, None, rounds, looked_feasible, untrained)
    bundle = trainer.bundle(kept, frontier, rounds)
    bundles.save(bundle, trainer.run.path)
    return Outcome(bundle, best, rounds, looked_feasible, untrained, pays)


class _Trainer:
    """The stages. Each is done once: a resumed run reads what the earlier one wrote."""

    def __init__(
        self,
        task: Task,
        settings: TrainingSettings,
        run: RunFolder,
        reporter: Reporter,
        device: Device,
        executor: Executor | None,
    ) -> None:
        self.task, self.settings, self.run, self.reporter = task, settings, run, reporter
        self.device: Device = device
        self.executor = executor
        self.model = task.model
        self.budget = task.model.validate_costs(task.budget, "budget")
        self.data: list[Transitions] = []
        self.batches: list[Batch] = []
        self.gathered_until = ""  # why the last search for lambda ended
        self.multipliers = np.zeros(task.model.cost_count)  # where it did
        self.cost_scale = self._find_cost_scale()

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

    def _find_cost_scale(self) -> NDArray[np.float64]:
        """[M] what counts as a large cost: as the task says, else the budget or a single step's largest cost."""
        if not self.settings.relative_costs:
            return np.ones(self.model.cost_count)
        if self.task.cost_scale is not None:
            return np.array(self.task.cost_scale)
        record = self.stage("scale", self._walk_at_random)
        return np.array(record["cost_scale"])

    def _walk_at_random(self) -> dict[str, Any]:
        """Random legal walks in the training world; each constraint's scale is at least the largest cost they met."""
        self.reporter.begin("scale", SCALE_STEPS, round=0)
        seed = self._seed(SCALE)
        walks = walk(self.model, self.task.training_world, seed, SCALE_STEPS, on_steps=self.reporter.advance)
        scale = np.maximum(walks.costs.max(axis=0), self.budget)
        return {
            "phase": "scale",
            "round": 0,
            "cost_scale": np.where(scale > 0, scale, 1.0).tolist(),
            "episodes": int(walks.last.sum()),
            "walked": len(walks),
        }

    def walk(self, watch: Propose | None) -> None:
        """What nobody plans: walks that stray from the model's rollout policy, and from the one to be watched."""
        if self.settings.walk_steps > 0:
            self._walk("walk", self._seed(WALK), rollout_policy(self.model, self._seed(WALK)))
        if watch is not None:
            self._walk("watch", self._seed(WATCH), watch)

    def _walk(self, name: str, seed: int, policy: Propose | None) -> None:
        file = f"transitions/{name}.safetensors"
        self.stage(name, lambda: self._take_walks(name, seed, policy, file))
        self._add(file)

    def _take_walks(self, name: str, seed: int, policy: Propose | None, file: str) -> dict[str, Any]:
        steps = self.settings.walk_steps or self.settings.steps_per_multiplier
        self.reporter.begin(name, steps, round=0)
        walks = walk(self.model, self.task.training_world, seed, steps, policy, self.reporter.advance)
        self.run.save(file, vars(walks))
        costs = walks.costs.mean(axis=0).tolist()
        return {"phase": name, "round": 0, "episodes": int(walks.last.sum()), "walked": len(walks), "step_costs": costs}

    def _add(self, file: str) -> None:
        transitions = Transitions(**self.run.load(file))
        self.data.append(transitions)
        self.batches.append(as_batch(self.model, transitions))

    def _seed(self, *words: int) -> int:
        return stage_seed(self.settings.seed, *words)

    def gather(self, round_: int, critic: SafetyCritic | None) -> None:
        """Episodes in the training world at lambda_1, lambda_2, ...; the search for lambda starts anew each round."""
        past: list[Measurement] = []
        scale, unit = self.cost_scale, self.settings.search.reward_scale
        while True:
            multipliers, self.gathered_until = next_multipliers(past, self.budget / scale, self.settings.multiplier)
            if self.gathered_until:
                return
            k = len(past)
            file = f"transitions/{round_:03d}-{k:03d}.safetensors"
            record = self.stage(
                f"gather {round_} {k}",
                lambda: self._gather(round_, k, critic, multipliers * unit / scale, file),  # noqa: B023
            )
            self.multipliers = np.array(record["multipliers"])
            self._add(file)
            costs, errors = np.array(record["cost_means"]) / scale, np.array(record["cost_ses"]) / scale
            past.append(Measurement(multipliers, costs, errors))

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
            pruning = dataclasses.replace(settings.pruning, accounting=settings.accountings[0], unsure="floor")
            planner = CMCTS(self.model, critic, settings.search, pruning, multipliers)
        block = 32
        parts: list[Transitions] = []
        episodes: list[Episodes] = []
        seed = self._seed(GATHER, round_, k)
        self.reporter.begin("gather", settings.steps_per_multiplier, multipliers=multipliers.tolist(), round=round_)
        while sum(map(len, parts)) < settings.steps_per_multiplier:
            done, steps = episodes_on(
                self.executor,
                planner,
                self.task.training_world,
                self.budget,
                episodes=block,
                seed=seed,
                first_episode=block * len(parts),
                iterations=settings.iterations,
                device=self.device,
                random_actions=settings.random_actions,
                plans_a_state=PLANS_A_STATE if critic is None else None,
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

    def choose_exploration(self) -> None:
        """Explore more or less widely from now on, if that pays; an absolute width is the user's own choice.

        Nor is it asked where the planning model may be wrong: what it overlooks is not found by looking elsewhere.
        """
        search = self.settings.search
        if search.exploration is None and self.task.model_is_exact:
            width = climb(search.relative_exploration, self._penalised_returns)
            search = dataclasses.replace(search, relative_exploration=width)
            self.settings = dataclasses.replace(self.settings, search=search)

    def _penalised_returns(self, width: float) -> NDArray[np.float64]:
        file = f"exploration/{width:g}.safetensors"
        self.stage(f"explore {width:g}", lambda: self._explore(width, file))
        arrays = self.run.load(file)
        return np.asarray(arrays["rewards"] - arrays["costs"] @ self.multipliers)

    def _explore(self, width: float, file: str) -> dict[str, Any]:
        search = dataclasses.replace(self.settings.search, relative_exploration=width)
        self.reporter.begin("explore", EXPLORING_EPISODES, round=0, width=width)
        done, _ = episodes_on(
            self.executor,
            PenalizedMCTS(self.model, self.multipliers, search),
            self.task.training_world,
            self.budget,
            episodes=EXPLORING_EPISODES,
            seed=self._seed(EXPLORE),
            iterations=self.settings.iterations,
            device=self.device,
            plans_a_state=PLANS_A_STATE,
            on_steps=lambda _, finished: self.reporter.advance(finished),
        )
        self.run.save(file, {"rewards": done.rewards, "costs": done.costs})
        return {
            "phase": "explore",
            "round": 0,
            "width": width,
            "multipliers": self.multipliers.tolist(),
            "episodes": len(done),
            "steps": int(done.steps.sum()),
            "reward_mean": float(done.rewards.mean()),
            "cost_means": done.costs.mean(axis=0).tolist(),
        }

    def fit(self, round_: int) -> SafetyCritic:
        """A fresh ensemble on everything gathered so far."""
        file = f"critics/{round_:03d}.safetensors"
        self.stage(f"fit {round_}", lambda: self._fit(round_, file))
        return self._critic(round_)

    def _critic(self, round_: int) -> SafetyCritic:
        weights, biases = zip(*from_arrays(self.run.load(f"critics/{round_:03d}.safetensors")), strict=True)
        return ensemble(weights, biases, self.model.cost_count, self.cost_scale.tolist(), self._support(round_))

    def _support(self, round_: int) -> supports.Support | None:
        if not self.settings.critic.support:
            return None
        arrays = self.run.load(_support_file(round_))
        return supports.from_arrays(arrays, self.model.feature_count, self.model.action_count)

    def tolerances(self, round_: int) -> tuple[float, ...]:
        """The tolerances to try: none below the critic's own error, but for the largest."""
        tried, record = self.settings.tolerances, self.run.find(f"fit {round_}")
        error = (record or {}).get("error", 0.0)
        return tuple(tolerance for tolerance in tried if tolerance >= min(error, max(tried)))

    def finer_tolerances(self, round_: int) -> tuple[float, ...]:
        """The least that the critic can tell, its own error, if that is less than what is tried anyway."""
        error = float((self.run.find(f"fit {round_}") or {}).get("error", 0.0))
        finest = max(1, math.ceil(error / LEAST_TOLERANCE)) * LEAST_TOLERANCE
        return (finest,) if finest < min(self.settings.tolerances) else ()

    def _fit(self, round_: int, file: str) -> dict[str, Any]:
        settings = self.settings.critic
        seed = self._seed(FIT, round_)
        data, transitions = concatenate(self.batches), self.data
        held_out = held_out_mask(transitions, settings.held_out, seed)
        training = Batch(*(column[~held_out] for column in data))
        training = training._replace(costs=(training.costs / self.cost_scale).astype(np.float32))
        self.reporter.begin("fit", settings.steps, round=round_, transitions=len(held_out))
        done = 0

        def on_chunk(steps: int, loss: float) -> None:
            nonlocal done
            self.reporter.advance(steps - done, loss=loss)
            done = steps

        discounts = self.settings.search.discounts_of_costs(self.model.cost_count)
        actions = self.model.action_count
        arrays, loss = fit_on(self.executor, training, settings, actions, discounts, seed, on_chunk)
        arrays = in_units(arrays, self.cost_scale)
        self.run.save(file, to_arrays(arrays))
        if settings.support:
            support = supports.find_support(data.features, data.actions, held_out, self.model.action_count, seed)
            self.run.save(_support_file(round_), supports.to_arrays(support))
        return {
            "phase": "fit",
            "round": round_,
            "transitions": len(held_out),
            "loss": loss,
            "gathered_until": self.gathered_until,
            **held_out_figures(arrays, data, transitions, held_out, settings, discounts, self.cost_scale),
        }

    def judge(
        self,
        round_: int,
        critic: SafetyCritic,
        accounting: Accounting,
        evaluations: list[dict[str, Any]],
        tolerance: float,
    ) -> bool:
        """Evaluate the critic with this tolerance, after the other `evaluations`; whether it spends too much."""
        pruning = dataclasses.replace(self.settings.pruning, tolerance=tolerance, accounting=accounting)
        record = self.evaluate(round_, critic, pruning, evaluations)
        evaluations.append(record)
        return bool((np.array(record["cost_means"]) > self.budget + ROUNDING).any())

    def evaluate(
        self, round_: int, critic: SafetyCritic, pruning: PruningSettings, earlier: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """C-MCTS with this critic, pruning and lambda = 0, in the training world; cut short if it cannot win."""
        name = f"evaluate {round_} {pruning.tolerance:g}"
        if pruning.accounting != "paid":
            name += f" {pruning.accounting}"
        seed = self._seed(EVALUATE)  # one for all: they are compared on the same worlds
        return self.stage(name, lambda: self._evaluate("evaluate", round_, critic, pruning, seed, earlier))

    def confirm(self, evaluation: dict[str, Any], attempt: int) -> dict[str, Any]:
        """The same critic and pruning on episodes that took no part in any choice."""
        round_ = evaluation["round"]
        pruning = self._pruning(evaluation)
        seed = self._seed(CONFIRM, attempt)
        return self.stage(
            f"confirm {attempt}",
            lambda: self._evaluate("confirm", round_, self._critic(round_), pruning, seed, []),
        )

    def evaluate_untrained(self) -> dict[str, Any]:
        """What prunes by immediate costs alone, on the episodes that the critics were compared on."""
        pruning, seed = self._untrained_pruning, self._seed(EVALUATE)
        critic = immediate_costs_only(self.model, tuple(self.cost_scale.tolist()))
        return self.stage("untrained", lambda: self._evaluate("untrained", 0, critic, pruning, seed, []))

    @property
    def _untrained_pruning(self) -> PruningSettings:
        return dataclasses.replace(self.settings.pruning, cost_floor=True)

    def _pruning(self, evaluation: dict[str, Any]) -> PruningSettings:
        return dataclasses.replace(
            self.settings.pruning, tolerance=evaluation["tolerance"], accounting=evaluation["accounting"]
        )

    def _evaluate(
        self,
        phase: str,
        round_: int,
        critic: SafetyCritic,
        pruning: PruningSettings,
        seed: int,
        earlier: list[dict[str, Any]],
    ) -> dict[str, Any]:
        settings, best = self.settings, best_feasible(earlier)
        planner = CMCTS(self.model, critic, settings.search, pruning)
        self.reporter.begin(phase, settings.evaluation_episodes, round=round_, tolerance=pruning.tolerance)
        parts: list[Episodes] = []
        fingerprint, twin, cut_short = "", None, False
        most_steps = math.inf if phase == "confirm" else settings.evaluation_steps
        while (done := sum(map(len, parts))) < settings.evaluation_episodes:
            if sum(int(part.steps.sum()) for part in parts) >= most_steps:
                break
            episodes, _ = episodes_on(
                self.executor,
                planner,
                self.task.training_world,
                self.budget,
                episodes=min(EVALUATION_BLOCK, settings.evaluation_episodes - done),
                seed=seed,
                first_episode=done,
                iterations=settings.iterations,
                device=self.device,
                on_steps=lambda _, finished: self.reporter.advance(finished),
            )
            parts.append(episodes)
            if len(parts) == 1:
                fingerprint = _fingerprint(episodes)
                twin = next(
                    (row for row in earlier if row["fingerprint"] == fingerprint and row["round"] == round_), None
                )
            cut_short = twin is not None or hopeless(parts, self.budget, settings.evaluation_episodes, best)
            if cut_short:
                break
        episodes = Episodes.concatenate(parts)
        summary = episodes.summary().to_dict()
        kept = ("reward_mean", "reward_se", "cost_mean", "cost_se", "cost_means", "violations", "nothing_safe_rate")
        return {
            "phase": phase,
            "round": round_,
            "tolerance": pruning.tolerance,
            "accounting": pruning.accounting,
            "feasible": not cut_short and is_feasible(episodes.costs, self.budget),
            **{name: summary[name] for name in kept},
            "episodes": len(episodes),
            "steps": int(episodes.steps.sum()),
            "fingerprint": fingerprint,
            **({} if twin is None else {"same_as": twin["tolerance"]}),
        }

    def frontier(self, best: dict[str, Any] | None) -> Generated:
        """Policies for a frontier, with and without the critic that was confirmed; none if none are asked for."""
        if self.settings.frontier.columns == 0:
            return Generated((), None)
        guard = None
        if best is not None:
            guard = Guard(self._critic(best["round"]), self._pruning(best), self.settings.search)
        # The training's own search and pruning, which need not be the task's.
        task = dataclasses.replace(self.task, search=self.settings.search, pruning=self.settings.pruning)
        frontier, seed = self.settings.frontier, self.settings.seed
        return generate(task, frontier, seed, guard, self.cost_scale, self, fit_values, self.device, self.executor)

    def save(self, name: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        """For the frontier's stages: write arrays to a file of the run."""
        self.run.save(name, arrays)

    def load(self, name: str) -> dict[str, NDArray[Any]]:
        """For the frontier's stages: read them again."""
        return self.run.load(name)

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """For the frontier's stages: one begins."""
        self.reporter.begin(phase, total, **figures)

    def advance(self, units: int) -> None:
        """For the frontier's stages: some of it is done."""
        self.reporter.advance(units)

    def bundle(self, best: dict[str, Any] | None, frontier: Generated, rounds: int) -> Bundle:
        """The best critic, if one was confirmed, and the frontier, with all they need."""
        history = self.run.history
        figures: dict[str, Any] = {
            "seed": self.settings.seed,
            "target": self.settings.critic.target,
            "rounds": rounds,
            "episodes": sum(row.get("episodes", 0) for row in history),
            "simulations": self.settings.iterations * sum(row.get("steps", 0) for row in history)
            + sum(row.get("simulations", 0) for row in history),
            "transitions": sum(map(len, self.data)),
        }
        if best is not None:
            kept = ("reward_mean", "reward_se", "cost_means", "violations")
            figures |= {"chosen_round": best["round"], **{name: best[name] for name in kept}}
            figures["evaluation_episodes"] = self.settings.evaluation_episodes
        file = None if best is None else f"critics/{best['round']:03d}.safetensors"
        return Bundle(
            task=self.task.name,
            model_digest=model_digest(self.model),
            feature_description=self.model.feature_description,
            layers=None if file is None else from_arrays(self.run.load(file)),
            support=None if best is None else self._support(best["round"]),
            cost_count=self.model.cost_count,
            search=self.settings.search,
            pruning=self._untrained_pruning if best is None else self._pruning(best),
            budget=self.task.budget,
            training=figures,
            library=__version__,
            cost_scale=tuple(self.cost_scale.tolist()),
            columns=frontier.columns,
            values=frontier.values,
            code=code_digests(self.model),
        )


def _support_file(round_: int) -> str:
    return f"critics/{round_:03d}-support.safetensors"


def _fingerprint(episodes: Episodes) -> str:
    """Tells evaluations apart: tolerances that lead to the same decisions have the same episodes, to the last bit."""
    return hashlib.sha256(episodes.rewards.tobytes() + episodes.costs.tobytes()).hexdigest()[:16]

"""Data for the critics: random walks, then planned episodes whose mean cost lies just below the budget."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.ensemble import SafetyCritic
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import Episodes, Transitions
from cmcts.evaluation.recall import PLANS_A_STATE
from cmcts.evaluation.statistics import standard_error
from cmcts.evaluation.walks import Propose, rollout_policy, walk
from cmcts.planning.planner import Planner
from cmcts.planning.planners import CMCTS, PenalizedMCTS
from cmcts.training.dataset import as_batch
from cmcts.training.learning import Batch
from cmcts.training.multipliers import Measurement, next_multipliers
from cmcts.training.stages import GATHER, WALK, WATCH, Stages


class Gathering:
    """All transitions so far, and where the last search for lambda led."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self.transitions: list[Transitions] = []
        self.batches: list[Batch] = []  # the same, as the learner sees them
        self.ended_by = ""  # why the last search for lambda ended
        self.multipliers = np.zeros(stages.model.cost_count)  # where it did

    def walk(self, watch: Propose | None) -> None:
        """What nobody plans: walks that stray from the model's rollout policy, and from the one to be watched."""
        stages = self._stages
        if stages.settings.walk_steps > 0:
            seed = stages.seed(WALK)
            self._walk("walk", seed, rollout_policy(stages.model, seed))
        if watch is not None:
            self._walk("watch", stages.seed(WATCH), watch)

    def _walk(self, name: str, seed: int, policy: Propose | None) -> None:
        file = f"transitions/{name}.safetensors"
        self._stages.stage(name, lambda: self._take_walks(name, seed, policy, file))
        self._add(file)

    def _take_walks(self, name: str, seed: int, policy: Propose | None, file: str) -> dict[str, Any]:
        stages = self._stages
        steps = stages.settings.walk_steps or stages.settings.steps_per_multiplier
        stages.begin(name, steps, round=0)
        walks = walk(stages.model, stages.task.training_world, seed, steps, policy, stages.advance)
        stages.save(file, vars(walks))
        costs = walks.costs.mean(axis=0).tolist()
        return {"phase": name, "round": 0, "episodes": int(walks.last.sum()), "walked": len(walks), "step_costs": costs}

    def _add(self, file: str) -> None:
        transitions = Transitions(**self._stages.load(file))
        self.transitions.append(transitions)
        self.batches.append(as_batch(self._stages.model, transitions))

    def gather(self, round_: int, critic: SafetyCritic | None) -> None:
        """Episodes in the training world at lambda_1, lambda_2, ...; the search for lambda starts anew each round."""
        stages = self._stages
        past: list[Measurement] = []
        scale, unit = stages.cost_scale, stages.settings.search.reward_scale
        while True:
            multipliers, self.ended_by = next_multipliers(past, stages.budget / scale, stages.settings.multiplier)
            if self.ended_by:
                return
            k = len(past)
            file = f"transitions/{round_:03d}-{k:03d}.safetensors"
            record = stages.stage(
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
        stages, settings = self._stages, self._stages.settings
        planner = self._planner(critic, multipliers)
        block = 32
        parts: list[Transitions] = []
        episodes: list[Episodes] = []
        seed = stages.seed(GATHER, round_, k)
        stages.begin("gather", settings.steps_per_multiplier, multipliers=multipliers.tolist(), round=round_)
        while sum(map(len, parts)) < settings.steps_per_multiplier:
            done, steps = episodes_on(
                stages.executor,
                planner,
                stages.task.training_world,
                stages.budget,
                episodes=block,
                seed=seed,
                first_episode=block * len(parts),
                iterations=settings.iterations,
                device=stages.device,
                random_actions=settings.random_actions,
                plans_a_state=PLANS_A_STATE if critic is None else None,
                on_steps=lambda decisions, _: stages.advance(decisions),
            )
            episodes.append(done)
            parts.append(steps)
        columns = {
            column.name: np.concatenate([getattr(part, column.name) for part in parts])
            for column in dataclasses.fields(Transitions)
        }
        stages.save(file, columns)
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

    def _planner(self, critic: SafetyCritic | None, multipliers: NDArray[np.float64]) -> Planner:
        model, settings = self._stages.model, self._stages.settings
        if critic is None:
            # Before there is a critic to guard rollouts, they can at least refuse what the model knows is too dear.
            thrifty = settings.search.thrifty_rollouts or settings.search.guarded_rollouts
            search = dataclasses.replace(settings.search, thrifty_rollouts=thrifty)
            return PenalizedMCTS(model, multipliers, search)
        pruning = dataclasses.replace(settings.pruning, accounting=settings.accountings[0], unsure="floor")
        return CMCTS(model, critic, settings.search, pruning, multipliers)

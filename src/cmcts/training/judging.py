"""What critics do: C-MCTS with each of them and lambda = 0 in the training world, at a few pruning tolerances."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.ensemble import SafetyCritic, immediate_costs_only
from cmcts.evaluation.blocks import episodes_on
from cmcts.evaluation.episodes import Episodes
from cmcts.planning.planners import CMCTS
from cmcts.search.pruning import ROUNDING, Accounting, PruningSettings
from cmcts.search.settings import SearchSettings
from cmcts.training.critics import Critics
from cmcts.training.selection import best_feasible, earns_more, hopeless, is_feasible
from cmcts.training.settings import TrainingSettings
from cmcts.training.stages import CONFIRM, EVALUATE, Stages

FIRST_BLOCK, EVALUATION_BLOCK = 25, 100  # episodes between two looks at whether an evaluation is still worth finishing
FEWEST = 50  # episodes, however long they are
CONFIRMING = 2  # times the steps that critics are compared on, at least, confirm the choice


class Judging:
    """The evaluations of all critics so far, and how one of them is confirmed."""

    def __init__(self, stages: Stages, critics: Critics) -> None:
        self._stages, self._critics = stages, critics
        self.evaluations: list[dict[str, Any]] = []  # their records, in the order in which they were made

    def judge(self, round_: int, critic: SafetyCritic, accounting: Accounting) -> None:
        """Evaluate a round's critic at the tolerances that suit it; at finer ones while nothing is feasible."""
        for tolerance in sorted(self._critics.tolerances(round_)):
            record = self._evaluate(round_, critic, accounting, tolerance)
            if (np.array(record["cost_means"]) > self._stages.budget + ROUNDING).any():
                break  # a larger one refuses less, and spends no less
        if best_feasible(self.evaluations) is None:
            for tolerance in self._critics.finer_tolerances(round_):
                if self._evaluate(round_, critic, accounting, tolerance)["feasible"]:
                    break

    def _evaluate(self, round_: int, critic: SafetyCritic, accounting: Accounting, tolerance: float) -> dict[str, Any]:
        """The record of one more evaluation, which is cut short if it cannot win against the earlier ones."""
        name = f"evaluate {round_} {tolerance:g}"
        if accounting != "paid":
            name += f" {accounting}"
        pruning = dataclasses.replace(self._stages.settings.pruning, tolerance=tolerance, accounting=accounting)
        seed = self._stages.seed(EVALUATE)  # one for all: they are compared on the same worlds
        record = self._stages.stage(
            name, lambda: self._play("evaluate", round_, critic, pruning, seed, self.evaluations)
        )
        self.evaluations.append(record)
        return record

    def confirm(self, evaluation: dict[str, Any], attempt: int) -> dict[str, Any]:
        """The same critic and pruning on episodes that took no part in any choice."""
        round_ = evaluation["round"]
        pruning = pruning_of(evaluation, self._stages.settings)
        seed = self._stages.seed(CONFIRM, attempt)
        return self._stages.stage(
            f"confirm {attempt}",
            lambda: self._play("confirm", round_, self._critics.critic(round_), pruning, seed, [], attempt=attempt),
        )

    def untrained(self, attempt: int) -> dict[str, Any]:
        """What prunes by immediate costs alone, on the episodes of a confirmation."""
        stages = self._stages
        pruning, seed = pruning_of(None, stages.settings), stages.seed(CONFIRM, attempt)
        critic = immediate_costs_only(stages.model, tuple(stages.cost_scale.tolist()))
        return stages.stage("untrained", lambda: self._play("untrained", 0, critic, pruning, seed, []))

    def earlier(
        self, number: int, critic: SafetyCritic, pruning: PruningSettings, search: SearchSettings, attempt: int
    ) -> dict[str, Any]:
        """What an earlier training's critic does with its own pruning and search, on the episodes of a confirmation."""
        seed = self._stages.seed(CONFIRM, attempt)
        return self._stages.stage(
            f"earlier {number}",
            lambda: self._play("earlier", 0, critic, pruning, seed, [], search=search, number=number),
        )

    def beats(self, other: dict[str, Any], best: dict[str, Any] | None) -> bool:
        """Whether a candidate keeps the budget, and earns more than the best so far in the same worlds.

        So does anything that keeps the budget, if nothing else has.
        """
        if not other["feasible"] or best is None:
            return bool(other["feasible"])
        return earns_more(self._rewards(other), self._rewards(best))

    def _rewards(self, record: dict[str, Any]) -> NDArray[np.float64]:
        """[N] what each episode of a confirmation earned, or of what is compared with it."""
        return np.asarray(self._stages.load(record["kept"])["rewards"])

    def _play(
        self,
        phase: str,
        round_: int,
        critic: SafetyCritic,
        pruning: PruningSettings,
        seed: int,
        earlier: list[dict[str, Any]],
        *,
        search: SearchSettings | None = None,
        **numbers: int,
    ) -> dict[str, Any]:
        stages, settings, best = self._stages, self._stages.settings, best_feasible(earlier)
        planner = CMCTS(stages.model, critic, search or settings.search, pruning)
        stages.begin(phase, settings.evaluation_episodes, round=round_, tolerance=pruning.tolerance)
        parts: list[Episodes] = []
        fingerprint, twin, cut_short = "", None, False
        most_steps = settings.evaluation_steps * (1 if phase == "evaluate" else CONFIRMING)
        while (done := sum(map(len, parts))) < settings.evaluation_episodes:
            steps = sum(int(part.steps.sum()) for part in parts)
            if done >= FEWEST and steps >= most_steps:
                break
            affordable = max(FEWEST - done, math.ceil((most_steps - steps) * done / steps)) if done else FIRST_BLOCK
            episodes, _ = episodes_on(
                stages.executor,
                planner,
                stages.task.training_world,
                stages.budget,
                # Whether an evaluation is hopeless shows soon; the longer it is not, the rarer are the looks.
                episodes=min(max(done, FIRST_BLOCK), EVALUATION_BLOCK, settings.evaluation_episodes - done, affordable),
                seed=seed,
                first_episode=done,
                iterations=settings.iterations,
                device=stages.device,
                on_steps=lambda _, finished: stages.advance(finished),
            )
            parts.append(episodes)
            if done + len(episodes) == FEWEST:
                fingerprint = _fingerprint(Episodes.concatenate(parts))
                twin = next(
                    (row for row in earlier if row["fingerprint"] == fingerprint and row["round"] == round_), None
                )
            cut_short = twin is not None or hopeless(parts, stages.budget, settings.evaluation_episodes, best)
            if cut_short:
                break
        episodes = Episodes.concatenate(parts)
        summary = episodes.summary().to_dict()
        kept_in = {}
        if phase != "evaluate":
            kept_in["kept"] = "evaluations/" + "-".join([phase, *map(str, numbers.values())]) + ".safetensors"
            stages.save(kept_in["kept"], {"rewards": episodes.rewards, "costs": episodes.costs})
        kept = ("reward_mean", "reward_se", "cost_mean", "cost_se", "cost_means", "violations", "nothing_safe_rate")
        return {
            "phase": phase,
            "round": round_,
            "tolerance": pruning.tolerance,
            "accounting": pruning.accounting,
            "feasible": not cut_short and is_feasible(episodes.costs, stages.budget),
            **{name: summary[name] for name in kept},
            "episodes": len(episodes),
            "steps": int(episodes.steps.sum()),
            "fingerprint": fingerprint,
            **numbers,
            **kept_in,
            **({} if twin is None else {"same_as": twin["tolerance"]}),
        }


def pruning_of(evaluation: dict[str, Any] | None, settings: TrainingSettings) -> PruningSettings:
    """The pruning that was evaluated; without an evaluation, by immediate costs alone."""
    if evaluation is None:
        return dataclasses.replace(settings.pruning, cost_floor=True)
    return dataclasses.replace(settings.pruning, tolerance=evaluation["tolerance"], accounting=evaluation["accounting"])


def _fingerprint(episodes: Episodes) -> str:
    """Tells evaluations apart: tolerances that lead to the same decisions have the same episodes, to the last bit."""
    return hashlib.sha256(episodes.rewards.tobytes() + episodes.costs.tobytes()).hexdigest()[:16]

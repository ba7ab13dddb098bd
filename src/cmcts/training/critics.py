"""The critics of a training, one a round: how each is fitted, read again, and how far it can be trusted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cmcts.critic import support as supports
from cmcts.critic.ensemble import SafetyCritic, ensemble
from cmcts.critic.weights import Layers, from_arrays, to_arrays
from cmcts.training.dataset import concatenate, held_out_figures, held_out_mask
from cmcts.training.fitting import fit_on
from cmcts.training.gathering import Gathering
from cmcts.training.learning import Batch, in_units
from cmcts.training.stages import FIT, Stages

LEAST_TOLERANCE = 1e-3  # of the cost scale; others are multiples of it


class Critics:
    """The critics that were fitted so far, in the files of the run."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages

    def fit(self, round_: int, gathering: Gathering) -> SafetyCritic:
        """A fresh ensemble on everything gathered so far."""
        self._stages.stage(f"fit {round_}", lambda: self._fit(round_, gathering))
        return self.critic(round_)

    def _fit(self, round_: int, gathering: Gathering) -> dict[str, Any]:
        stages, settings = self._stages, self._stages.settings.critic
        seed = stages.seed(FIT, round_)
        data, transitions = concatenate(gathering.batches), gathering.transitions
        held_out = held_out_mask(transitions, settings.held_out, seed)
        training = Batch(*(column[~held_out] for column in data))
        training = training._replace(costs=(training.costs / stages.cost_scale).astype(np.float32))
        stages.begin("fit", settings.steps, round=round_, transitions=len(held_out))
        done = 0

        def on_chunk(steps: int, loss: float) -> None:
            nonlocal done
            stages.advance(steps - done, loss=loss)
            done = steps

        discounts = stages.settings.search.discounts_of_costs(stages.model.cost_count)
        actions = stages.model.action_count
        arrays, loss = fit_on(stages.executor, training, settings, actions, discounts, seed, on_chunk)
        arrays = in_units(arrays, stages.cost_scale)
        stages.save(_file(round_), to_arrays(arrays))
        if settings.support:
            support = supports.find_support(data.features, data.actions, held_out, actions, seed)
            stages.save(_support_file(round_), supports.to_arrays(support))
        return {
            "phase": "fit",
            "round": round_,
            "transitions": len(held_out),
            "loss": loss,
            "gathered_until": gathering.ended_by,
            **held_out_figures(arrays, data, transitions, held_out, settings, discounts, stages.cost_scale),
        }

    def critic(self, round_: int) -> SafetyCritic:
        """The critic of a round."""
        weights, biases = zip(*self.layers(round_), strict=True)
        scale = self._stages.cost_scale.tolist()
        return ensemble(weights, biases, self._stages.model.cost_count, scale, self.support(round_))

    def layers(self, round_: int) -> Layers:
        """Its weights and biases."""
        return from_arrays(self._stages.load(_file(round_)))

    def support(self, round_: int) -> supports.Support | None:
        """Where its data lies, if it is to know that."""
        if not self._stages.settings.critic.support:
            return None
        model, arrays = self._stages.model, self._stages.load(_support_file(round_))
        return supports.from_arrays(arrays, model.feature_count, model.action_count)

    def tolerances(self, round_: int) -> tuple[float, ...]:
        """The tolerances to try: none below the critic's own error, but for the largest."""
        tried, error = self._stages.settings.tolerances, self._error(round_)
        return tuple(tolerance for tolerance in tried if tolerance >= min(error, max(tried)))

    def finer_tolerances(self, round_: int) -> tuple[float, ...]:
        """For where all others spend too much, largest first: what was left out, or the critic's error if that is less.

        The error is a bound, and a critic that refuses by chance what others refuse by right is still better than none.
        """
        tried, error = self._stages.settings.tolerances, self._error(round_)
        finest = max(1, math.ceil(error / LEAST_TOLERANCE)) * LEAST_TOLERANCE
        left_out = sorted(set(tried) - set(self.tolerances(round_)), reverse=True)
        return (*left_out, finest) if finest < min(tried) else tuple(left_out)

    def _error(self, round_: int) -> float:
        """A critic's error on held-out episodes; none where no episodes were held out."""
        return float((self._stages.run.find(f"fit {round_}") or {}).get("error", 0.0))


def _file(round_: int) -> str:
    return f"critics/{round_:03d}.safetensors"


def _support_file(round_: int) -> str:
    return f"critics/{round_:03d}-support.safetensors"

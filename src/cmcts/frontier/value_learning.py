"""How leaf values are learned: fitted to lessons, and where these are played, again and again.

Where states are listed the best policies are known, and one fit to what they are worth is all (lessons.py). Elsewhere
it is policy iteration: the first fit learns what searches that roll out are worth; what searches that read it are worth
is more, and learned by the second, and so on while that pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmcts.critic.columns import ColumnSettings, Sample
from cmcts.critic.values import LeafValues
from cmcts.critic.values import from_arrays as values_from_arrays
from cmcts.critic.values import to_arrays as values_to_arrays
from cmcts.critic.weights import Layers
from cmcts.frontier.candidates import difference
from cmcts.frontier.measuring import VALUES, Measurements
from cmcts.random import stage_seed

Floats = NDArray[np.float64]

ROUNDS = 5  # of learning what searches are worth that read what was learned before, at most

# Inputs [T, F + M], targets [T, 1 + M], gradient steps, a seed, whether the targets are exact, and who hears of
# progress; to layers and a loss.
FitValues = Callable[[NDArray[np.float32], Floats, int, int, bool, Callable[[int], None]], tuple[Layers, float]]


def fitted(measurements: Measurements, fit: FitValues, prices: Sequence[Floats], round_: int) -> LeafValues:
    """Values fitted to the lessons so far, at these prices."""
    settings, recorder = measurements.settings, measurements.recorder
    inputs, targets = measurements.lessons(prices)
    file = f"values/{round_:03d}.safetensors"
    # One fit to what is best may take as long as all rounds of learning from what was played.
    steps = settings.value_steps * (ROUNDS if measurements.exact else 1)

    def compute() -> dict[str, Any]:
        recorder.begin("learn", steps, round=round_)
        seed = stage_seed(measurements.seed, VALUES, round_)
        layers, loss = fit(inputs, targets, steps, seed, measurements.exact, recorder.advance)
        doubt = settings.value_doubt * float(targets[:, 0].std())
        recorder.save(file, values_to_arrays(LeafValues(layers, measurements.price_units, doubt)))
        return {"phase": "learn", "round": round_, "transitions": len(inputs), "loss": loss}

    recorder.stage(f"values {round_} learn", compute)
    return values_from_arrays(recorder.load(file))


def iterate(
    measurements: Measurements, fit: FitValues, prices: Sequence[Floats], columns: Sequence[ColumnSettings]
) -> None:
    """Learn what searches that roll out are worth, then what those are that read the values, and again while that pays.

    Column k of those that read values is at price k. They learn from all episodes: the newest alone are few, and know
    little of where other policies go. The values are left in `measurements`.
    """
    measurements.values = fitted(measurements, fit, prices, 0)
    before: list[Sample] = []
    for round_ in range(ROUNDS):
        now = [measurements.teach(k, column, round_) for k, column in enumerate(columns)]
        pairs = zip(now, before or now, prices, strict=True)
        gains = [difference([(1.0, new), (-1.0, old)], price) for new, old, price in pairs]
        if before and sum(gain for gain, _ in gains) <= sum(error for _, error in gains):
            return
        before = now
        measurements.values = fitted(measurements, fit, prices, round_ + 1)

"""Leaf values: reward and costs to go of a state, for any price, read at the leaves of a search.

They are what a rollout would estimate, learned from whole episodes of priced searches in the training world. One
ensemble serves all prices: its inputs are the model's features and, for each constraint, log(1 + price / unit). It lies
in a file as the ensemble's layers (weights.py) and

price_units   [M] float64, the prices that it knows as 1
doubt         [1] float64, in units of reward: where the members disagree by more, a rollout is asked as well

A search has one place for what it asks about states. Where a guard prunes as well, both share it (`GuardAndValues`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numpy.typing import NDArray

from cmcts.compilation.content import Function, around, content_type
from cmcts.critic import weights
from cmcts.critic.ensemble import SafetyCritic, ensemble, predict_ensemble
from cmcts.critic.weights import Layers
from cmcts.errors import InvalidInput, expect
from cmcts.model.interface import Model

VERSION = 1


@dataclass(frozen=True, eq=False)
class LeafValues:
    """An ensemble from features and prices [F + M] to reward and costs to go [1 + M]."""

    layers: Layers
    price_units: tuple[float, ...]
    """The prices that the ensemble knows as 1, one a constraint."""
    doubt: float = np.inf
    """Where the members disagree by more than this, in units of reward, a rollout is averaged in; 0 is everywhere."""

    def __post_init__(self) -> None:
        units = self.price_units
        expect(len(units) >= 1 and all(0 < unit < np.inf for unit in units), "price_units > 0 and finite", units)
        expect(self.doubt >= 0, "doubt >= 0", self.doubt)
        inputs, *_, outputs = weights.sizes(self.layers)
        expect(inputs > len(units), f"more inputs than the {len(units)} of the prices", inputs)
        expect(outputs == 1 + len(units), f"{1 + len(units)} outputs, the reward and each cost to go", outputs)
        self.network  # noqa: B018  building it checks shapes and numbers together

    @cached_property
    def network(self) -> SafetyCritic:
        """The ensemble as a search reads it, in the place of a critic."""
        layer_weights, layer_biases = zip(*self.layers, strict=True)
        return ensemble(layer_weights, layer_biases)

    @property
    def feature_count(self) -> int:
        """Features of the model that it was made for."""
        return weights.sizes(self.layers)[0] - len(self.price_units)

    def validate_for(self, model: Model) -> None:
        """Raise `InvalidInput` if it was made for other features or constraints than the model has."""
        ours, theirs = (self.feature_count, len(self.price_units)), (model.feature_count, model.cost_count)
        if ours != theirs:
            raise InvalidInput(
                f"expected leaf values of {theirs[0]} features and {theirs[1]} prices for model {model.name!r}, got "
                f"{ours[0]} and {ours[1]}"
            )


class _PairParams(NamedTuple):
    guard: Any
    values: Any  # EnsembleParams
    features: int  # F, all that the guard sees of the inputs
    outputs: int  # A*M of the guard; the values' come after them


def _one_after_the_other(judge: Function) -> Function:
    def predict(params, inputs, scratch, mean, sigma):  # type: ignore[no-untyped-def]
        first = params.outputs
        judge(params.guard, inputs[: params.features], scratch, mean[:first], sigma[:first])
        predict_ensemble(params.values, inputs, scratch, mean[first:], sigma[first:])

    return predict


class GuardAndValues:
    """A guard and leaf values in a search's one place for a critic: outputs [A*M + 1 + M], the guard's first.

    So a search remembers of a state what both say, and pruning and leaves read their own part of it.
    """

    def __init__(self, guard: SafetyCritic, values: LeafValues) -> None:
        network, outputs = values.network, guard.action_count * guard.cost_count
        self.guard, self.support, self.verdict = guard, guard.support, guard.verdict
        self.params = _PairParams(guard.params, network.params, guard.feature_count, outputs)
        self.scratch_width = max(guard.scratch_width, network.scratch_width)
        self.uncompiled = SimpleNamespace(predict=_one_after_the_other(guard.uncompiled.predict))
        if not config.DISABLE_JIT:
            functions = {"predict": around(_one_after_the_other, guard.predict)}
            self._numba_type_ = content_type("critic", functions, self.params)

    @property
    def compiles(self) -> bool:
        """Whether Numba can compile the guard, as far as is known."""
        return self.guard.compiles

    def compile_fault(self, *, gpu: bool = False) -> str:
        """Why Numba cannot compile the guard; the values are the library's own."""
        return self.guard.compile_fault(gpu=gpu)


def to_arrays(values: LeafValues) -> dict[str, NDArray[Any]]:
    """Leaf values as named arrays, as they are written to a file."""
    return {
        **weights.to_arrays(values.layers),
        "price_units": np.array(values.price_units, np.float64),
        "doubt": np.array([values.doubt], np.float64),
    }


def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> LeafValues:
    """The leaf values of named arrays."""
    for name in ("price_units", "doubt"):
        expect(name in arrays, f"an array {name}", sorted(arrays))
        array = arrays[name]
        expect(array.dtype == np.float64 and array.ndim == 1, f"{name} as a row of float64", array.dtype)
    expect(arrays["doubt"].shape == (1,), "one number of doubt", arrays["doubt"].shape)
    layers = weights.from_arrays({name: arrays[name] for name in arrays if name not in ("price_units", "doubt")})
    return LeafValues(layers, tuple(arrays["price_units"].tolist()), float(arrays["doubt"][0]))

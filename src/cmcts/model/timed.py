"""Time as part of the state: any model whose episodes end after a number of steps, and which knows how many are left.

With discounts that differ, or with none, the best policy depends on time: a risk that is not worth it at noon may be
worth it before closing. `with_time` puts the number of steps that are left into the state, as its last number, and into
the features, as a share of all steps. Episodes end when it is 0. In between, the model does what it did.

>>> from cmcts.envs.safe_gridworld.model import safe_gridworld_model
>>> model = with_time(safe_gridworld_model(0.3), steps=20)
>>> float(model.start_state()[-1])
20.0
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import Function, around
from cmcts.errors import expect
from cmcts.model.interface import Model


class TimedParams(NamedTuple):
    """The parameters of the model without time, and how many steps an episode has."""

    model: Any
    steps: int


def with_time(model: Model, steps: int) -> Model:
    """The same model with the steps that are left, at first `steps`, as the last number of its state.

    A model that has time in its state already gets another number of steps.
    """
    expect(isinstance(steps, int) and not isinstance(steps, bool) and steps >= 1, "steps >= 1", steps)
    if model.untimed is not None:
        same = model.params.steps == steps
        return model if same else dataclasses.replace(model, params=model.params._replace(steps=steps))
    wrap = around if model.compilable else _uncompiled
    changes: dict[str, Any] = {name: wrap(make, getattr(model, name)) for name, make in _ALWAYS.items()}
    if model.has_rollout_action:
        changes["rollout_action"] = wrap(_rollout_action, model.rollout_action)
    if model.has_expected_costs:
        changes["expected_costs"] = wrap(_expected_costs, model.expected_costs)
    for name, make in _OPTIONAL.items():
        function = getattr(model, name)
        changes[name] = None if function is None else make(function)
    return dataclasses.replace(
        model,
        name=f"{model.name}_timed",
        params=TimedParams(model.params, steps),
        state_size=model.state_size + 1,
        feature_count=model.feature_count + 1,
        feature_description=f"{model.feature_description or 'its features'}; the share of the steps that is left",
        state_fault=_state_fault(model.state_fault),
        world=_world,
        episodes_end=True,
        untimed=model,
        **changes,
    )


def without_time(model: Model) -> Model:
    """The model that was given to `with_time`, with the parameters that it has now."""
    assert model.untimed is not None
    return dataclasses.replace(model.untimed, params=model.params.model)


# Each of these writes a function around one of the model's own. What they wrap is a constant of their closure, so that
# compiled code is told apart by it.


def _step(inner: Function) -> Function:
    def step(params, state, action, rng, next_state, costs):  # type: ignore[no-untyped-def]
        reward, terminal = inner(params.model, state[:-1], action, rng, next_state[:-1], costs)
        left = state[-1] - 1.0
        next_state[-1] = left
        return reward, terminal or left <= 0.0

    return step


def _legal_actions(inner: Function) -> Function:
    def legal_actions(params, state, out):  # type: ignore[no-untyped-def]
        return inner(params.model, state[:-1], out)

    return legal_actions


def _features(inner: Function) -> Function:
    def features(params, state, out):  # type: ignore[no-untyped-def]
        inner(params.model, state[:-1], out[:-1])
        out[-1] = state[-1] / params.steps

    return features


def _start(inner: Function) -> Function:
    def start(params, rng, state):  # type: ignore[no-untyped-def]
        inner(params.model, rng, state[:-1])
        state[-1] = params.steps

    return start


def _rollout_action(inner: Function) -> Function:
    def rollout_action(params, state, rng):  # type: ignore[no-untyped-def]
        return inner(params.model, state[:-1], rng)

    return rollout_action


def _expected_costs(inner: Function) -> Function:
    def expected_costs(params, state, action, out):  # type: ignore[no-untyped-def]
        inner(params.model, state[:-1], action, out)

    return expected_costs


def _outcomes(inner: Function) -> Function:
    def outcomes(params: TimedParams, state: NDArray[np.float64], action: int) -> tuple[NDArray[Any], ...]:
        chances, next_states, rewards, costs, ends = inner(params.model, state[:-1], action)
        left = state[-1] - 1.0
        rows = np.column_stack([next_states, np.full(len(chances), left)])
        return chances, rows, rewards, costs, np.asarray(ends) | (left <= 0.0)

    return outcomes


def _starts(inner: Function) -> Function:
    def starts(params: TimedParams) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        chances, states = inner(params.model)
        return chances, np.column_stack([states, np.full(len(chances), float(params.steps))])

    return starts


def _state_fault(inner: Function | None) -> Function:
    def state_fault(params: TimedParams, state: NDArray[np.float64]) -> str:
        left = state[-1]
        if left != int(left) or not 1 <= left <= params.steps:
            return f"expected 1 to {params.steps} steps left, as the last number of the state, got {left}"
        return "" if inner is None else str(inner(params.model, state[:-1]))

    return state_fault


class _WithoutTime:
    """What a search or a world holds, as the model without time sees it."""

    def __init__(self, holder: Any) -> None:
        self._holder = weakref.ref(holder)

    def held_states(self) -> NDArray[np.float64]:
        holder = self._holder()
        return np.zeros((0, 1)) if holder is None else np.asarray(holder.held_states()[:, :-1])


_VIEWS: weakref.WeakKeyDictionary[Any, _WithoutTime] = weakref.WeakKeyDictionary()  # each lives as long as its holder


def _at_prices(inner: Function) -> Function:
    def at_prices(model: Model, prices: NDArray[np.float64], discount: float) -> Model:
        return with_time(inner(without_time(model), prices, discount), model.params.steps)

    return at_prices


def _hold(inner: Function) -> Function:
    def hold(holder: Any) -> None:
        _VIEWS[holder] = _WithoutTime(holder)
        inner(_VIEWS[holder])

    return hold


def _world(model: Model, **settings: Any) -> Any:
    from cmcts.model.worlds import TimedWorld, world_of  # imports Gymnasium

    return TimedWorld(world_of(without_time(model), **settings), model.params.steps)


def _uncompiled(make: Function, function: Function) -> Function:
    wrapped: Function = make(function)
    return wrapped


_ALWAYS = {"step": _step, "legal_actions": _legal_actions, "features": _features, "start": _start}
_OPTIONAL = {"outcomes": _outcomes, "starts": _starts, "at_prices": _at_prices, "hold": _hold}

"""The model: a constrained Markov decision process that a planner can simulate.

A model is a handful of functions over plain arrays. They must not keep state of their own, must not write to `state`,
and must draw all randomness from `rng` (see `cmcts.random`):

    step(params, state, action, rng, next_state, costs) -> (reward, terminal)
        write the next state and the cost vector C(s, a) >= 0, return R(s, a) and whether the episode ends
    legal_actions(params, state, out) -> count
        write the legal actions, each once, in any order; at least one in every state that is not terminal
    features(params, state, out)
        write what the safety critic sees of the state
    start(params, rng, state)
        write a start state drawn from mu
    rollout_action(params, state, rng) -> action            (optional)
        a quick guess at a good legal action; rollouts are uniform without it
    at_prices(model, prices, discount) -> model             (optional)
        the model with a rollout policy that knows what a unit of each cost takes from the reward, for searches with
        `rollout="priced"`: it may spend where that pays
    expected_costs(params, state, action, out)              (optional)
        write E[C(s, a)]; sampled from `step` without it
    outcomes(params, state, action) -> (probabilities, next_states, rewards, costs, terminals)   (optional)
        all that can happen, as arrays; only exact solutions need it
    starts(params) -> (probabilities, states)               (optional)
        all start states and mu, as arrays; only exact solutions need it

`params` is a NamedTuple of numbers and arrays: sizes, tables, probabilities. Changing it never recompiles anything.
States are float64 vectors of one length, features float32, actions 0 ... action_count - 1, costs float64 of length
cost_count >= 1. Functions may be decorated with `numba.njit` or not; helpers they call must be, or the model runs
uncompiled.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypedDict, Unpack

import numpy as np
from numba import config, typeof, types
from numpy.typing import ArrayLike, NDArray

from cmcts.compilation.content import Function, content_type, plain
from cmcts.compilation.travel import fields_of, remade
from cmcts.compilation.verdict import Verdict, first_fault, params_fault
from cmcts.errors import InvalidInput, ModelError, expect
from cmcts.random import stream

KERNEL_FUNCTIONS = ("step", "legal_actions", "features", "start", "rollout_action", "expected_costs")


def no_rollout_action(params, state, rng):
    """Stands in for a missing `rollout_action`; never called."""
    return 0


def no_expected_costs(params, state, action, out):
    """Stands in for missing `expected_costs`; never called."""
    return


class EnvOptions(TypedDict, total=False):
    """How a Gymnasium environment is read, for `Model.from_env`; each has a default that suits most."""

    get_state: Function
    """(env) -> the state of the unwrapped environment; by default its own method of this name, and a deep copy of the
    whole environment if it has none."""
    set_state: Function
    """(env, state): put the unwrapped environment into that state again; goes with `get_state`."""
    costs: Function
    """(observation, action, next_observation, reward, terminated, info) -> a number, or `cost_count` of them; by
    default `info["cost"]`, or the third of six values that the environment's step returns."""
    cost_count: int
    """How many constraints; 1 by default."""
    action_mask: Function
    """(observation) -> which actions are legal; by default `info["action_mask"]`, or all."""
    features: Function
    """(observation) -> what the critic sees; by default the flattened observation."""
    rollout_action: Function
    """(observation, rng) -> a quick guess at a good action; by default any."""
    reseed: Function
    """(env, seed): make the unwrapped environment's next step depend on this seed alone; by default its `np_random` is
    set."""
    cost_samples: int
    """Of how many steps the mean is an action's expected cost, 8 by default; 1 where a step throws no dice."""
    ignored: tuple[str, ...]
    """Attributes of the environment that are no part of its state, where it is copied: a count of steps, say, without
    which no state would ever be seen twice."""
    snapshots: int
    """How many deep copies to keep at least, 10,000 by default; environments whose state is numbers need none."""


@dataclass(frozen=True, eq=False)
class Model:
    """Functions, parameters and sizes of one constrained MDP; the module's docstring says what each function does."""

    name: str
    params: Any
    step: Function
    legal_actions: Function
    features: Function
    start: Function
    state_size: int
    action_count: int
    feature_count: int
    cost_count: int = 1
    rollout_action: Function = no_rollout_action
    expected_costs: Function = no_expected_costs
    outcomes: Function | None = None
    starts: Function | None = None
    at_prices: Function | None = None
    state_fault: Function | None = None  # (params, state) -> what is wrong with a state, or ""
    action_names: tuple[str, ...] = ()
    cost_names: tuple[str, ...] = ()
    feature_description: str = ""
    estimates_costs: bool = False  # expected_costs are not to be compared with the mean of many steps
    compilable: bool = True  # False: do not even try
    world: Function | None = None  # (model, **settings) -> the world that this model simulates
    episodes_end: bool = False  # every policy's episodes end by themselves, so that nothing need be discounted
    untimed: Model | None = None  # the model without time, where the last number of the state is the steps left
    origin: str = ""  # how a model that nobody wrote came about, and how sure it is
    hold: Function | None = None  # (holder): hears of each search, whose held_states() must not be forgotten
    verdict: Verdict = field(init=False, repr=False)  # does it compile; not shared with changed copies

    def __post_init__(self) -> None:
        for name in ("step", "legal_actions", "features", "start", "rollout_action", "expected_costs"):
            expect(callable(getattr(self, name)), f"model {self.name!r} to have a function {name}", getattr(self, name))
        for name in ("state_size", "action_count", "feature_count", "cost_count"):
            value = getattr(self, name)
            expect(isinstance(value, int) and value >= 1, f"{name} >= 1 in model {self.name!r}", value)
        expect(self.cost_count <= 31, f"at most 31 constraints in model {self.name!r}", self.cost_count)
        expect(
            len(self.action_names) in (0, self.action_count),
            f"{self.action_count} action names in model {self.name!r}",
            self.action_names,
        )
        expect(
            len(self.cost_names) in (0, self.cost_count),
            f"{self.cost_count} cost names in model {self.name!r}",
            self.cost_names,
        )
        advice = (
            "use only numbers and NumPy arrays in params and in its functions, and decorate the helpers they call with "
            "numba.njit"
        )
        object.__setattr__(self, "verdict", Verdict(f"model {self.name!r}", advice))
        if not config.DISABLE_JIT:
            functions = {name: getattr(self, name) for name in KERNEL_FUNCTIONS}
            object.__setattr__(self, "_numba_type_", content_type(self.name, functions, self.params))

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies and other processes: made anew from what it was made of, because types of Numba do not travel."""
        return remade, (Model, fields_of(self))

    @classmethod
    def from_env(
        cls,
        factory: Function,
        *,
        name: str | None = None,
        action_names: tuple[str, ...] = (),
        **options: Unpack[EnvOptions],
    ) -> Model:
        """A model that simulates a Gymnasium environment, uncompiled; `factory()` makes one.

        `EnvOptions` says how states, costs, legal actions and features are read from it.
        """
        from cmcts.model.from_env import model_from_env  # imports Gymnasium

        return model_from_env(factory, name, action_names, options)

    @classmethod
    def from_tables(
        cls,
        P: ArrayLike | Sequence[Any],
        R: ArrayLike,
        C: ArrayLike,
        *,
        start: ArrayLike = 0,
        terminal: ArrayLike | None = None,
        legal: ArrayLike | None = None,
        features: ArrayLike | None = None,
        name: str = "tables",
        action_names: tuple[str, ...] = (),
        cost_names: tuple[str, ...] = (),
    ) -> Model:
        """A compiled model made of matrices, which also knows its exact optimum; its state is the state's number.

        `P` are the probabilities P(s' | s, a) [S, A, S], or A sparse matrices [S, S]; what a row lacks of 1 ends the
        episode. `R` are rewards [S, A], or [S, A, S] if they depend on the successor; `C` are costs [S, A], [S, A, M]
        for M constraints, or [S, A, S, M]. An end that `P` leaves open has no column, and by successor pays nothing.
        Episodes begin in the state `start`, or by probabilities [S], and end where `terminal` [S] is true. `legal`
        [S, A] says which actions are, if not all. A critic sees `features` [S, F], or else which state it is.
        """
        from cmcts.model.tables import table_model, tables_from_matrices

        tables = tables_from_matrices(P, R, C, start, terminal, legal, features)
        described = "one number for each state: 1 for the current one, else 0" if features is None else "the user's own"
        return table_model(
            tables, name, action_names=action_names, cost_names=cost_names, feature_description=described
        )

    @classmethod
    def tabulate(
        cls,
        source: Model | Function,
        *,
        limit: int = 50_000,
        samples: int = 1000,
        seed: int = 0,
        cache: str | Path | None = None,
        processes: int | None = None,
        name: str | None = None,
        action_names: tuple[str, ...] = (),
        **options: Unpack[EnvOptions],
    ) -> Model:
        """All reachable states of a model or an environment in tables: compiled, and with a known optimum.

        `source` is a model, such as one by `from_env`, or a function that makes a Gymnasium environment; `name`,
        `action_names` and `options` are those of `from_env`. States are listed by restoring and stepping, on all cores
        or in so many `processes`, and are refused beyond `limit`. A step that throws no dice is taken once. Others are
        taken `samples` times and their probabilities estimated, unless they can be read from the model's `outcomes` or
        the environment's `P`; `model.origin` says how it was done and how sure that is. With a file `cache` all this is
        done once, and goes on where it was interrupted. The model's world is what was tabulated; its state is the
        state's number.
        """
        from cmcts.exact.tabulate import tabulate  # steps in processes

        if isinstance(source, Model):
            expect(not options, "options with an environment alone, not with a model", sorted(options))
            made = source
        else:
            made = cls.from_env(source, name=name, action_names=action_names, **options)
        file = None if cache is None else Path(cache)
        return tabulate(made, limit=limit, samples=samples, seed=seed, cache=file, processes=processes)

    @classmethod
    def learned(cls, folder: str | Path, original: Model) -> Model:
        """The compiled model of a slow environment that `cmcts learn-model` wrote to a folder.

        `original` is the model by `from_env` that it was learnt for; its environment is the world that both are about.
        """
        from cmcts.model.surrogate import load, surrogate_model

        params, description = load(folder)
        return surrogate_model(params, original, description)

    @property
    def has_rollout_action(self) -> bool:
        """Whether the model brings a rollout policy of its own."""
        return self.rollout_action is not no_rollout_action

    def rolling_out_at(self, prices: NDArray[np.float64], discount: float) -> Model:
        """This model with a rollout policy that knows these prices [M]; refuses where nobody wrote one."""
        if self.at_prices is None:
            raise InvalidInput(
                f'expected rollout "directed" or "uniform" for model {self.name!r}, which has no function at_prices, '
                'got "priced"'
            )
        priced: Model = self.at_prices(self, prices, discount)
        return priced

    @property
    def has_expected_costs(self) -> bool:
        """Whether the model knows its expected immediate costs, so that they need not be sampled."""
        return self.expected_costs is not no_expected_costs

    def with_params(self, **changes: Any) -> Model:
        """The same model with some fields of `params` changed."""
        if self.untimed is not None:  # the model's own parameters lie within
            changes = {"model": self.params.model._replace(**changes)}
        return dataclasses.replace(self, params=self.params._replace(**changes))

    def action_name(self, action: int) -> str:
        """The action's name, or its number as text if actions have no names."""
        return self.action_names[action] if self.action_names else str(action)

    def cost_name(self, constraint: int) -> str:
        """What a constraint limits: its name, or "cost" and its number if there are several."""
        if self.cost_names:
            return self.cost_names[constraint]
        return "cost" if self.cost_count == 1 else f"cost {constraint}"

    def validate_state(self, state: ArrayLike) -> NDArray[np.float64]:
        """`state` as a fresh float64 vector, or an error that says what is wrong with it."""
        try:
            array = np.array(state, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInput(f"expected a state of {self.state_size} numbers, got {state!r}") from None
        if array.shape != (self.state_size,):
            raise InvalidInput(
                f"expected a state of shape ({self.state_size},) for model {self.name!r}, got shape {array.shape}"
            )
        if not np.isfinite(array).all():
            index = int(np.flatnonzero(~np.isfinite(array))[0])
            raise InvalidInput(f"expected a finite state, got {array[index]} at index {index}")
        fault = self.state_fault(self.params, array) if self.state_fault else ""
        if fault:
            raise InvalidInput(f"illegal state for model {self.name!r}: {fault}")
        return array

    def validate_numbers(self, numbers: ArrayLike, name: str) -> NDArray[np.float64]:
        """A vector with one finite number for each constraint."""
        try:
            array = np.atleast_1d(np.array(numbers, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidInput(f"expected {name} of {self.cost_count} numbers, got {numbers!r}") from None
        if array.shape != (self.cost_count,):
            raise InvalidInput(
                f"expected {name} with one number for each of {self.cost_count} constraints, got {numbers!r}"
            )
        if not np.isfinite(array).all():
            raise InvalidInput(f"expected {name} finite and >= 0, got {numbers!r}")
        return array

    def validate_costs(self, costs: ArrayLike, name: str) -> NDArray[np.float64]:
        """A cost-like vector (budget, multipliers): finite, not negative, one number a constraint."""
        # Every step of every episode comes here: what is usual is let through at once.
        if isinstance(costs, float) and self.cost_count == 1 and 0.0 <= costs < np.inf:
            return np.array([costs])
        usual = isinstance(costs, np.ndarray) and costs.dtype == np.float64 and costs.shape == (self.cost_count,)
        if usual and all(0.0 <= cost < np.inf for cost in np.asarray(costs).tolist()):
            return np.array(costs)
        array = self.validate_numbers(costs, name)
        if not (array >= 0).all():
            raise InvalidInput(f"expected {name} finite and >= 0, got {costs!r}")
        return array

    def start_state(self, seed: int | NDArray[np.uint64] = 0) -> NDArray[np.float64]:
        """A start state, drawn by the model with a seed or a stream."""
        state = np.zeros(self.state_size)
        with np.errstate(over="ignore"):
            self.uncompiled.start(self.params, stream(seed), state)
        return state

    def legal(self, state: ArrayLike) -> NDArray[np.int64]:
        """The legal actions of a state, in the order in which the model lists them."""
        out = np.zeros(self.action_count, np.int64)
        count = int(self.uncompiled.legal_actions(self.params, np.asarray(state, np.float64), out))
        if not 0 <= count <= self.action_count or not ((out[:count] >= 0) & (out[:count] < self.action_count)).all():
            raise ModelError(
                f"expected legal_actions of model {self.name!r} to write at most {self.action_count} actions from 0 to "
                f"{self.action_count - 1}, got count {count} and {out[:count].tolist()}"
            )
        return out[:count].copy()

    def feature_vector(self, state: ArrayLike) -> NDArray[np.float32]:
        """[F] what the critic sees of a state."""
        out = np.zeros(self.feature_count, np.float32)
        self.uncompiled.features(self.params, np.asarray(state, np.float64), out)
        return out

    def compile_fault(self, *, gpu: bool = False) -> str:
        """Why Numba cannot compile this model, for a GPU if asked: the first function that fails, and how; or ""."""
        if not self.compilable:
            return "it: it is not made of compiled functions"
        if odd := params_fault(self.params, gpu=gpu):
            return odd
        params = typeof(self.params)
        state, rng, actions = types.float64[::1], types.uint64[::1], types.int64[::1]
        floats, integer = types.float64[::1], types.int64
        signatures = {
            "step": (params, state, integer, rng, state, floats),
            "legal_actions": (params, state, actions),
            "features": (params, state, types.float32[::1]),
            "start": (params, rng, state),
            "rollout_action": (params, state, rng),
            "expected_costs": (params, state, integer, floats),
        }
        return first_fault({name: (getattr(self, name), signature) for name, signature in signatures.items()}, gpu=gpu)

    @cached_property
    def uncompiled(self) -> SimpleNamespace:
        """The functions a kernel calls, as plain Python even where they were decorated with `numba.njit`."""
        return SimpleNamespace(**{name: plain(getattr(self, name)) for name in KERNEL_FUNCTIONS})

    @property
    def compiles(self) -> bool:
        """False once Numba has failed on this model, or if it is not to be tried."""
        return self.compilable and not self.verdict.fault

"""Any Gymnasium environment as a model: `Model.from_env`.

A search wants `step` to be a function of (state, action, random stream) over rows of numbers. An environment has a
state of its own, and dice of its own. So a `Simulator` keeps one environment for itself. To simulate a step it puts the
environment into the row's state, loads its dice (`env.unwrapped.np_random`) from the stream, steps it, and reads the
new row:

    [ flattened observation | action mask, if there is one | saved state ]

Features and legal actions are read from the row alone; only a step needs the environment. `snapshots.py` says what the
saved state is. A world that is to be planned in must speak in the same rows: `cmcts.worlds.EnvWorld` does.

What an environment does besides, the search does not see: time limits and checks that `gymnasium.make` wraps around it
are taken off, because they cost time and keep count of steps that were never taken.

An environment is not compiled, so a search in one is hundreds of times slower than in a model of compiled functions.
`plan_batch`, and with it training and evaluation, make up for some of that with processes (`planning/parallel.py`).
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces.utils import flatdim, flatten, unflatten
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from numpy.typing import NDArray

from cmcts.compilation.content import uncompiled
from cmcts.errors import InvalidInput, ModelError, expect, near
from cmcts.model.content import content_of
from cmcts.model.interface import EnvOptions, Model, no_rollout_action
from cmcts.model.snapshots import Copies, Numbers, Row, is_numbers
from cmcts.random import Stream, next_uint64

Env = gym.Env[Any, Any]
Function = Callable[..., Any]

_next_uint64 = uncompiled(next_uint64)
_REMEMBERED = 100_000  # mean costs by state and action
_BOOKKEEPING = (TimeLimit, OrderEnforcing, PassiveEnvChecker)


class Moment:
    """What an environment answered to a reset or a step, in one shape for all conventions."""

    def __init__(self, observation: Any, reward: float, ended: bool, truncated: bool, info: dict[str, Any]) -> None:
        self.observation, self.reward, self.info = observation, reward, info
        self.ended, self.truncated = ended, truncated

    @classmethod
    def from_step(cls, result: Any) -> Moment:
        """From Gymnasium's five values, or Safety-Gymnasium's six: the cost stands third."""
        if not isinstance(result, tuple) or len(result) not in (5, 6):
            raise ModelError(f"expected five or six values from the environment's step, got {result!r}")
        if len(result) == 6:
            observation, reward, cost, terminated, truncated, info = result
            return cls(observation, float(reward), bool(terminated), bool(truncated), {**info, "cost": cost})
        observation, reward, terminated, truncated, info = result
        return cls(observation, float(reward), bool(terminated), bool(truncated), info)


class _Own(threading.local):
    """What each thread has for itself: an environment to simulate in, and its dice."""

    def __init__(self, factory: Function) -> None:
        self.env = without_bookkeeping(single(factory()))
        self.bits = np.random.PCG64(0)
        self.dice = np.random.Generator(self.bits)
        self.bits_state = self.bits.state
        self.stepped = self.env  # the environment that took the last step: this one, or a copy


class Simulator:
    """The `params` of a model made from an environment, and the reader of worlds that are planned in with it."""

    def __init__(self, factory: Function, options: EnvOptions) -> None:
        unknown = sorted(set(options) - set(EnvOptions.__annotations__))
        if unknown:
            known = sorted(EnvOptions.__annotations__)
            raise InvalidInput(f"expected options of from_env out of {known}, got {unknown}{near(unknown[0], known)}")
        self.factory = factory
        self.costs, self.cost_count = options.get("costs"), options.get("cost_count", 1)
        self.mask, self.own_features = options.get("action_mask"), options.get("features")
        self.rollout, self.reseed = options.get("rollout_action"), options.get("reseed")
        self.cost_samples = options.get("cost_samples", 8)
        expect(isinstance(self.cost_samples, int) and self.cost_samples >= 1, "cost_samples >= 1", self.cost_samples)
        self._mean_costs: dict[tuple[bytes, int], Row] = {}  # oldest first
        self._own = _Own(factory)
        env = self._own.env
        if not isinstance(env.action_space, gym.spaces.Discrete):
            raise InvalidInput(f"expected an environment with discrete actions, got {env.action_space}")
        self.action_space = env.action_space
        self.action_count, self.first_action = int(env.action_space.n), int(env.action_space.start)
        self.space = env.observation_space
        try:
            self.observation_size = flatdim(self.space)
        except (ValueError, NotImplementedError) as error:
            raise InvalidInput(f"expected observations that can be flattened to one size: {error}") from None
        observation, info = env.reset(seed=0)
        self.masked = self.mask is not None or "action_mask" in info
        own = self.own_features
        self.feature_count = self.observation_size if own is None else len(np.ravel(own(observation)))
        self.store = self._store(options)
        self.state_size = self.observation_size + self.masked * self.action_count + self.store.size

    def _store(self, options: EnvOptions) -> Numbers | Copies:
        inner = self._own.env.unwrapped
        get_state, set_state = options.get("get_state"), options.get("set_state")
        limit, ignored = options.get("snapshots", 10_000), tuple(options.get("ignored", ()))
        given = get_state is not None, set_state is not None
        expect(given[0] == given[1], "get_state and set_state together", "one of them")
        if get_state is None and callable(getattr(inner, "get_state", None)):
            expect(callable(getattr(inner, "set_state", None)), "an environment with set_state", "get_state alone")
            get_state, set_state = (lambda env: env.get_state()), (lambda env, state: env.set_state(state))
        if get_state is None or set_state is None:
            return Copies(None, None, limit, ignored)
        state = get_state(inner)
        if is_numbers(state):
            return Numbers(get_state, set_state, state)
        return Copies(get_state, set_state, limit, ignored)

    @property
    def legal_source(self) -> str:
        """Where legal actions come from, in words."""
        if self.mask is not None:
            return "by the function action_mask"
        return 'by info["action_mask"] of the environment' if self.masked else "without a mask"

    @property
    def identity(self) -> tuple[Any, ...]:
        """What a critic for this simulator depends on: the environment, its settings and its spaces."""
        env = self._own.env
        about = (env.spec.id, sorted(env.spec.kwargs.items())) if env.spec else type(env.unwrapped).__qualname__
        return (str(about), str(self.space), str(self.action_space))

    def fingerprint(self) -> tuple[list[bytes], list[Function], list[float]]:
        """What tables of this simulator depend on: its classes' sources, the functions that read it, its content."""
        env = self._own.env
        env.reset(seed=0)
        classes: list[type] = []
        layer: Any = env
        while layer is not None:
            classes += [kind for kind in type(layer).__mro__ if kind is not object]
            layer = layer.env if isinstance(layer, gym.Wrapper) else None
        given = (self.costs, self.mask, self.own_features, self.rollout, self.reseed)
        functions = [function for function in (*given, self.store.get_state, self.store.set_state) if function]
        files = {inspect.getsourcefile(kind) for kind in classes if kind.__module__ != "builtins"}
        sources = [Path(file).read_bytes() for file in sorted(filter(None, files)) if Path(file).is_file()]
        try:
            return sources, functions, content_of(env).digest.tolist()
        except InvalidInput:  # what cannot be read is told apart by its class and its settings alone
            return sources, functions, []

    def hold(self, holder: Any) -> None:
        """Keep the states that a search or a world may go back to; it lists them with `held_states()`."""
        if isinstance(self.store, Copies):
            self.store.holders.add(holder)

    def read(self, env: Env, moment: Moment, out: Row, *, own: bool = False) -> None:
        """Write an environment's row; `own` if it is a copy that nobody else will step."""
        size = self.observation_size
        try:
            if isinstance(self.space, gym.spaces.Discrete):  # the same as below, faster
                out[:size] = 0.0
                out[moment.observation - self.space.start] = 1.0
            else:
                out[:size] = np.asarray(flatten(self.space, moment.observation), np.float64)
        except (ValueError, TypeError, IndexError, KeyError) as error:
            raise ModelError(f"expected an observation in {self.space}, got {moment.observation!r} ({error})") from None
        if self.masked:
            mask = self._mask_of(moment)
            if not (moment.ended or mask.any()):
                raise ModelError(f"expected an action mask that allows something, got none in {moment.observation!r}")
            out[size : size + self.action_count] = mask
        tail = out[-self.store.size :]
        (self.store.save_own if own else self.store.save)(env, tail)

    def _mask_of(self, moment: Moment) -> NDArray[np.bool_]:
        if self.mask is None and "action_mask" not in moment.info:
            raise ModelError('expected info["action_mask"] from every reset and step, as from the first, got none')
        given = self.mask(moment.observation) if self.mask else moment.info["action_mask"]
        mask = np.asarray(given, np.bool_)
        if mask.shape != (self.action_count,):
            raise ModelError(f"expected an action mask of {self.action_count} entries, got {given!r}")
        return mask

    def costs_of(self, before: Any, action: int, moment: Moment) -> Row:
        """[M] what a step cost: by the user's function, or as the environment reported it."""
        if self.costs is not None:
            given = self.costs(before, action, moment.observation, moment.reward, moment.ended, moment.info)
        elif "cost" in moment.info:
            given = moment.info["cost"]
        else:
            raise ModelError(
                'expected the environment to report info["cost"] or to return six values, or a function costs=...; '
                f"got info with keys {sorted(moment.info)}"
            )
        costs = np.atleast_1d(np.asarray(given, np.float64))
        if costs.shape != (self.cost_count,):
            raise ModelError(f"expected {self.cost_count} costs a step, got {given!r}")
        return costs

    def observation(self, state: Row) -> Any:
        """The observation that a row begins with."""
        flat = state[: self.observation_size]
        if isinstance(self.space, gym.spaces.Discrete):  # the same as below, ten times faster
            return int(self.space.start) + int(flat.argmax())
        return unflatten(self.space, flat)

    def start(self, rng: Stream, state: Row) -> None:
        """Reset the environment with a seed from the stream, and write its row."""
        own = self._own
        own.stepped = own.env
        observation, info = own.env.reset(seed=int(_next_uint64(rng)) >> 33)
        moment = Moment(observation, 0.0, False, False, info)
        self.read(own.env, moment, state)

    def step(self, state: Row, action: int, rng: Stream, next_state: Row, costs: Row) -> tuple[float, bool]:
        """One simulated step from the state of a row; writes the next row and the costs, returns reward and end."""
        own = self._own
        before = self.observation(state) if self.costs is not None else None
        env = self.store.restore(own.env, state[-self.store.size :], own.dice)
        self.give_dice(env, rng)
        own.stepped = env
        moment = Moment.from_step(env.step(self.first_action + int(action)))
        costs[:] = self.costs_of(before, self.first_action + int(action), moment)
        self.read(env, moment, next_state, own=True)
        return moment.reward, moment.ended

    def give_dice(self, env: Env, rng: Stream) -> None:
        """Let an environment's next step depend on the stream alone."""
        own = self._own
        # A search spreads first draws evenly, which is not random enough for a seed: it is not alone in it.
        spread, seed = int(_next_uint64(rng)), int(_next_uint64(rng))
        own.bits_state["state"]["state"] = seed << 64 | spread
        own.bits.state = own.bits_state
        if self.reseed is not None:
            self.reseed(env.unwrapped, seed)
        else:
            env.unwrapped.np_random = own.dice

    def expected_costs(self, state: Row, action: int, out: Row) -> None:
        """Write the mean cost of a few steps, which are taken only once for a state and an action.

        Their dice follow from what is seen of the state, so that it does not matter when and in which process they are
        thrown. A step that throws none is taken once.
        """
        key = (state.tobytes(), int(action))
        mean = self._mean_costs.get(key)
        if mean is None:
            seen = state[: len(state) - self.store.size].tobytes()
            digest = hashlib.blake2b(seen + int(action).to_bytes(4, "little"), digest_size=8).digest()
            rng = np.frombuffer(bytearray(digest), np.uint64)
            next_state, costs, mean = np.zeros_like(state), np.zeros_like(out), np.zeros_like(out)
            for taken in range(1, self.cost_samples + 1):
                self.step(state, action, rng, next_state, costs)
                mean += (costs - mean) / taken
                if not self.last_step()[1]:
                    break
            self._mean_costs[key] = mean
            if len(self._mean_costs) > _REMEMBERED:
                for old in list(self._mean_costs)[: _REMEMBERED // 2]:
                    del self._mean_costs[old]
        out[:] = mean

    def at(self, state: Row) -> Env:
        """The environment in the state of a row."""
        env: Env = self.store.restore(self._own.env, state[-self.store.size :], self._own.dice)
        return env

    def last_step(self) -> tuple[Env, bool]:
        """The environment as the last step left it, and whether it may have thrown dice on its way there."""
        own = self._own
        return own.stepped, self.reseed is not None or own.bits.state != own.bits_state

    def legal_actions(self, state: Row, out: NDArray[np.int64]) -> int:
        """Write all actions, or those that the mask allows, and return how many they are."""
        if not self.masked:
            out[:] = np.arange(self.action_count)
            return self.action_count
        begin = self.observation_size
        legal = np.flatnonzero(state[begin : begin + self.action_count])
        out[: len(legal)] = legal
        return len(legal)

    def features(self, state: Row, out: NDArray[np.float32]) -> None:
        """Write the flattened observation, or what the user's function makes of it."""
        out[:] = (
            state[: self.observation_size]
            if self.own_features is None
            else np.ravel(self.own_features(self.observation(state)))
        )

    def rollout_action(self, state: Row, rng: Stream) -> int:
        """The action that the user's rollout policy takes for the observation of a row."""
        assert self.rollout is not None
        return int(self.rollout(self.observation(state), rng)) - self.first_action


def single(env: Any) -> Env:
    """The environment itself, or the first of a vectorised one that holds its environments one by one."""
    if isinstance(env, gym.vector.VectorEnv):
        return single_environments(env)[0]
    if not isinstance(env, gym.Env):
        raise InvalidInput(f"expected the factory to make a Gymnasium environment, got {env!r}")
    return env


def single_environments(env: Any) -> list[Env]:
    """The environments of a vectorised one; an environment by itself is a list of one."""
    if not isinstance(env, gym.vector.VectorEnv):
        return [env]
    inner = getattr(env.unwrapped, "envs", None)
    if not inner:
        raise InvalidInput(
            "expected a vectorised environment that holds its environments one by one (SyncVectorEnv), got "
            f"{type(env.unwrapped).__name__}; use the factory of a single one instead"
        )
    return list(inner)


def without_bookkeeping(env: Env) -> Env:
    """The environment without the time limit and the checks that `gymnasium.make` puts around it."""
    while isinstance(env, _BOOKKEEPING):
        env = env.env
    return env


def step(params: Simulator, state: Row, action: int, rng: Stream, next_state: Row, costs: Row) -> tuple[float, bool]:
    """A model's `step`: one step of the environment that `params` simulates."""
    return params.step(state, action, rng, next_state, costs)


def legal_actions(params: Simulator, state: Row, out: NDArray[np.int64]) -> int:
    """A model's `legal_actions`: what the mask allows."""
    return params.legal_actions(state, out)


def features(params: Simulator, state: Row, out: NDArray[np.float32]) -> None:
    """A model's `features`: what the critic sees of a state."""
    params.features(state, out)


def start(params: Simulator, rng: Stream, state: Row) -> None:
    """A model's `start`: a reset of the environment."""
    params.start(rng, state)


def rollout_action(params: Simulator, state: Row, rng: Stream) -> int:
    """A model's `rollout_action`: the user's quick guess."""
    return params.rollout_action(state, rng)


def expected_costs(params: Simulator, state: Row, action: int, out: Row) -> None:
    """A model's `expected_costs`: the mean of a few steps."""
    params.expected_costs(state, action, out)


def model_from_env(factory: Function, name: str | None, action_names: tuple[str, ...], options: EnvOptions) -> Model:
    """Make the model that `Model.from_env` returns; `EnvOptions` says what the options are."""
    expect(callable(factory), "a function that makes an environment", factory)
    simulator = Simulator(factory, options)
    env = simulator._own.env
    label = name or (env.spec.id if env.spec else type(env.unwrapped).__name__)
    logging.getLogger("cmcts").info(
        "model %r simulates a Gymnasium environment, which is not compiled: hundreds of times slower than functions",
        label,
    )
    return Model(
        name=label,
        params=simulator,
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action if simulator.rollout else no_rollout_action,
        expected_costs=expected_costs,
        estimates_costs=True,
        state_size=simulator.state_size,
        action_count=simulator.action_count,
        feature_count=simulator.feature_count,
        cost_count=simulator.cost_count,
        action_names=action_names,
        feature_description="the flattened observation" if simulator.own_features is None else "the user's own",
        compilable=False,
        hold=simulator.hold,
    )

"""Try a model before planning with it, and list everything that is wrong with it.

A compiled search cannot afford to check what a model does at every step: an index that is out of range there is not an
error but somebody else's memory. `check_model` walks through a model's states slowly, uncompiled, and looks. What is
not wrong but worth knowing, such as a cost that was never seen, `examine` says besides.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numba import config
from numpy.typing import NDArray

from cmcts.compilation.content import Function, plain, python_function
from cmcts.errors import InvalidInput, shown
from cmcts.model.agreement import Step, outcomes_fault, slack_of_mean, starts_fault
from cmcts.model.interface import Model, no_expected_costs, no_rollout_action
from cmcts.random import stream

SIGNATURES = {
    "step": ("params", "state", "action", "rng", "next_state", "costs"),
    "legal_actions": ("params", "state", "out"),
    "features": ("params", "state", "out"),
    "start": ("params", "rng", "state"),
    "rollout_action": ("params", "state", "rng"),
    "expected_costs": ("params", "state", "action", "out"),
    "outcomes": ("params", "state", "action"),
    "starts": ("params",),
}
OPTIONAL = ("rollout_action", "expected_costs", "outcomes", "starts")
WALK = ("start", "legal_actions", "step")  # without these there are no states to try the others in
SIZES = ("state_size", "action_count", "feature_count", "cost_count")

_FILLS = (-12345.5, 54321.25)  # outputs start as one, then as the other: what keeps both was never written
_ACTIONS_A_STATE = 32
_EPISODE = 50
_COST_CHECKS = 25
_OUTCOME_CHECKS = 10
_SAMPLES = 1000


class Examination(NamedTuple):
    """What is wrong with a model, and what is worth knowing about it, one line each."""

    faults: list[str]
    notes: list[str]


def check_model(model: Any, *, states: int = 200, seed: int = 0) -> list[str]:
    """Everything that is wrong with a model, one line each; an empty list if nothing is.

    `model` is a `Model`, or any object with a model's functions, `params` and sizes as attributes. It is tried in
    `states` states, reached by random legal walks from its start.
    """
    return examine(model, states=states, seed=seed).faults


def examine(model: Any, *, states: int = 200, seed: int = 0) -> Examination:
    """The same, and what is not wrong but may surprise: costs that were never seen, where legal actions come from."""
    return _check(model, states, seed, thorough=True)


def first_look(model: Any, *, states: int = 5, seed: int = 0) -> list[str]:
    """The same in a few states, and without asking whether it compiles and does what it claims: quick enough to do it
    every time."""
    return _check(model, states, seed, thorough=False).faults


def _check(model: Any, states: int, seed: int, *, thorough: bool) -> Examination:
    if states < 1:
        raise InvalidInput(f"expected states >= 1, got {states!r}")
    checker = _Checker(model, seed)
    complete = checker.check_signatures()
    fault = _restore_fault(model, seed) if complete and thorough else ""
    if fault:  # all else would be a consequence
        return Examination([fault], [])
    if checker.can_walk():
        checker.walk(states, claims=thorough)
    if complete and thorough:
        checker.check_compiles()
    faults = list(checker.faults.values())
    if thorough and not faults and getattr(model, "at_prices", None) is not None:
        faults = _faults_at_prices(model, states, seed)
    return Examination(faults, checker.notes())


def _faults_at_prices(model: Any, states: int, seed: int) -> list[str]:
    """What is wrong with the model at a price of 1 for every cost, of which its rollout policy alone may be another."""
    try:
        priced = model.at_prices(model, np.ones(model.cost_count), 0.95)
    except Exception as error:
        return [f"at_prices: raised {type(error).__name__}: {error}"]
    if not isinstance(priced, Model):
        return [f"at_prices: expected a Model, got {priced!r}"]
    for name in SIZES:
        if getattr(priced, name) != getattr(model, name):
            return [f"at_prices: expected {name} {getattr(model, name)} as before, got {getattr(priced, name)}"]
    alone = replace(priced, at_prices=None)
    return [f"at_prices: {fault}" for fault in _check(alone, states, seed, thorough=True).faults]


def _restore_fault(model: Any, seed: int) -> str:
    """What is wrong with an environment's get_state and set_state, if there is an environment behind the model."""
    simulator = getattr(model.params, "model", model.params)  # time may be around it
    if not hasattr(simulator, "give_dice"):
        return ""
    from cmcts.model.check_env import restore_fault  # imports Gymnasium

    try:
        return restore_fault(simulator, seed)
    except Exception:  # the walk finds what the environment raises, and says where
        return ""


class _Broken(Exception):
    """A function raised an error: it is not called again."""


class _Checker:
    def __init__(self, model: Any, seed: int) -> None:
        self.model = model
        self.faults: dict[tuple[str, str], str] = {}  # the first fault of each kind
        self.functions: dict[str, Function] = {}
        self.rng = stream(seed)
        self.choices = np.random.default_rng(seed)
        self.steps = 0
        self.legal_counts: set[int] = set()
        self.largest_costs = np.zeros(0)

    def note(self, name: str, kind: str, fault: str) -> None:
        self.faults.setdefault((name, kind), f"{name}: {fault}")

    def check_signatures(self) -> bool:
        """Whether the model has all the functions, arguments and sizes it needs."""
        if not hasattr(self.model, "params"):
            self.note("params", "missing", "expected the model to have params, got none")
        for name in SIZES:
            value = getattr(self.model, name, 1 if name == "cost_count" else None)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                self.note(name, "size", f"expected an integer >= 1, got {value!r}")
        for name, arguments in SIGNATURES.items():
            function = getattr(self.model, name, None)
            if name in OPTIONAL and function in (None, no_rollout_action, no_expected_costs):
                continue
            call = f"{name}({', '.join(arguments)})"
            if not callable(function):
                self.note(name, "missing", f"expected a function {call}, got {function!r}")
                continue
            parameters = inspect.signature(python_function(function))
            try:
                parameters.bind(*arguments)
                self.functions[name] = plain(function)
            except TypeError:
                self.note(name, "arity", f"expected {len(arguments)} arguments as in {call}, got {name}{parameters}")
        return not self.faults

    def can_walk(self) -> bool:
        """Whether enough of the model is there to try it."""
        missing = {name for name, _ in self.faults}
        return not missing & {"params", *SIZES, *WALK}

    def walk(self, states: int, claims: bool) -> None:
        """Random legal walks from the start, checking every function in every state, and perhaps what is claimed."""
        model = self.model
        self.state_size, self.actions, self.features = model.state_size, model.action_count, model.feature_count
        self.costs = getattr(model, "cost_count", 1)
        self.largest_costs = np.zeros(self.costs)
        state, steps = None, 0
        try:
            if claims and "starts" in self.functions:
                self.try_check(self.check_starts)
            for visited in range(states):
                if state is None or steps >= _EPISODE:
                    state, steps = self.check_start(), 0
                sample = visited % max(1, states // _COST_CHECKS) == 0
                state = self.visit(state, sample, claims and visited % max(1, states // _OUTCOME_CHECKS) == 0)
                steps += 1
        except _Broken:
            return

    def visit(self, state: NDArray[np.float64], sample_costs: bool, claims: bool) -> NDArray[np.float64] | None:
        """Check all functions in one state; returns the next state of the walk, or None at an episode's end."""
        self.check_state_fault(state)
        self.try_check(self.check_features, state)
        legal = self.check_legal_actions(state)
        if len(legal) == 0:
            return None
        if "rollout_action" in self.functions:
            self.try_check(self.check_rollout_action, state, legal)
        tried = self.choices.permutation(legal)[:_ACTIONS_A_STATE]
        walked = None
        for action in tried:
            walked = self.check_step(state, int(action), sample_costs and action == tried[-1])
        if claims and "outcomes" in self.functions and ("step", "repeat") not in self.faults:
            self.try_check(self.check_outcomes, state, int(tried[-1]))
        return walked

    def try_check(self, check: Function, *arguments: Any) -> None:
        """A check whose function the walk can do without."""
        try:
            check(*arguments)
        except _Broken as broken:
            name = str(broken)
            if name in WALK:
                raise
            del self.functions[name]

    def call(self, name: str, state: NDArray[np.float64] | None, *arguments: Any) -> Any:
        """Call a function of the model, which must neither raise an error nor write to `state`."""
        before = None if state is None else state.copy()
        given = arguments if state is None else (state, *arguments)
        try:
            with np.errstate(all="ignore"):
                result = self.functions[name](self.model.params, *given)
        except Exception as error:
            where = "" if state is None else f" in state {_show(before)}"
            self.note(name, "error", f"raised {type(error).__name__}: {error}{where}")
            raise _Broken(name) from None
        if state is not None and before is not None and not np.array_equal(state, before, equal_nan=True):
            self.note(
                name, "in place", f"expected state to be left alone, got {_show(state)} written over {_show(before)}"
            )
            state[:] = before
        return result

    def check_start(self) -> NDArray[np.float64]:
        outputs = []
        for fill in _FILLS:
            state, rng = np.full(self.state_size, fill), self.rng.copy()
            self.call("start", None, rng, state)
            outputs.append((state, rng))
        self.rng = outputs[0][1]
        self.check_written("start", "a start state", [state for state, _ in outputs], "")
        self.check_repeatable("start", outputs, "")
        if not np.isfinite(outputs[0][0]).all():
            raise _Broken("start")
        return outputs[0][0]

    def check_state_fault(self, state: NDArray[np.float64]) -> None:
        find_fault = getattr(self.model, "state_fault", None)
        fault = find_fault(self.model.params, state.copy()) if find_fault else ""
        if fault:
            self.note(
                "state_fault", "reached", f"expected no fault in {_show(state)}, which the model reached; got {fault!r}"
            )

    def check_features(self, state: NDArray[np.float64]) -> None:
        if "features" not in self.functions:
            return
        outputs = [np.full(self.features, fill, np.float32) for fill in _FILLS]
        for out in outputs:
            self.call("features", state, out)
        self.check_written("features", "features", outputs, f" in state {_show(state)}")
        self.check_repeatable("features", [(out,) for out in outputs], f" in state {_show(state)}")

    def check_legal_actions(self, state: NDArray[np.float64]) -> NDArray[np.int64]:
        out = np.full(self.actions, -1, np.int64)
        count = self.call("legal_actions", state, out)
        where = f" in state {_show(state)}"
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or not 0 <= count <= self.actions:
            self.note("legal_actions", "count", f"expected a count from 0 to {self.actions}, got {count!r}{where}")
            raise _Broken("legal_actions")
        legal = out[:count]
        if count == 0:
            self.note(
                "legal_actions",
                "none",
                f"expected at least one legal action, got none in the non-terminal state {_show(state)}",
            )
        inside = (legal >= 0) & (legal < self.actions)
        if not inside.all():
            bad = int(legal[~inside][0])
            self.note("legal_actions", "range", f"expected actions from 0 to {self.actions - 1}, got {bad}{where}")
        if len(np.unique(legal)) != len(legal):
            self.note("legal_actions", "twice", f"expected every action once, got {legal.tolist()}{where}")
        again = np.full(self.actions, -1, np.int64)
        if self.call("legal_actions", state, again) != count or not np.array_equal(out, again):
            self.note(
                "legal_actions", "repeat", f"expected the same actions for the same state, got two answers{where}"
            )
        self.legal_counts.add(len(legal))
        return np.unique(legal[inside])

    def check_rollout_action(self, state: NDArray[np.float64], legal: NDArray[np.int64]) -> None:
        where = f" in state {_show(state)}"
        rngs = [self.rng.copy(), self.rng.copy()]
        first, second = (self.call("rollout_action", state, rng) for rng in rngs)
        if isinstance(first, bool) or not isinstance(first, (int, np.integer)):
            self.note("rollout_action", "type", f"expected an integer, got {first!r}{where}")
        elif first not in legal:
            self.note(
                "rollout_action", "illegal", f"expected one of the legal actions {legal.tolist()}, got {first}{where}"
            )
        self.check_repeatable("rollout_action", [(first, rngs[0]), (second, rngs[1])], where)

    def check_step(self, state: NDArray[np.float64], action: int, sample_costs: bool) -> NDArray[np.float64] | None:
        """One action; returns where it led, or None if the episode is over or the next state is no good."""
        where = f" for action {action} in state {_show(state)}"
        outputs = []
        for fill in _FILLS:
            rng, next_state, costs = self.rng.copy(), np.full(self.state_size, fill), np.full(self.costs, fill)
            result = self.call("step", state, action, rng, next_state, costs)
            if not isinstance(result, tuple) or len(result) != 2:
                self.note("step", "result", f"expected (reward, terminal), got {result!r}{where}")
                raise _Broken("step")
            outputs.append((*result, next_state, costs, rng))
        reward, terminal, next_state, costs, rng = outputs[0]
        drew = bool(rng[0] != self.rng[0])
        self.rng = rng
        if not _is_finite_number(reward):
            self.note("step", "reward", f"expected a finite reward, got {reward!r}{where}")
        if not isinstance(terminal, (bool, np.bool_, int)):
            self.note("step", "terminal", f"expected terminal to be true or false, got {terminal!r}{where}")
        sound = self.check_written("step", "a next state", [output[2] for output in outputs], where)
        written = self.check_written("step", "costs", [output[3] for output in outputs], where)
        self.steps += 1
        if written:
            self.largest_costs = np.maximum(self.largest_costs, costs)
        if written and (costs < 0).any():
            self.note("step", "negative", f"expected costs >= 0, got {_show(costs)}{where}")
        self.check_repeatable("step", outputs, where)
        if "expected_costs" in self.functions and written and ("step", "repeat") not in self.faults:
            self.try_check(self.check_expected_costs, state, action, costs, drew, sample_costs)
        return next_state if sound and not terminal else None

    def check_expected_costs(
        self, state: NDArray[np.float64], action: int, costs: NDArray[np.float64], drew: bool, sample: bool
    ) -> None:
        """Against the step's own costs if it drew no random number, else against the mean of many steps."""
        where = f" for action {action} in state {_show(state)}"
        outputs = [np.full(self.costs, fill) for fill in _FILLS]
        for out in outputs:
            self.call("expected_costs", state, action, out)
        sound = self.check_written("expected_costs", "expected costs", outputs, where)
        if not sound or (drew and not sample) or getattr(self.model, "estimates_costs", False):
            return
        expected = outputs[0]
        mean, slack = costs, np.full(self.costs, 1e-9)
        if drew:
            samples = np.array([self.sample_step(state, action).costs for _ in range(_SAMPLES)])
            # Where all samples are alike, a rare cost of the usual size may have been missed.
            mean, largest = samples.mean(axis=0), np.maximum(samples.max(axis=0), samples.var(axis=0) == 0)
            slack = slack_of_mean(samples, largest)
        if (np.abs(expected - mean) > slack).any():
            got = f"got {_show(expected)}, where steps cost {_show(mean)} on average"
            self.note("expected_costs", "mean", f"expected the mean of what step costs, {got}{where}")

    def check_outcomes(self, state: NDArray[np.float64], action: int) -> None:
        """Against many steps, or one if it throws no dice."""
        listed = self.call("outcomes", state, action)
        before = self.rng.copy()
        steps = [self.sample_step(state, action)]
        if self.rng[0] != before[0]:
            steps += [self.sample_step(state, action) for _ in range(_SAMPLES - 1)]
        fault = outcomes_fault(listed, steps, self.state_size, self.costs)
        if fault:
            self.note("outcomes", "step", f"{fault}, for action {action} in state {_show(state)}")

    def check_starts(self) -> None:
        """Against many start states."""
        listed, states = self.call("starts", None), []
        for _ in range(_SAMPLES):
            state = np.zeros(self.state_size)
            self.call("start", None, self.rng, state)
            states.append(state)
        fault = starts_fault(listed, states, self.state_size)
        if fault:
            self.note("starts", "start", fault)

    def sample_step(self, state: NDArray[np.float64], action: int) -> Step:
        next_state, costs = np.zeros(self.state_size), np.zeros(self.costs)
        reward, end = self.call("step", state, action, self.rng, next_state, costs)
        return Step(next_state, float(reward), costs, bool(end))

    def notes(self) -> list[str]:
        """What is not wrong, but may surprise."""
        found = []
        for m in np.flatnonzero(self.largest_costs == 0.0) if self.steps else ():
            name = self.model.cost_name(int(m)) if isinstance(self.model, Model) else f"cost {m}"
            found.append(f"{name}: never above 0 in {self.steps:,} steps; can it occur, or is what costs not legal?")
        if self.legal_counts:
            least, most = min(self.legal_counts), max(self.legal_counts)
            simulator = getattr(self.model.params, "model", self.model.params)
            source = getattr(simulator, "legal_source", "by the model's legal_actions")
            span = f"{least}" if least == most else f"{least} to {most}"
            found.append(f"legal actions: {span} of {self.actions}, {source}")
        return found

    def check_written(self, name: str, what: str, outputs: Sequence[NDArray[Any]], where: str) -> bool:
        """Whether an output, made twice over different fills, was written and finite throughout."""
        first, second = outputs
        kept = (first == np.asarray(_FILLS[0], first.dtype)) & (second == np.asarray(_FILLS[1], second.dtype))
        if kept.any():
            got = f"got {len(kept) - int(kept.sum())} written"
            self.note(name, f"unwritten {what}", f"expected {what} of {len(kept)} numbers, {got}{where}")
        bad = ~np.isfinite(first)
        if bad.any():
            index = int(np.flatnonzero(bad)[0])
            self.note(
                name, f"finite {what}", f"expected {what} of finite numbers, got {first[index]} at index {index}{where}"
            )
        return not kept.any() and not bad.any()

    def check_repeatable(self, name: str, outputs: Sequence[tuple[Any, ...]], where: str) -> None:
        for first, second in zip(*outputs, strict=True):
            a, b = np.atleast_1d(first), np.atleast_1d(second)
            if a.dtype.kind == "f":
                untouched = (a == np.asarray(_FILLS[0], a.dtype)) & (b == np.asarray(_FILLS[1], b.dtype))
                a, b = a[~untouched], b[~untouched]
            same = np.array_equal(a, b, equal_nan=True) if a.dtype.kind == "f" else np.array_equal(a, b)
            if not same:
                takes = "rng" in SIGNATURES[name]
                same_what = "the same stream" if takes else "the same state"
                hint = ": all randomness must come from rng" if takes else ""
                self.note(name, "repeat", f"expected the same result from {same_what}, got two{where}{hint}")

    def check_compiles(self) -> None:
        if config.DISABLE_JIT or not getattr(self.model, "compilable", True):
            return
        attributes: dict[str, Any] = {name: getattr(self.model, name, 1) for name in SIZES} | {
            name: getattr(self.model, name) for name in SIGNATURES if getattr(self.model, name, None) is not None
        }
        model = Model(name=str(getattr(self.model, "name", "model")), params=self.model.params, **attributes)
        fault = model.compile_fault()
        if fault:
            self.note("compilation", "fault", f"Numba cannot compile {fault}; planning works, hundreds of times slower")


def _is_finite_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and bool(np.isfinite(value))


def _show(array: NDArray[Any] | None) -> str:
    return "[]" if array is None else shown(array)

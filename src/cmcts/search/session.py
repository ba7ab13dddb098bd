"""One search from Python: a tree and its workspace, begun at a root, run for a while, and run on.

The same memory serves search after search. A model that Numba cannot compile runs the same kernels uncompiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numba import config
from numpy.typing import NDArray

from cmcts.compilation.content import Function, compiled_for, uncompiled
from cmcts.compilation.portable import portable
from cmcts.compilation.verdict import Verdict
from cmcts.errors import InvalidInput, ModelError, shown
from cmcts.model.interface import Model
from cmcts.random import Stream
from cmcts.search import kernels, pruning
from cmcts.search.clock import UNTIMED, Limit
from cmcts.search.faults import fault_message
from cmcts.search.kernels import Rules
from cmcts.search.tree import NO_NODE, ROOT, Tree, allocate, find_child, reroot
from cmcts.search.workspace import workspace

_plant, _draw_salt, _find_child = uncompiled(kernels.plant), uncompiled(kernels.draw_salt), uncompiled(find_child)
_doubt_root = uncompiled(pruning.doubt_root)
_immediate_costs, _least_charges = uncompiled(pruning.immediate_costs), uncompiled(pruning.least_charges)


class Critic(Protocol):
    """What a search asks of a critic; `cmcts.critic.SafetyCritic` is one."""

    @property
    def params(self) -> Any:
        """What its function is given first."""

    @property
    def scratch_width(self) -> int:
        """Numbers in a row of the scratch memory that it needs."""

    @property
    def verdict(self) -> Verdict:
        """What is known of whether it compiles."""

    @property
    def uncompiled(self) -> Any:
        """What an uncompiled search calls."""

    @property
    def support(self) -> Any:
        """Where it has data: `doubt(features)`, or `doubts(rows)`, is added to sigma, in cost scales. Or None."""

    @property
    def compiles(self) -> bool:
        """False once Numba has failed on it."""

    def compile_fault(self, *, gpu: bool = False) -> str:
        """Why Numba cannot compile it, for a GPU if asked. Empty if it can."""


class SearchSession:
    """A resumable search of one model under one set of rules. Not thread-safe: one session a thread.

    Memory grows to what the largest search needs, and not beyond: `max_nodes` bounds what tree reuse adds to it.
    """

    def __init__(
        self,
        model: Model,
        critic: Critic,
        rules: Rules,
        cost_scale: Sequence[float],
        cost_discounts: Sequence[float],
        max_nodes: int = 1 << 17,
        price_units: Sequence[float] = (),
    ) -> None:
        """`price_units` are those of the leaf values that have the critic's place, or share it with a guard."""
        self.model, self.critic, self.rules, self.max_nodes = model, critic, rules, max_nodes
        self.cost_discounts = np.array(cost_discounts, np.float64)
        judged = model.action_count * model.cost_count if rules.use_critic else 0
        self.work = workspace(
            model.state_size,
            model.action_count,
            model.feature_count,
            critic.scratch_width,
            rules.horizon,
            rules.discount,
            cost_discounts,
            extra_inputs=len(price_units),
            outputs=judged + 1 + model.cost_count if price_units else None,
        )
        self.work.cost_scale[:] = cost_scale
        self.price_units = np.array(price_units)
        self._portable = {id(params): portable(params) for params in (model.params, critic.params)}
        self.tree = self._allocate(2)
        self._spare = self.tree  # a second tree takes turns with the first once a subtree is to be kept
        self.iterations = 0
        self.budget = np.zeros(model.cost_count)
        self.multipliers = np.zeros(model.cost_count)
        self.rng: Stream = np.zeros(1, np.uint64)
        if model.hold is not None:  # a simulator that forgets states must know which ones this search may go back to
            model.hold(self)

    def held_states(self) -> NDArray[np.float64]:
        """[n, S] the states of the tree."""
        return self.tree.states[: self.tree.count[0]]

    def _allocate(self, nodes: int) -> Tree:
        model = self.model
        return allocate(nodes, model.state_size, model.action_count, model.cost_count, critic=self.rules.use_critic)

    def reserve(self, nodes: int) -> None:
        """Allocate and touch the memory of searches with so many nodes, so that none of them waits for it."""
        if len(self.tree.parent) < nodes:
            self.tree = self._allocate(nodes)
        for array in self.tree:
            array.fill(0)

    def begin(
        self,
        state: NDArray[np.float64],
        budget: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        rng: Stream,
        capacity: int,
    ) -> None:
        """Start anew at a root; `rng` is advanced in place as the search runs."""
        if len(self.tree.parent) < capacity:
            self.tree = self._allocate(capacity)
        if len(self.model.legal(state)) == 0:
            raise InvalidInput(f"expected a state with a legal action, got {shown(state)}")
        self.work.doubt[:] = self.doubt(state)
        with np.errstate(over="ignore"):
            _plant(self.tree, state, self.rules, self.work, rng)
        self._set(budget, multipliers, rng)

    @property
    def has_doubts(self) -> bool:
        """Whether the critic knows where it has data."""
        return self.rules.use_critic and self.critic.support is not None

    def doubt(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """[A] what is added to sigma if `state` is the root."""
        if not self.has_doubts:
            return np.zeros(self.model.action_count)
        assert self.critic.support is not None
        return np.asarray(self.critic.support.doubt(self.model.feature_vector(state)))

    def doubts(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """[L, A] the same for many roots."""
        if not self.has_doubts:
            return np.zeros((len(states), self.model.action_count))
        assert self.critic.support is not None
        different, which = np.unique(states, axis=0, return_inverse=True)  # many searches begin alike
        features = np.array([self.model.feature_vector(state) for state in different])
        return np.asarray(self.critic.support.doubts(features))[which.reshape(-1)]

    def resume_at(
        self,
        action: int,
        state: NDArray[np.float64],
        budget: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        rng: Stream,
        capacity: int,
    ) -> bool:
        """Re-root on what `action` led to and keep that subtree; False if the outcome is not in the tree.

        Pruning is judged anew: the budget that is really left may differ from what the tree expected.
        """
        known = self.tree.expanded[ROOT] and self.tree.action_visits[ROOT, action] > 0
        child = _find_child(self.tree, ROOT, action, state, False) if known else NO_NODE
        if child == NO_NODE:
            return False
        old = self.tree
        # Memory that is not used costs nothing, and two trees of full size need never be replaced.
        room = max(capacity, self.max_nodes, int(old.count[0]))
        new = self._spare
        if new is old or len(new.parent) < room:
            new = self._allocate(room)
        self._reroot(old, new, int(child))
        self.tree, self._spare = new, old
        self._set(budget, multipliers, rng)
        with np.errstate(over="ignore"):
            _draw_salt(self.tree, self.rules, rng)
        self.work.fault[0] = 0.0
        if self.rules.use_critic:
            self.work.doubt[:] = self.doubt(state)
            if self.tree.expanded[ROOT]:
                _doubt_root(self.tree, self.work)
            self._call(
                pruning.reprune,
                (self.model, self.model.params, self.tree, self.budget, self.rules, self.work, self.rng),
            )
            self._raise_fault()
        return True

    def _reroot(self, old: Tree, new: Tree, root: int) -> None:
        reroot(old, new, root, self.cost_discounts)

    def _set(self, budget: NDArray[np.float64], multipliers: NDArray[np.float64], rng: Stream) -> None:
        self.budget, self.multipliers, self.rng = budget.copy(), multipliers.copy(), rng
        self.iterations = 0
        if self.rules.leaf_values:
            prices = np.log1p(multipliers / self.price_units).astype(np.float32)
            told = self.work.inputs[self.model.feature_count :]
            if (told != prices).any():
                told[:] = prices
                self.work.memo.used[:] = False

    def run(self, iterations: int, limit: Limit = UNTIMED) -> None:
        """Add so many simulations to the tree, or as many as fit; raises what the model or the critic did wrong."""
        arguments = (
            self.model,
            self.model.params,
            self.critic,
            self.critic.params,
            self.tree,
            self.budget,
            self.multipliers,
            self.rules,
            self.work,
            self.rng,
            self.iterations,
            self.iterations + iterations,
            limit,
        )
        done = self._call(kernels.run_until, arguments)
        self._raise_fault()
        self.iterations += int(done)  # NumPy's own integer where nothing is compiled

    def least_charges(self, state: NDArray[np.float64], rng: Stream) -> NDArray[np.float64]:
        """[M] V(s) by expected accounting; one state is not worth a compilation."""
        model, critic = self.model, self.critic
        with np.errstate(over="ignore"):
            _least_charges(
                model.uncompiled, model.params, critic.uncompiled, critic.params, state, self.rules, self.work, rng
            )
        self._raise_fault()
        return self.work.least.copy()

    def immediate_costs(self, state: NDArray[np.float64], action: int, rng: Stream) -> NDArray[np.float64]:
        """[M] E[c(s, a)], as the model says or as sampled steps show."""
        work = self.work
        with np.errstate(over="ignore"):
            _immediate_costs(
                self.model.uncompiled,
                self.model.params,
                state,
                action,
                self.rules,
                rng,
                work.sample_state,
                work.costs,
                work.floor,
                work.fault,
            )
        self._raise_fault()
        return work.floor.copy()

    def _raise_fault(self) -> None:
        """What a kernel noted about a model or critic that broke its contract, as an error."""
        if self.work.fault[0]:
            message = fault_message(self.model, self.work.fault)
            self.work.fault[0] = 0.0
            raise ModelError(message)

    def _call(self, kernel: Function, arguments: tuple[Any, ...]) -> Any:
        if not config.DISABLE_JIT and self.model.compiles and self.critic.compiles:
            compiled: Any = compiled_for(kernel, self.model, self.critic)
            try:
                return compiled(*(self._portable.get(id(argument), argument) for argument in arguments))
            except Exception as error:  # Numba also raises ValueError and others
                if compiled.signatures:  # it was compiled, so this is what a user's function raised
                    raise ModelError(
                        f"simulating model {self.model.name!r} raised {type(error).__name__}: {error}; uncompiled "
                        "(NUMBA_DISABLE_JIT=1) it says where, and `cmcts check` may find it"
                    ) from error
                if fault := self.model.compile_fault():
                    self.model.verdict.condemn(fault)
                elif fault := self.critic.compile_fault():
                    self.critic.verdict.condemn(fault)
                else:
                    raise
        plain = {id(self.model): self.model.uncompiled, id(self.critic): self.critic.uncompiled}
        try:
            with np.errstate(over="ignore", invalid="ignore"):  # integers are meant to wrap, and faults are noted
                return uncompiled(kernel)(*(plain.get(id(argument), argument) for argument in arguments))
        except (InvalidInput, ModelError):
            raise
        except Exception as error:
            raise ModelError(f"simulating model {self.model.name!r} raised {type(error).__name__}: {error}") from error

"""The exact policy of a finite problem, to act by: where the states can be listed, no search beats it.

    >>> import cmcts
    >>> from cmcts.exact import TabularPolicy, enumerate_states, solve
    >>> task = cmcts.make("random-absorbing-3")
    >>> cmdp = enumerate_states(task.model, task.discount)
    >>> policy = TabularPolicy.of(solve(cmdp, task.budget), task.model)
    >>> decision = policy.plan(task.model.start_state(), task.budget)
    >>> float(decision.probabilities.sum())
    1.0

It is a planner that does not plan: it looks the state up, and draws from the probabilities that it finds there, which
are not 0 and 1 alone where the optimum tosses coins. The budget is in the table already; what is left of it is not
asked. On disk it is one file of arrays, and loading it executes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.critic.identity import model_digest
from cmcts.critic.policies import ARRAYS, FORMAT, Description, description_of, digest_of, table_of
from cmcts.errors import InvalidInput, expect, shown
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import Solution, Values, action_values, evaluate
from cmcts.files import read_plain, write_atomically
from cmcts.model.interface import Model
from cmcts.planning.decision import Decision
from cmcts.planning.planner import Planner
from cmcts.planning.roots import draw_action
from cmcts.random import Stream, stream
from cmcts.search.session import SearchSession
from cmcts.search.settings import SearchSettings
from cmcts.version import __version__

MAX_BYTES = 1 << 30
Floats = NDArray[np.float64]


class TabularPolicy(Planner):
    """A policy, mostly the optimal one, as a table: S states, with probabilities and values of A actions."""

    def __init__(
        self,
        model: Model,
        states: Floats,
        probabilities: Floats,
        reward_values: Floats,
        cost_values: Floats,
        discount: float,
        cost_discounts: tuple[float, ...] | None = None,
        *,
        budget: tuple[float, ...] = (),
        reward: float = 0.0,
        costs: tuple[float, ...] = (),
    ) -> None:
        super().__init__(model, SearchSettings(discount=discount, cost_discounts=cost_discounts))
        count, actions, constraints = len(states), model.action_count, model.cost_count
        shapes = {
            "states": (states, (count, model.state_size)),
            "probabilities": (probabilities, (count, actions)),
            "reward_values": (reward_values, (count, actions)),
            "cost_values": (cost_values, (count, actions, constraints)),
        }
        for name, (array, shape) in shapes.items():
            expect(array.shape == shape and count >= 1, f"{name} of shape {shape}", array.shape)
            expect(bool(np.isfinite(array).all()), f"finite {name}", "NaN or infinity")
        proper = (probabilities >= 0).all() and np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-6)
        expect(bool(proper), "action probabilities >= 0 with sum 1 in every state", "others")
        self._states, self._probabilities = states, probabilities
        self._reward_values, self._cost_values = reward_values, cost_values
        self._numbers = {(state + 0.0).tobytes(): number for number, state in enumerate(states)}
        self.budget, self.reward, self.costs = budget, reward, costs
        self._solved_for: tuple[str, str] | None = None  # name and digest, if it is not the model it is played in

    @classmethod
    def of(cls, solution: Solution, model: Model) -> TabularPolicy:
        """The policy of an exact solution; the model is the one whose states were listed."""
        values = Values(solution.reward, solution.costs, solution.reward_values, solution.cost_values)
        return cls._with_values(solution.cmdp, solution.policy, values, model, solution.budget)

    @classmethod
    def playing(cls, cmdp: FiniteCMDP, policy: ArrayLike, model: Model) -> TabularPolicy:
        """Any policy as a planner, by [P] or a table [S, A] of probabilities; what it spends stands for its budget."""
        chances = np.asarray(policy, np.float64)
        chances = chances if chances.ndim == 1 else cmdp.pairs(chances)
        values = evaluate(cmdp, chances)
        return cls._with_values(cmdp, chances, values, model, values.costs)

    @classmethod
    def _with_values(
        cls, cmdp: FiniteCMDP, policy: Floats, values: Values, model: Model, budget: Floats
    ) -> TabularPolicy:
        rewards = action_values(cmdp, cmdp.rewards, values.reward_values)
        costs = action_values(cmdp, cmdp.costs, values.cost_values, cmdp.cost_discounts)
        return cls(
            model,
            cmdp.states,
            cmdp.table(policy),
            cmdp.table(rewards),
            np.stack([cmdp.table(costs[:, m]) for m in range(cmdp.cost_count)], axis=-1),
            cmdp.discount,
            cmdp.cost_discounts,
            budget=tuple(budget.tolist()),
            reward=values.reward,
            costs=tuple(values.costs.tolist()),
        )

    @property
    def solved_for(self) -> str:
        """The digest of the model that it was solved for, which may be another than it is played in."""
        return self._solved_for[1] if self._solved_for else model_digest(self.model)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The table, and for which model, discount and budget it was solved, as named arrays."""
        model, digest = self._solved_for or (self.model.name, model_digest(self.model))
        description = Description(
            format=FORMAT,
            library=__version__,
            model=model,
            model_digest=digest,
            discount=self.search.discount,
            cost_discounts=tuple(self.cost_discounts.tolist()),
            budget=self.budget,
            reward=self.reward,
            costs=self.costs,
        )
        tables = (self._states, self._probabilities, self._reward_values, self._cost_values)
        return table_of(description, dict(zip(ARRAYS, tables, strict=True)))

    @cached_property
    def digest(self) -> str:
        """Of its content: the same for the same table of the same problem."""
        return digest_of(self.to_arrays())

    def save(self, path: Path) -> None:
        """Write it to one file."""
        from safetensors.numpy import save

        write_atomically(path, save(self.to_arrays()))

    @classmethod
    def load(cls, path: str | Path, model: Model) -> TabularPolicy:
        """Read and check a policy; refuses one that was solved for another model."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        file = Path(path)
        content = read_plain(file, MAX_BYTES)
        try:
            arrays = dict(load(content))
        except (SafetensorError, ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"cannot use the policy {file}: it is damaged: {error}") from None
        try:
            return cls.from_arrays(arrays, model)
        except InvalidInput as error:
            raise InvalidInput(f"cannot use the policy {file}: {error}") from None

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], model: Model, *, solved_elsewhere: bool = False
    ) -> TabularPolicy:
        """The policy of named arrays; refuses one that was solved for another model, unless that is `solved_elsewhere`.

        A policy of the training world is played beside planners whose own model is a cheaper one of the same states.
        """
        described = description_of(arrays)
        if described.model_digest != model_digest(model) and not solved_elsewhere:
            raise InvalidInput(f"it was solved for model {described.model!r}, which differs from {model.name!r} here")
        policy = cls(
            model,
            arrays["states"],
            arrays["probabilities"],
            arrays["reward_values"],
            arrays["cost_values"],
            described.discount,
            described.cost_discounts,
            budget=described.budget,
            reward=described.reward,
            costs=described.costs,
        )
        policy._solved_for = (described.model, described.model_digest)
        return policy

    def plan_in(
        self,
        session: SearchSession,
        state: NDArray[np.float64],
        budget: ArrayLike,
        *,
        iterations: int | None = None,
        seconds: float | None = None,
        rng: int | Stream = 0,
        multipliers: ArrayLike | None = None,
        keep_tree: bool = False,
        after: int | None = None,
    ) -> Decision:
        """Look the state up and draw; nothing is searched, whatever the limits, and there is no tree to keep."""
        began = time.perf_counter()
        key = (np.asarray(state, np.float64) + 0.0).tobytes()
        if key not in self._numbers:
            raise InvalidInput(
                f"expected a state that the exact policy knows, got {shown(np.asarray(state))}: it cannot be reached "
                "in the model that was solved"
            )
        number = self._numbers[key]
        self._has_searched = True
        model, probabilities = self.model, self._probabilities[number]
        legal = np.zeros(model.action_count, np.bool_)
        legal[model.legal(state)] = True
        if probabilities[~legal].any():
            raise InvalidInput(f"expected a policy of legal actions, got another in {shown(np.asarray(state))}")
        return Decision(
            model=model,
            state=np.array(state),
            budget=self.validate_budget(budget),
            action=draw_action(probabilities, stream(rng)),
            probabilities=probabilities.copy(),
            legal=legal,
            pruned=np.zeros(model.action_count, np.bool_),
            pruned_by=np.zeros((model.action_count, model.cost_count), np.bool_),
            nothing_safe=False,
            visits=np.zeros(model.action_count, np.int64),
            reward_values=self._reward_values[number],
            cost_values=self._cost_values[number],
            critic_mean=None,
            critic_sigma=None,
            charges=None,
            multipliers=np.zeros(model.cost_count),
            iterations=0,
            seconds=time.perf_counter() - began,
            tree_size=0,
            tree_depth=0,
        )

    @property
    def minds_budget(self) -> bool:
        """What is left of the budget is not asked."""
        return False

    def knows(self, state: ArrayLike) -> bool:
        """Whether a state is in the table."""
        return (np.asarray(state, np.float64) + 0.0).tobytes() in self._numbers

    def decisions_in(self, cmdp: FiniteCMDP) -> Floats:
        """[P] its action probabilities in the states of a list; refuses one with states that it does not know."""
        unknown = [state for state in cmdp.states if not self.knows(state)]
        if unknown:
            raise InvalidInput(
                f"expected a policy that knows all {cmdp.state_count} states, got one that lacks {len(unknown)} of "
                f"them, such as {shown(unknown[0])}"
            )
        rows = [self._numbers[(state + 0.0).tobytes()] for state in cmdp.states]
        return cmdp.pairs(self._probabilities[rows])

    @property
    def searches(self) -> bool:
        """Decisions are looked up."""
        return False

    @property
    def runs_compiled(self) -> bool:
        """Looking up needs no processes of its own."""
        return True

    def warm_up(self, threads: int = 1) -> None:
        """There is nothing to get ready."""

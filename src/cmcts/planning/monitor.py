"""The safety monitor: any policy acts, as long as the critic finds its actions safe; else the planner does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.errors import InvalidInput, expect
from cmcts.planning.agent import Agent
from cmcts.planning.decision import Decision
from cmcts.planning.planners import CMCTS
from cmcts.random import Stream

Policy = Callable[[Any], Any]


@dataclass(frozen=True)
class Intervention:
    """A step at which the monitor did not let the policy have its way."""

    step: int
    """Of the episode, from 0."""
    state: tuple[float, ...]
    budget: tuple[float, ...]
    """What was left."""
    proposed: int
    proposed_name: str
    taken: int
    taken_name: str
    reason: str
    """Why the policy's action was refused."""
    nothing_safe: bool
    """Every action was judged unsafe, and the planner took the least bad."""

    def to_dict(self) -> dict[str, Any]:
        """The intervention as a dictionary of plain values, ready for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }


class SafetyMonitor:
    """Watches one episode of a policy, and carries what is left of the budget from step to step.

        monitor = SafetyMonitor(planner, policy, budget=1.0, iterations=1024)
        action = monitor.act(state)
        ...take the action in the world...
        monitor.observe(cost)

    `policy` is a function from state to action, or an object with `predict(state, deterministic=True)` that returns the
    action first, as in Stable-Baselines3. Safe is what the planner's critic would not prune at the root.
    """

    def __init__(
        self,
        planner: CMCTS,
        policy: Policy | Any,
        budget: ArrayLike,
        *,
        rng: int | Stream = 0,
        iterations: int | None = None,
        seconds: float | None = None,
        keep_tree: bool = False,
    ) -> None:
        expect(isinstance(planner, CMCTS), "a CMCTS planner, whose critic judges actions", type(planner).__name__)
        predict = getattr(policy, "predict", None)
        expect(callable(predict or policy), "a policy that is a function or has predict", policy)
        self.planner = planner
        self.interventions: list[Intervention] = []
        self.step = 0
        self._propose: Policy = policy if predict is None else lambda state: predict(state, deterministic=True)[0]
        self._agent = Agent(planner, budget, rng=rng, iterations=iterations, seconds=seconds, keep_tree=keep_tree)

    @property
    def budget(self) -> NDArray[np.float64]:
        """[M] what is left of the budget, in discounted units of now."""
        return self._agent.budget

    @property
    def decision(self) -> Decision | None:
        """What is behind the last action: the planner's decision, or the critic's verdict on the policy's."""
        return self._agent.decision

    def act(self, state: ArrayLike) -> int:
        """The policy's action if it is safe, else the planner's."""
        proposed = self._proposal(state)
        budget = self._agent.arrive(state)
        # One simulation opens the root, where the critic judges every action. It draws what a plan would draw, so that
        # both judge alike where immediate costs are sampled.
        draws = self._agent.rng.copy()
        verdict = self.planner.plan(state, budget, iterations=1, rng=draws)
        reason = verdict.reason(proposed)
        if not reason:
            self._agent.rng[:] = draws
            self._agent.decision = verdict
            return self._agent.override(proposed).action
        decision = self._agent.act(state)
        self.interventions.append(
            Intervention(
                step=self.step,
                state=tuple(verdict.state.tolist()),
                budget=tuple(self.budget.tolist()),
                proposed=proposed,
                proposed_name=self.planner.model.action_name(proposed),
                taken=decision.action,
                taken_name=decision.action_name,
                reason=reason,
                nothing_safe=decision.nothing_safe,
            )
        )
        return decision.action

    def observe(self, costs: ArrayLike) -> NDArray[np.float64]:
        """Take note of what the last action really cost; returns what is left."""
        self.step += 1
        return self._agent.observe(costs)

    def _proposal(self, state: ArrayLike) -> int:
        answer, count = self._propose(state), self.planner.model.action_count
        try:
            action = int(np.asarray(answer).item())
        except (TypeError, ValueError):
            raise InvalidInput(f"expected the policy to answer with one action, got {answer!r}") from None
        expect(0 <= action < count, f"the policy's action to be from 0 to {count - 1}", answer)
        return action

"""The safety monitor: any policy acts, as long as the critic finds its actions safe; else the planner does."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.errors import InvalidInput, expect
from cmcts.planning.agent import Agent
from cmcts.planning.decision import Assurance, Decision, Refusal
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
    """Why the policy's action was refused, in words."""
    kind: Refusal
    """The same in one word or two, to be counted."""
    nothing_safe: bool
    """Every action was judged unsafe, and the least bad was taken."""
    assurance: Assurance | None
    """How sure the critic is of what was taken instead (`Decision.assurance`)."""

    def to_dict(self) -> dict[str, Any]:
        """The intervention as a dictionary of plain values, ready for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }


def as_policy(policy: Policy | Any, name: str, action_count: int) -> Callable[[ArrayLike], int]:
    """From state to action, of a function or an object with `predict`; what is no action is refused by name."""
    predict = getattr(policy, "predict", None)
    expect(callable(predict or policy), f"a {name} that is a function or has predict", policy)

    def act(state: ArrayLike) -> int:
        answer = policy(state) if predict is None else predict(state, deterministic=True)[0]
        try:
            action = int(np.asarray(answer).item())
        except (TypeError, ValueError):
            raise InvalidInput(f"expected the {name} to answer with one action, got {answer!r}") from None
        expect(0 <= action < action_count, f"the {name}'s action to be from 0 to {action_count - 1}", answer)
        return action

    return act


class SafetyMonitor:
    """Watches one episode of a policy, and carries what is left of the budget from step to step.

        monitor = SafetyMonitor(planner, policy, budget=1.0, iterations=1024)
        action = monitor.act(state)
        ...take the action in the world...
        monitor.observe(cost)

    `policy` is a function from state to action, or an object with `predict(state, deterministic=True)` that returns the
    action first, as in Stable-Baselines3. Safe is what the planner's critic would not prune at the root, and what it is
    unsure of is not safe.

    `fallback` acts in the policy's stead: "planner", which searches; "least_cost", the action that the critic predicts
    the least of, at once; or another policy, as long as its own action is safe, and else the planner.

    `tolerance` caps the planner's own, in cost scales. Training raises that where it earns reward, and a planner, which
    is out for reward, seldom comes near it. But it is granted at every step anew, and a policy that is sent back from a
    risk and returns to it takes it as often. (By expected accounting it is granted once, and is the planner's own.)
    """

    def __init__(
        self,
        planner: CMCTS,
        policy: Policy | Any,
        budget: ArrayLike,
        *,
        fallback: Literal["planner", "least_cost"] | Policy | Any = "planner",
        tolerance: float = 0.03,
        rng: int | Stream = 0,
        iterations: int | None = None,
        seconds: float | None = None,
        keep_tree: bool = False,
    ) -> None:
        expect(isinstance(planner, CMCTS), "a CMCTS planner, whose critic judges actions", type(planner).__name__)
        by_name, names = isinstance(fallback, str), ("planner", "least_cost")
        expect(not by_name or fallback in names, f"a fallback out of {names}, or a policy", fallback)
        expect(tolerance >= 0, "tolerance >= 0", tolerance)
        self.planner = planner = planner.tolerating(tolerance)
        self.interventions: list[Intervention] = []
        self.step = 0
        self._propose = as_policy(policy, "policy", planner.model.action_count)
        self._least_cost = fallback == "least_cost"
        self._second = None if by_name else as_policy(fallback, "fallback", planner.model.action_count)
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
        proposed = self._propose(state)
        budget = self._agent.arrive(state)
        # One simulation opens the root, where the critic judges every action. It draws what a plan would draw, so that
        # both judge alike where immediate costs are sampled.
        draws = self._agent.rng.copy()
        verdict = self.planner.plan(state, budget, iterations=1, rng=draws)
        reason, kind = verdict.reason(proposed), verdict.refusal(proposed)
        if kind is None:
            self._agent.rng[:] = draws
            self._agent.decision = verdict
            return self._agent.override(proposed).action
        decision = self._fall_back(state, verdict, draws)
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
                kind=kind,
                nothing_safe=decision.nothing_safe,
                assurance=decision.assurance,
            )
        )
        return decision.action

    def _fall_back(self, state: ArrayLike, verdict: Decision, draws: Stream) -> Decision:
        """What is done instead of the policy's action."""
        if self._second is None and not self._least_cost:
            return self._agent.act(state)
        action = verdict.least_cost_action if self._second is None else self._second(state)
        if self._second is not None and verdict.reason(action):
            return self._agent.act(state)
        self._agent.rng[:] = draws
        self._agent.decision = verdict
        return self._agent.override(action)

    def refusals(self) -> dict[Refusal, int]:
        """How often the policy was refused, by kind of reason."""
        return dict(Counter(entry.kind for entry in self.interventions))

    def observe(self, costs: ArrayLike) -> NDArray[np.float64]:
        """Take note of what the last action really cost; returns what is left."""
        self.step += 1
        return self._agent.observe(costs)

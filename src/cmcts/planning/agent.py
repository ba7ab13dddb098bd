"""The agent: a planner that remembers, from step to step of one episode, what is left of the budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmcts.devices import Device
from cmcts.errors import expect
from cmcts.planning.decision import Decision
from cmcts.planning.parallel import side_by_side
from cmcts.planning.planner import Planner
from cmcts.planning.together import expect_workers
from cmcts.random import Stream, stream


class Agent:
    """Carries budget, multipliers, random stream and, with `reuse_tree`, the tree through one episode.

    With `keep_tree` every decision holds the whole tree that it was found by. With `workers`, every decision is made by
    so many searches side by side, as in `Planner.plan`.

    An episode goes like this:

        agent = Agent(planner, budget=1.0, rng=seed, iterations=1024)
        decision = agent.act(state)
        ...take decision.action in the world...
        agent.observe(cost)
    """

    def __init__(
        self,
        planner: Planner,
        budget: ArrayLike,
        *,
        rng: int | Stream = 0,
        iterations: int | None = None,
        seconds: float | None = None,
        reuse_tree: bool = False,
        keep_tree: bool = False,
        workers: int = 1,
    ) -> None:
        expect_workers(planner, workers, keep_tree=keep_tree, reuse_tree=reuse_tree)
        self.planner = planner
        self.budget = planner.model.validate_costs(budget, "budget")
        planner.begin_with(self.budget)
        self.multipliers = planner.initial_multipliers()
        self.rng = stream(rng)
        self.iterations, self.seconds, self.keep_tree, self.workers = iterations, seconds, keep_tree, workers
        self.decision: Decision | None = None
        self._session = planner.session() if reuse_tree else None
        self._arriving = False  # what the next state adds to the budget is still to come

    def arrive(self, state: ArrayLike) -> NDArray[np.float64]:
        """Settle in `state` what is left of the budget, which `act` does as well.

        By expected accounting that is known only now: V(s') + (b - Q_C(s, a)) / gamma. So it is with Threshold UCT,
        which has handed each outcome its share.
        """
        if self._arriving:
            assert self.decision is not None
            share = self.planner.arrival_share(self.decision, state, self.rng)
            self.budget = np.maximum(self.planner.least_budget, self.budget + share)
            self._arriving = False
        return self.budget

    def act(self, state: ArrayLike) -> Decision:
        """Plan from `state` with what is left of the budget, and remember the decision until its cost is observed."""
        self.arrive(state)
        if self._session is None:
            decision = self.planner.plan(
                state,
                self.budget,
                iterations=self.iterations,
                seconds=self.seconds,
                rng=self.rng,
                multipliers=self.multipliers,
                keep_tree=self.keep_tree,
                workers=self.workers,
            )
        else:
            decision = self.planner.plan_in(
                self._session,
                self.planner.model.validate_state(state),
                self.budget,
                iterations=self.iterations,
                seconds=self.seconds,
                rng=self.rng,
                multipliers=self.multipliers,
                keep_tree=self.keep_tree,
                after=None if self.decision is None else self.decision.action,
            )
        self.decision = decision
        self.multipliers = decision.multipliers
        return decision

    def override(self, action: int) -> Decision:
        """Let something else decide: the last decision with another action, taken for sure."""
        expect(self.decision is not None, "a decision before it is overridden", None)
        assert self.decision is not None
        probabilities = np.zeros_like(self.decision.probabilities)
        probabilities[action] = 1.0
        self.decision = dataclasses.replace(self.decision, action=action, probabilities=probabilities)
        return self.decision

    def observe(self, costs: ArrayLike) -> NDArray[np.float64]:
        """Take note of what the last action really cost; returns what is left.

        By expected accounting, whatever it cost, (b - Q_C(s, a)) / gamma is left beyond what the next state needs.
        """
        paid = self.planner.model.validate_costs(costs, "costs")
        expect(self.decision is not None, "a decision before its costs are observed", None)
        assert self.decision is not None
        self._arriving = self.planner.settles_on_arrival
        self.multipliers = self.decision.multipliers * self.planner.price_growth
        self.budget = self.planner.next_budget(self.decision, paid, self.rng)
        return self.budget


def act_together(
    agents: Sequence[Agent], states: ArrayLike, threads: int | None = None, device: Device = "cpu"
) -> list[Decision]:
    """Let many agents decide at once, over all cores or on a GPU; the same decisions as one after the other."""
    rows = np.asarray(states)
    expect(len(rows) == len(agents), f"{len(agents)} states, one an agent", len(rows))
    decisions: dict[int, Decision] = {}
    for planner in {id(agent.planner): agent.planner for agent in agents}.values():
        mine = [index for index, agent in enumerate(agents) if agent.planner is planner]
        together = _act_together([agents[index] for index in mine], rows[mine], threads, device)
        decisions |= zip(mine, together, strict=True)
    return [decisions[index] for index in range(len(agents))]


def _act_together(
    agents: Sequence[Agent], rows: NDArray[np.float64], threads: int | None, device: Device
) -> list[Decision]:
    """The same for agents of one planner."""
    for agent, row in zip(agents, rows, strict=True):
        agent.arrive(row)  # here, not in a process that would keep it to itself
    # A tree that is reused cannot live in a process, and searches side by side have processes of their own.
    alone = any(agent._session is not None or agent.workers > 1 for agent in agents)
    alike = len({(agent.iterations, agent.seconds) for agent in agents}) == 1
    if device != "cpu" and alike and not alone:
        decisions = agents[0].planner.plan_batch(
            rows,
            np.concatenate([agent.budget for agent in agents]).reshape(len(agents), -1),
            iterations=agents[0].iterations,
            seconds=agents[0].seconds,
            rngs=[agent.rng for agent in agents],
            multipliers=np.concatenate([agent.multipliers for agent in agents]).reshape(len(agents), -1),
            threads=threads,
            device=device,
        )
    else:
        decisions = side_by_side(
            agents[0].planner,
            lambda index: agents[index].act(rows[index]),
            len(agents),
            threads,
            None if alone else [a.rng for a in agents],
        )
    for agent, decision in zip(agents, decisions, strict=True):
        agent.decision, agent.multipliers = decision, decision.multipliers
    return decisions

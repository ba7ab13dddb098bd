"""Decisions remembered while episodes are played: where states come up again and again, few of them are planned for.

A search is random, so in every situation a planner is a draw from a distribution over actions. Instead of planning
anew, a player may draw one of a number of plans that are made once, each from a stream of its own. On a problem of
eight states, hundreds of long episodes then cost as much as a few; where no state comes up twice, nothing changes but
the random numbers.

Which of the plans is drawn is up to the episode's own stream, and what a plan says follows from its number and the
situation alone: state, multipliers and, if the planner minds it, what is left of the budget. So neither threads nor the
order of episodes has a say. The random numbers of a plan are those of its number and state, so that the same problem in
other units of cost is played alike.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import uncompiled
from cmcts.devices import Device
from cmcts.errors import expect
from cmcts.planning.agent import Agent
from cmcts.planning.decision import Decision
from cmcts.random import Stream, below, stream

PLANS_A_STATE = 200  # that decisions are drawn from while policies are compared, where a state comes up more often
_below = uncompiled(below)


class Recall:
    """What planners decided in situations that were met before: at most `plans` decisions of each."""

    def __init__(self, plans: int, seed: int) -> None:
        expect(isinstance(plans, int) and plans >= 1, "plans >= 1", plans)
        self.plans, self.seed = plans, seed
        self._decisions: dict[tuple[int, bytes, int], Decision] = {}

    def act_together(
        self, agents: Sequence[Agent], states: NDArray[np.float64], threads: int | None = None, device: Device = "cpu"
    ) -> list[Decision]:
        """What `act_together` does, planning only for what nobody has planned for yet."""
        keys = []
        for agent, state in zip(agents, states, strict=True):
            left = agent.arrive(state)
            situation = state.tobytes() + agent.multipliers.tobytes()
            if agent.planner.minds_budget:
                situation += left.tobytes()
            with np.errstate(over="ignore"):  # unsigned arithmetic is meant to wrap
                keys.append((id(agent.planner), situation, int(_below(agent.rng, self.plans))))
        new = {key: index for index, key in reversed(list(enumerate(keys))) if key not in self._decisions}
        for planner in {id(agents[index].planner): agents[index].planner for index in new.values()}.values():
            mine = [(key, index) for key, index in new.items() if key[0] == id(planner)]
            chosen = [agents[index] for _, index in mine]
            planned = planner.plan_batch(
                states[[index for _, index in mine]],
                np.stack([agent.budget for agent in chosen]),
                iterations=chosen[0].iterations,
                seconds=chosen[0].seconds,
                rngs=[self._stream(states[index], key[2]) for key, index in mine],
                multipliers=np.stack([agent.multipliers for agent in chosen]),
                threads=threads,
                device=device,
            )
            self._decisions |= zip((key for key, _ in mine), planned, strict=True)
        decisions = [self._decisions[key] for key in keys]
        for agent, decision in zip(agents, decisions, strict=True):
            agent.decision, agent.multipliers = decision, decision.multipliers
        return decisions

    def _stream(self, state: NDArray[np.float64], number: int) -> Stream:
        words = int.from_bytes(hashlib.blake2b(state.tobytes(), digest_size=8).digest(), "little")
        return stream(np.random.SeedSequence((self.seed, words, number), spawn_key=(3,)))

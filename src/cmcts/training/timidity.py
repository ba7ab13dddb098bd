"""Timid critics, explained: which harmless moves a critic refuses, why, and what to change.

A move is *harmless* if it can be followed by so little spending that the budget is kept. Where the training world
follows a model whose states can be listed, that is known: the least expected cost-to-go of the move, by dynamic
programming, is at most what is left. Elsewhere it is what training has seen: near there, the move was taken often, it
never cost anything at once, and on average its episodes went on to spend no more than is left. That is a bound from
above, so moves are overlooked, but seldom called harmless when they are not. What was gathered says where the critic is
asked: in the states of its episodes, with what each had left there by what was paid.

The critic refuses for one of four reasons. Its ensemble disagrees ("sigma"), or the data is far off ("support"). Or it
is sure and predicts too much: because it sees the very same where the move is dear ("features"), or for all that can be
told because it sees nearly the same, or was fitted badly ("mean").

All of it is a function of the run folder: a run that is resumed explains itself in the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import python_function
from cmcts.critic.ensemble import SafetyCritic
from cmcts.errors import InvalidInput, shown
from cmcts.evaluation.episodes import Transitions
from cmcts.exact.finite import FiniteCMDP
from cmcts.exact.solver import least_cost_to_go
from cmcts.frontier.measuring import listed_world
from cmcts.model.interface import Model
from cmcts.search.pruning import ROUNDING, PruningSettings, lowered, refused
from cmcts.training.critics import Critics
from cmcts.training.dataset import monte_carlo_costs
from cmcts.training.gathering import Gathering
from cmcts.training.judging import pruning_of
from cmcts.training.selection import best_feasible
from cmcts.training.stages import TIMIDITY, Stages

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Reason = Literal["sigma", "support", "features", "mean"]

MOMENTS = 2000  # of the gathered ones, that the critic is asked about
TIMID = 0.1  # of the harmless moves; a critic that refuses fewer is not called timid
FEWEST = 20  # harmless moves, below which a share says nothing
SEEN = 30  # times that a move was taken near a state: by then a danger of a tenth has most often struck
EXAMPLES = 3

WHY: dict[Reason, str] = {
    "sigma": "the ensemble disagrees: more data (--walk-steps, --steps-per-multiplier) helps",
    "support": "training hardly tried them there: more data (--walk-steps, --steps-per-multiplier) helps",
    "features": "the features are the same as where these moves are dear: others are needed that tell them apart",
    "mean": (
        "it is sure and predicts too much: the features hardly tell these moves from dear ones, or the fit is poor; "
        "other features help, or --critic.steps"
    ),
}


class Moments(NamedTuple):
    """When a critic is asked: N states with what is left there, as the gathered episodes met them."""

    states: Floats  # [N, S]
    features: NDArray[np.float32]  # [N, F]
    left: Floats  # [N, M] of the budget


class Move(NamedTuple):
    """An action at one of the moments, and the least that it and what follows must cost, or a bound from above."""

    moment: int
    action: int
    cost: Floats  # [M]


@dataclass(frozen=True)
class Refusal:
    """A harmless move that the critic refuses."""

    state: tuple[float, ...]
    action: int
    constraint: int  # the first that it was refused by
    mean: float
    sigma: float  # of the ensemble
    left: float
    cost: float  # what it must cost at most
    reason: Reason
    twin: tuple[tuple[float, ...], float] | None = None  # a state with the same features, and what it costs there


@dataclass(frozen=True)
class Timidity:
    """How often a critic refuses what is harmless, why most often, and the moves that this befalls most often."""

    harmless: int  # moves, as often as they were met
    refused: int
    reason: Reason
    examples: tuple[Refusal, ...]

    @property
    def share(self) -> float:
        """Of the harmless moves, those that it refuses."""
        return self.refused / self.harmless

    def sentence(self, model: Model) -> str:
        """What it refuses, why, and what to change."""
        examples = "; ".join(_in_words(refusal, model) for refusal in self.examples)
        return (
            f"the critic is timid: it refuses {100 * self.share:.0f} % of the harmless moves that it was asked about, "
            f"such as {examples}. Mostly, {WHY[self.reason]}"
        )


def explain_timidity(
    stages: Stages,
    gathering: Gathering,
    critics: Critics,
    evaluations: Sequence[dict[str, Any]],
    best: dict[str, Any] | None,
) -> Timidity | None:
    """What is to be said of the best critic's timidity: the confirmed one's, or else of whichever was judged best."""
    judged = best or best_feasible(list(evaluations)) or min(evaluations, key=lambda row: row["cost_means"])
    task = replace(stages.task, search=stages.settings.search)  # the training's own discounts
    critic, discounts = critics.critic(judged["round"]), task.cost_discounts
    moments = gathered_moments(gathering, stages.budget, discounts, np.random.default_rng(stages.seed(TIMIDITY)))
    listed = listed_world(task)
    moves = seen_moves(moments, gathering, critic, discounts) if listed is None else known_moves(moments, listed)
    return timidity(critic, pruning_of(judged, stages.settings), moments, list(moves))


def gathered_moments(
    gathering: Gathering, budget: Floats, discounts: Sequence[float], dice: np.random.Generator
) -> Moments:
    """Some of the states that training met, as often as it met them, with what was left of the budget there."""
    left = np.concatenate([left_along(part, budget, discounts) for part in gathering.transitions])
    chosen = np.sort(dice.permutation(len(left))[:MOMENTS])
    states = np.concatenate([part.states for part in gathering.transitions])
    features = np.concatenate([batch.features for batch in gathering.batches])
    return Moments(states[chosen], features[chosen], left[chosen])


def left_along(steps: Transitions, budget: Floats, discounts: Sequence[float]) -> Floats:
    """[T, M] what was left before each step: b' = max(0, (b - c) / gamma), from the budget where an episode begins."""
    rows, factors, left = np.empty_like(steps.costs), np.array(discounts), budget
    for row in range(len(steps)):
        rows[row] = left
        left = budget if steps.last[row] else np.maximum(0.0, (left - steps.costs[row]) / factors)
    return rows


def known_moves(moments: Moments, world: FiniteCMDP) -> Iterator[Move]:
    """All legal moves where the world's states are listed; what it does not know is left out."""
    costs, ends = least_cost_to_go(world), np.append(world.first_pair, world.pair_count)
    for k, state in enumerate(moments.states):
        try:
            number = world.number(state)
        except InvalidInput:
            continue
        for pair in range(ends[number], ends[number + 1]):
            yield Move(k, int(world.pair_action[pair]), costs[pair])


def seen_moves(
    moments: Moments, gathering: Gathering, critic: SafetyCritic, discounts: Sequence[float]
) -> Iterator[Move]:
    """The harmless moves by what training has seen; near is whatever has the same nearest point of the support."""
    features = np.concatenate([batch.features for batch in gathering.batches])
    places, here = _places(features, moments.features, critic)
    actions = np.concatenate([part.actions for part in gathering.transitions])
    costs = np.concatenate([part.costs for part in gathering.transitions])
    returns = monte_carlo_costs(gathering.transitions, discounts)
    groups: dict[int, list[tuple[int, Floats]]] = {}  # actions and what their episodes spent on average, by place
    pairs, which, visits = np.unique(
        np.column_stack([places, actions]), axis=0, return_inverse=True, return_counts=True
    )
    which = which.reshape(-1)
    paid = np.zeros((len(pairs), costs.shape[1]))
    spent = np.zeros_like(paid)
    np.add.at(paid, which, costs)
    np.add.at(spent, which, returns)
    for pair in np.flatnonzero((visits >= SEEN) & (paid == 0.0).all(axis=1)):
        place, action = pairs[pair].tolist()
        groups.setdefault(place, []).append((action, spent[pair] / visits[pair]))
    for moment, place in enumerate(here.tolist()):
        for action, cost in groups.get(place, []):
            if is_harmless(move := Move(moment, action, cost), moments):  # else nothing is known: it is but a bound
                yield move


def is_harmless(move: Move, moments: Moments) -> bool:
    """Whether what is left pays for a move and all that must follow."""
    return bool((move.cost <= moments.left[move.moment] + ROUNDING).all())


def timidity(
    critic: SafetyCritic, pruning: PruningSettings, moments: Moments, moves: Sequence[Move]
) -> Timidity | None:
    """How often the critic refuses those of the moves that are harmless; None if seldom, or too few are."""
    harmless = [move for move in moves if is_harmless(move, moments)]
    if len(harmless) < FEWEST:
        return None
    asked = {move.moment: critic(moments.features[move.moment]) for move in harmless}
    doubts = np.zeros((len(moments.states), critic.action_count))
    if critic.support is not None:
        doubts = critic.support.doubts(moments.features)
    dearest = _dearest(moves, moments)
    refusals = []
    for move in harmless:
        mean, sigma = (numbers[move.action].astype(np.float64) for numbers in asked[move.moment])
        found = refusal_of(move, moments, mean, sigma, float(doubts[move.moment, move.action]), critic, pruning)
        if found is not None:
            refusals.append(_beside_its_twin(found, dearest[_seen_as(move, moments)], moments, critic, pruning))
    if not refusals or len(refusals) < TIMID * len(harmless):
        return None
    reason = Counter(refusal.reason for refusal in refusals).most_common(1)[0][0]
    typical = Counter((refusal.state, refusal.action) for refusal in refusals if refusal.reason == reason)
    examples = [
        next(refusal for refusal in refusals if (refusal.state, refusal.action) == pair and refusal.reason == reason)
        for pair, _ in typical.most_common(EXAMPLES)
    ]
    return Timidity(len(harmless), len(refusals), reason, tuple(examples))


def refusal_of(
    move: Move,
    moments: Moments,
    mean: Floats,
    sigma: Floats,
    doubt: float,
    critic: SafetyCritic,
    pruning: PruningSettings,
) -> Refusal | None:
    """How the critic refuses a move at the root of a search, by its own fault: the model's floor is not held to it."""
    rules = SimpleNamespace(
        sigma_max=pruning.sigma_max,
        tolerance=pruning.tolerance,
        expected_accounting=pruning.accounting == "expected",
        refuse_unsure=pruning.unsure == "refuse",
    )
    for m, scale in enumerate(critic.cost_scale):
        doubted, left = sigma[m] + doubt * scale, moments.left[move.moment, m]
        unsure = python_function(refused)(doubted, scale, rules)
        prediction = python_function(lowered)(mean[m], doubted, -np.inf, scale, rules)
        if unsure or prediction - left > ROUNDING * scale:
            far = unsure and sigma[m] <= rules.sigma_max * scale
            return Refusal(
                state=tuple(moments.states[move.moment].tolist()),
                action=move.action,
                constraint=m,
                mean=float(mean[m]),
                sigma=float(sigma[m]),
                left=float(left),
                cost=float(move.cost[m]),
                reason="support" if far else "sigma" if unsure else "mean",
            )
    return None


def _seen_as(move: Move, moments: Moments) -> tuple[bytes, int]:
    """What the critic sees of a move."""
    return moments.features[move.moment].tobytes(), move.action


def _dearest(moves: Sequence[Move], moments: Moments) -> dict[tuple[bytes, int], Move]:
    """Of the moves that look the same to the critic, the one that must cost most, in sum."""
    found: dict[tuple[bytes, int], Move] = {}
    for move in moves:
        seen = _seen_as(move, moments)
        if seen not in found or move.cost.sum() > found[seen].cost.sum():
            found[seen] = move
    return found


def _beside_its_twin(
    refusal: Refusal, twin: Move, moments: Moments, critic: SafetyCritic, pruning: PruningSettings
) -> Refusal:
    """The refusal, for the reason that the critic sees the same where the move is rightly refused, if it does."""
    cost, m = float(twin.cost[refusal.constraint]), refusal.constraint
    if refusal.reason != "mean" or cost - pruning.tolerance * critic.cost_scale[m] <= refusal.left:
        return refusal
    return replace(refusal, reason="features", twin=(tuple(moments.states[twin.moment].tolist()), cost))


def _places(
    features: NDArray[np.float32], others: NDArray[np.float32], critic: SafetyCritic
) -> tuple[Integers, Integers]:
    """The nearest point of the critic's support to each row, of both; without a support, equal rows share a place."""
    if critic.support is None:
        _, numbers = np.unique(np.concatenate([features, others]), axis=0, return_inverse=True)
        numbers = numbers.reshape(-1)
        return numbers[: len(features)], numbers[len(features) :]
    from scipy.spatial import cKDTree

    tree = cKDTree(critic.support.points / critic.support.spread)
    nearest = [tree.query(rows / critic.support.spread)[1] for rows in (features, others)]
    return nearest[0], nearest[1]


def _in_words(refusal: Refusal, model: Model) -> str:
    of = "" if model.cost_count == 1 else f" of {model.cost_name(refusal.constraint)}"
    twin = ""
    if refusal.twin is not None:
        twin = f", with the features of state {shown(refusal.twin[0])}, where it costs {refusal.twin[1]:.2f}"
    return (
        f"action {model.action_name(refusal.action)!r} in state {shown(refusal.state)}, where it predicts "
        f"{refusal.mean:.2f} ± {refusal.sigma:.2f}{of} with {refusal.left:.2f} left; truly at most {refusal.cost:.2f}"
        f"{twin}"
    )

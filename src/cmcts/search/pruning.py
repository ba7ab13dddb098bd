"""Pruning with the safety critic: lines 6 to 11 of Algorithm 1 (C-MCTS).

At the expansion of a leaf at depth t with state s_t, reached at the path cost
C_path = c(s_0, a_0) + gamma c(s_1, a_1) + ... + gamma^(t-1) c(s_(t-1), a_(t-1)), with gamma the cost's own discount:

    i.   critic outputs (mu, sigma) for all actions
    ii.  A_feasible = {a : sigma_a <= sigma_max}
    iii. Q(s_t, a) = mu_a for a in A_feasible
    v.   A_unsafe = {a in A_feasible : C_path + gamma^t Q(s_t, a) > c_hat}
    vi.  expand A \\ A_unsafe

With several constraints an action is unsafe if any of them says so. Four options depart from the paper, each of them
switched off by the settings in brackets:

* `tolerance` [0]: Q is lowered by this much before it is compared. The authors round Q to one decimal, a tolerance of
  about 0.05: without any, a first measurement that costs exactly the whole budget is pruned by the critic's noise.
  Predictions of at most FREE count as 0 whatever the tolerance: with nothing left, what is free must stay possible.
  (Not by expected accounting, where what is compared is also charged: many small risks would be taken for nothing.)
* `cost_floor` [False]: costs are never negative, so Q(s, a) >= E[c(s, a)], and the model knows the right-hand side. The
  floor holds for predictions that are unsure as well, where the paper keeps the action unseen.
* `unsure` ["floor"]: what a sigma above sigma_max means. "floor" is the paper's spirit: the prediction is ignored, and
  only the floor counts. That is right while data is gathered, where what is unknown must be tried to be known. "refuse"
  is for deployment: unknown is unsafe. What is charged by expected accounting is the floor either way.
* `fallback` ["lowest_mean"]: what to keep when every legal action is unsafe. The lowest mean trusts predictions that
  were just thrown away as unsure; "lowest_pessimistic" takes the lowest mean + sigma, floored, and what costs too much
  at once only if everything does.

`tolerance`, `sigma_max` and FREE are shares of a *cost scale*, one number a constraint that comes with the critic: the
same problem in other units is the same problem.

`accounting` says what C_path, and so what is left of the budget, is made of. "paid" is the paper's: what was really
paid. That keeps every single episode within the budget as long as no cost is larger than what is left. Where one can be
(a fall costs 1, the budget is 0.1), a danger is charged to those it strikes, who cannot pay, and survivors go on with
all they had. "expected" charges everybody for the risk that was taken. With V(s) = min_a Q(s, a), the step from s by a
to s' leaves

    b' = V(s') + (b - Q(s, a)) / gamma,

so that E[c + gamma b'] = b, by Q's own equation Q(s, a) = E[c + gamma V(s')]. Who takes only actions with Q(s, a) <= b
keeps b >= V(s) at every step, and if Q is right, the expected cost of it all is at most the budget. Here the tolerance
lowers Q and V alike, which grants it once, for the whole episode: b' may fall to V(s') - tolerance, and the expected
cost is at most the budget plus the tolerance. Were Q lowered and V not, it would be granted anew at every step; were
neither lowered where the budget is charged, what was admitted could not be paid for, and nothing would be safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from cmcts.compilation.content import entry_point
from cmcts.compilation.content import inner_kernel as kernel
from cmcts.errors import expect
from cmcts.search.faults import CRITIC, EXPECTED_COSTS, count_legal_actions, note_fault
from cmcts.search.tree import PRUNED, ROOT
from cmcts.search.workspace import remembered

Accounting = Literal["paid", "expected"]
ACCOUNTINGS: tuple[Accounting, ...] = get_args(Accounting)
LOWEST_MEAN, LOWEST_PESSIMISTIC = 0, 1
FREE = 0.02  # of the cost scale: no critic tells so little from nothing
CERTAIN = 1e6  # cost scales: to exceed the budget for sure, and at once, is worse than any doubt
ROUNDING = 1e-9  # of the cost scale: totals that equal the budget but for rounding are within it


@dataclass(frozen=True)
class PruningSettings:
    """What counts as unsafe, and what to do when everything is."""

    sigma_max: float = 0.5
    """Predictions whose standard deviation across the ensemble is a larger share of the cost scale are not trusted."""
    tolerance: float = 0.05
    """A trusted prediction is lowered by this share of the cost scale before it is compared with the budget; one of at
    most 0.02 is 0."""
    cost_floor: bool = True
    """Never predict less than the model's own expected immediate cost, trusted or not."""
    unsure: Literal["refuse", "floor"] = "refuse"
    """What becomes of an action whose prediction is not trusted: it is unsafe, or only its floor counts."""
    fallback: Literal["lowest_pessimistic", "lowest_mean"] = "lowest_pessimistic"
    """Which actions to keep when every one is unsafe."""
    accounting: Accounting = "paid"
    """What a step takes from the budget: what was really paid, or what the critic expected it to cost."""

    def __post_init__(self) -> None:
        expect(self.sigma_max >= 0 and not math.isnan(self.sigma_max), "sigma_max >= 0", self.sigma_max)
        expect(self.tolerance >= 0 and math.isfinite(self.tolerance), "tolerance >= 0 and finite", self.tolerance)
        expect(self.unsure in ("refuse", "floor"), 'unsure to be "refuse" or "floor"', self.unsure)
        fallbacks = ("lowest_pessimistic", "lowest_mean")
        expect(self.fallback in fallbacks, f"fallback to be one of {fallbacks}", self.fallback)
        expect(self.accounting in ACCOUNTINGS, f"accounting to be one of {ACCOUNTINGS}", self.accounting)

    @classmethod
    def paper(cls, sigma_max: float = 0.5) -> PruningSettings:
        """Algorithm 1 to the letter, with the authors' rounding and fallback."""
        return cls(sigma_max=sigma_max, tolerance=0.05, cost_floor=False, unsure="floor", fallback="lowest_mean")


@kernel
def immediate_costs(model, params, state, action, rules, rng, next_state, costs, out, fault):
    """E[c(s, a)] into `out`: what the model says, or the mean of a few sampled steps."""
    if rules.has_expected_costs:
        model.expected_costs(params, state, action, out)
    else:
        for m in range(out.shape[0]):
            out[m] = 0.0
        for _ in range(rules.cost_samples):
            model.step(params, state, action, rng, next_state, costs)
            for m in range(out.shape[0]):
                out[m] += costs[m] / rules.cost_samples
    for m in range(out.shape[0]):
        if not 0.0 <= out[m] < math.inf:
            note_fault(EXPECTED_COSTS, state, action, 0.0, out, fault)
            out[m] = math.inf


@kernel
def lowered(mean, sigma, floor, cost_scale, rules):
    """The prediction that is compared with the budget: the floor alone if the ensemble is unsure.

    By expected accounting the floor is lowered as well, because what is compared is also what is charged. What is not
    finite is unsafe: an infinite prediction exceeds every budget.
    """
    if not (math.isfinite(mean) and math.isfinite(sigma)):
        return math.inf
    sure = sigma <= rules.sigma_max * cost_scale
    tolerance, free = rules.tolerance * cost_scale, FREE * cost_scale
    if rules.expected_accounting:
        believed = max(floor, 0.0)
        return (max(mean, believed) if sure else believed) - tolerance
    if not sure:
        return floor
    return max(mean - (max(tolerance, free) if mean <= free else tolerance), floor)


@kernel
def refused(sigma, cost_scale, rules):
    """Whether an action is unsafe for no other reason than that the ensemble is unsure."""
    return rules.refuse_unsure and sigma > rules.sigma_max * cost_scale


@kernel
def doubt_root(tree, work):
    """Raise sigma of the root's actions by what is known of them from outside the ensemble, in `work.doubt`."""
    constraints = work.costs.shape[0]
    for action in range(work.doubt.shape[0]):
        for m in range(constraints):
            tree.critic_sigma[ROOT, action * constraints + m] += np.float32(work.doubt[action] * work.cost_scale[m])


@entry_point  # not inlined: it is large, and needed in several places
def find_floors(model, params, state, count, rules, work, rng):
    """The least that each of the `count` legal actions in `work.legal` can be predicted to cost, into `work.floors`."""
    constraints = work.costs.shape[0]
    for k in range(count):
        action = work.legal[k]
        if rules.cost_floor:
            immediate_costs(
                model, params, state, action, rules, rng, work.sample_state, work.costs, work.floor, work.fault
            )
        for m in range(constraints):
            work.floors[action * constraints + m] = work.floor[m] if rules.cost_floor else -math.inf


@entry_point
def charge_expected(tree, node, count, rules, work):
    """C_path of `node` by expected accounting: C_path(s') = C_path(s) + gamma^t (Q(s, a) - gamma V(s')).

    The critic's rows of `node`, its `count` legal actions in `work.legal` and their floors are filled. The root has
    spent nothing: what it has left was settled before the search.
    """
    constraints = work.path_costs.shape[0]
    for m in range(constraints):
        work.least[m] = math.inf
    for k in range(count):
        for m in range(constraints):
            column = work.legal[k] * constraints + m
            mean, sigma = np.float64(tree.critic_mean[node, column]), np.float64(tree.critic_sigma[node, column])
            charge = lowered(mean, sigma, work.floors[column], work.cost_scale[m], rules)
            tree.charges[node, column] = charge
            work.least[m] = min(work.least[m], charge)
    if node != ROOT:
        settle(tree, tree.parent[node], tree.parent_action[node], work)
        for m in range(constraints):
            tree.path_costs[node, m] = work.path_costs[m]


@kernel
def settle(tree, parent, action, work):
    """C_path of a state that `action` led to from `parent`, and whose V is in `work.least`, into `work.path_costs`."""
    constraints = work.path_costs.shape[0]
    depth = tree.depth[parent]
    for m in range(constraints):
        before, now = work.cost_discounts[depth, m], work.cost_discounts[depth + 1, m]
        expected = tree.charges[parent, action * constraints + m]
        work.path_costs[m] = tree.path_costs[parent, m] + before * expected - now * work.least[m]


@entry_point
def least_charges(model, params, critic, critic_params, state, rules, work, rng):
    """V(s) of a state that is not in the tree, as expected accounting has it, into `work.least`."""
    constraints = work.costs.shape[0]
    slot = remembered(model, params, critic, critic_params, state, work)
    count = count_legal_actions(model, params, state, work)
    find_floors(model, params, state, count, rules, work, rng)
    for m in range(constraints):
        work.least[m] = math.inf
        for k in range(count):
            column = work.legal[k] * constraints + m
            mean, sigma = np.float64(work.memo.mean[slot, column]), np.float64(work.memo.sigma[slot, column])
            charge = lowered(mean, sigma, work.floors[column], work.cost_scale[m], rules)
            if charge == math.inf:
                note_fault(CRITIC, state, work.legal[k], mean, work.costs, work.fault)
            work.least[m] = min(work.least[m], charge)


@kernel
def prune(tree, node, count, budget, rules, work):
    """Mark the unsafe ones among the `count` legal actions in `work.legal`.

    The critic's rows of `node` and the floors of its actions are filled.
    """
    constraints = budget.shape[0]
    depth = tree.depth[node]
    kept = 0
    best = math.inf
    for k in range(count):
        action = work.legal[k]
        pruned_by = 0
        worst, certain = -math.inf, False
        for m in range(constraints):
            column, scale = action * constraints + m, work.cost_discounts[depth, m]
            mean, sigma = np.float64(tree.critic_mean[node, column]), np.float64(tree.critic_sigma[node, column])
            floor, left = work.floors[column], budget[m] - tree.path_costs[node, m]
            prediction = lowered(mean, sigma, floor, work.cost_scale[m], rules)
            if prediction == math.inf:
                note_fault(CRITIC, tree.states[node], action, mean, work.costs, work.fault)
            too_dear = scale * prediction - left > ROUNDING * work.cost_scale[m]
            if too_dear or refused(sigma, work.cost_scale[m], rules):
                pruned_by |= 1 << m
            if rules.fallback == LOWEST_PESSIMISTIC:
                mean = max(mean + sigma, floor)
                certain = certain or scale * floor - left > ROUNDING * work.cost_scale[m]
            worst = max(worst, (scale * mean - left) / work.cost_scale[m])
        if certain:
            worst += CERTAIN
        tree.pruned_by[node, action] = pruned_by
        work.overrun[action] = worst
        best = min(best, worst)
        if pruned_by == 0:
            kept += 1
    tree.nothing_safe[node] = kept == 0
    for k in range(count):
        action = work.legal[k]
        if tree.pruned_by[node, action] > 0 and (kept > 0 or work.overrun[action] > best):
            tree.action_visits[node, action] = PRUNED


@entry_point
def reprune(model, params, tree, budget, rules, work, rng):
    """Judge every expanded node anew, under the root's new budget, after the tree was re-rooted."""
    for node in range(tree.count[0]):
        if not tree.expanded[node]:
            continue
        count = count_legal_actions(model, params, tree.states[node], work)
        for k in range(count):
            if tree.action_visits[node, work.legal[k]] == PRUNED:
                tree.action_visits[node, work.legal[k]] = np.int32(0)
        find_floors(model, params, tree.states[node], count, rules, work, rng)
        prune(tree, node, count, budget, rules, work)

"""The search again, slow and obvious: objects and dictionaries, one node an object, no arrays of anything.

It is written from Algorithm 1 and the planners' description, and draws from the same random stream in the same order,
so that the compiled search must equal it exactly: same nodes in the same order, same floats.
"""

from __future__ import annotations

import math

import numpy as np

from cmcts.compilation.content import uncompiled
from cmcts.random import below, next_uint64, stratify

ROUNDING = 1e-9


class Action:
    """What a node knows about one of its legal actions."""

    def __init__(self, constraints):
        self.visits = 0
        self.reward_value = 0.0
        self.cost_values = [0.0] * constraints
        self.outcomes = []  # child nodes, the newest first
        self.judged_by = []  # the constraints that found the action unsafe
        self.floor = None  # the least that it can be predicted to cost, for each constraint
        self.closed = False  # unsafe, and not kept by the fallback


class Node:
    def __init__(self, state, depth, terminal, reward, costs, path_costs, number=0):
        self.number = number  # how many nodes were made before it
        self.state = state
        self.depth = depth
        self.terminal = terminal
        self.reward = reward
        self.costs = costs
        self.path_costs = path_costs
        self.visits = 0
        self.returns = []  # penalised, in the order in which they were seen
        self.actions = {}  # in the order in which the model lists them; empty until the node is expanded
        self.mean = self.sigma = None
        self.nothing_safe = False


class NaiveSearch:
    """One search of `model` under `rules`, begun at `state`. `run` may be called again to go on."""

    def __init__(
        self, model, critic, rules, cost_discounts, state, budget, multipliers, rng, max_nodes=math.inf, values=None
    ):
        self.model, self.critic, self.rules, self.values = model, critic, rules, values
        self.cost_discounts = [float(d) for d in cost_discounts]
        self.budget = [float(b) for b in budget]
        self.multipliers = [float(m) for m in multipliers]
        self.rng = rng
        self.max_nodes = max_nodes
        self.iteration = 0
        self.constraints = range(model.cost_count)
        zero = [0.0] * model.cost_count
        self.root = Node(tuple(float(x) for x in state), 0, False, 0.0, zero, zero)
        self.nodes = [self.root]
        with np.errstate(over="ignore"):
            self.salt = uncompiled(next_uint64)(rng) if rules.stratified else None

    def run(self, iterations):
        with np.errstate(over="ignore"):
            for _ in range(iterations):
                self.simulate()
                if self.rules.tune_multipliers:
                    self.tune()
                self.iteration += 1

    # The model, through plain values.

    def powers(self, t):
        """gamma^t of each cost."""
        values = [1.0] * self.model.cost_count
        for _ in range(t):
            values = [value * discount for value, discount in zip(values, self.cost_discounts, strict=True)]
        return values

    def below(self, n):
        return int(uncompiled(below)(self.rng, n))

    def step(self, state, action):
        next_state, costs = np.zeros(self.model.state_size), np.zeros(self.model.cost_count)
        reward, terminal = self.model.uncompiled.step(
            self.model.params, np.array(state), action, self.rng, next_state, costs
        )
        return tuple(next_state.tolist()), float(reward), bool(terminal), costs.tolist()

    def legal(self, state):
        out = np.zeros(self.model.action_count, np.int64)
        count = self.model.uncompiled.legal_actions(self.model.params, np.array(state), out)
        return out[:count].tolist()

    def expected_costs(self, state, action):
        """What the model says a step costs, or the mean of a few tries."""
        if self.rules.has_expected_costs:
            out = np.zeros(self.model.cost_count)
            self.model.uncompiled.expected_costs(self.model.params, np.array(state), action, out)
            return out.tolist()
        mean = [0.0] * self.model.cost_count
        for _ in range(self.rules.cost_samples):
            _, _, _, costs = self.step(state, action)
            mean = [total + cost / self.rules.cost_samples for total, cost in zip(mean, costs, strict=True)]
        return mean

    def predict(self, state):
        """Mean and sigma of the critic, as float64 lists [A][M]."""
        features = np.zeros(self.model.feature_count, np.float32)
        self.model.uncompiled.features(self.model.params, np.array(state), features)
        mean, sigma = self.critic(features)
        return mean.tolist(), sigma.tolist()

    # One simulation.

    def simulate(self):
        path, leaf, state, depth, terminal, path_costs = self.select()
        if leaf is not None:
            leaf.visits += 1
            if not terminal and depth < self.rules.horizon:
                self.expand(leaf)
                path_costs = leaf.path_costs  # the expansion may have charged what was expected instead
        elif self.rules.use_critic and self.rules.expected_accounting and not terminal and depth < self.rules.horizon:
            node, number, _, _ = path[-1]
            path_costs = self.settled(node, number, self.needs(state))
        value, costs, rollouts = 0.0, [0.0] * self.model.cost_count, self.rules.rollouts
        if not terminal and self.rules.leaf_values:
            value, costs, unsure = self.leaf_value(state, depth)
            if unsure:
                value, costs, rollouts = value / 2, [cost / 2 for cost in costs], 2 * rollouts
        if not terminal and (not self.rules.leaf_values or unsure):
            for _ in range(self.rules.rollouts):
                total, spent = self.rollout(state, depth, path_costs)
                value += total / rollouts
                costs = [cost + s / rollouts for cost, s in zip(costs, spent, strict=True)]
        if leaf is not None:
            leaf.returns.append(self.after_paying(value, costs, depth))
        self.backup(path, value, costs)

    def leaf_value(self, state, depth):
        """Reward and costs to go as the leaf values say, and whether their members disagree too much."""
        features = np.zeros(self.model.feature_count, np.float32)
        self.model.uncompiled.features(self.model.params, np.array(state), features)
        units = self.values.price_units
        known = [math.log1p(price / unit) for price, unit in zip(self.multipliers, units, strict=True)]
        mean, sigma = self.values.network(np.concatenate([features, np.array(known, np.float32)]))
        mean, sigma = mean.ravel().tolist(), sigma.ravel().tolist()
        doubt = sigma[0]
        for price, unsure in zip(self.multipliers, sigma[1:], strict=True):
            doubt += price * unsure
        costs = [max(0.0, cost) for cost in mean[1:]]
        return mean[0], costs, doubt > self.values.doubt and depth < self.rules.horizon

    def select(self):
        """Down to a node without actions. Returns the path as (node, action, reward, costs) and the leaf."""
        node, path = self.root, []
        state, terminal, path_costs = node.state, node.terminal, [0.0] * self.model.cost_count
        while node is not None and node.actions and len(path) < self.rules.horizon:
            number = self.choose(node)
            action = node.actions[number]
            if self.is_full(action):
                child = self.known_outcome(action)
                state, reward, terminal, costs = child.state, child.reward, child.terminal, child.costs
            else:
                kept = self.rng[0]
                if self.rules.stratified:
                    series = node.number * self.model.action_count + number
                    uncompiled(stratify)(self.rng, self.salt, series, action.visits)
                state, reward, terminal, costs = self.step(node.state, number)
                if self.rules.stratified:
                    self.rng[0] = kept
                same = (other for other in action.outcomes if (other.state, other.terminal) == (state, terminal))
                child = next(same, None)
            discounts = self.powers(len(path))
            path_costs = [path_costs[m] + discounts[m] * costs[m] for m in self.constraints]
            path.append((node, number, reward, costs))
            if child is None and len(self.nodes) < self.max_nodes:
                child = Node(state, len(path), terminal, reward, costs, path_costs, len(self.nodes))
                action.outcomes.insert(0, child)
                self.nodes.append(child)
            node = child
        return path, node, state, len(path), terminal, path_costs

    def choose(self, node):
        """UCT on the penalised value, after every open action has been tried once, in random order."""
        open_ = {number: action for number, action in sorted(node.actions.items()) if not action.closed}
        untried = [number for number, action in open_.items() if action.visits == 0]
        if untried:
            return untried[self.below(len(untried))]
        if self.rules.relative_exploration:
            width, growth = self.rules.exploration * self.spread(node.returns), math.sqrt(node.visits + 1.0)
        else:
            width, growth = self.rules.exploration, math.log(node.visits + 1.0)
        scores = {
            number: self.penalised(action, node.depth) + width * math.sqrt(growth / action.visits)
            for number, action in open_.items()
        }
        return max(scores, key=scores.get)  # the first of equals

    def penalised(self, action, depth=0):
        return self.after_paying(action.reward_value, action.cost_values, depth)

    def after_paying(self, value, costs, depth):
        """At the prices of so many steps ahead: a reward and a cost may fade apart on the way."""
        for m in self.constraints:
            growth = 1.0
            for _ in range(depth):
                growth *= self.cost_discounts[m] / self.rules.discount
            value -= self.multipliers[m] * growth * costs[m]
        return value

    def spread(self, returns):
        """Standard deviation by Welford's sums: in another order it would differ in the last bit."""
        mean = squares = 0.0
        for count, value in enumerate(returns, start=1):
            gap = value - mean
            mean += gap / count
            squares += gap * (value - mean)
        return math.sqrt(squares / len(returns)) if squares > 0.0 else 1.0

    def is_full(self, action):
        limit = self.rules.widening_factor * max(action.visits, 1) ** self.rules.widening_power
        return self.rules.widening_factor > 0.0 and 0 < len(action.outcomes) >= limit

    def known_outcome(self, action):
        pick = self.below(sum(child.visits for child in action.outcomes))
        for child in action.outcomes:
            if pick < child.visits:
                return child
            pick -= child.visits
        raise AssertionError("visits changed while they were summed")

    def expand(self, node):
        for number in self.legal(node.state):
            node.actions[number] = Action(self.model.cost_count)
        if self.rules.use_critic:
            node.mean, node.sigma = self.predict(node.state)
            for number, action in node.actions.items():
                action.floor = self.floor(node.state, number)
            if self.rules.expected_accounting and node is not self.root:
                parent, number = next(
                    (other, number)
                    for other in self.nodes
                    for number, action in other.actions.items()
                    if node in action.outcomes
                )
                needs = [min(self.prediction(node, other, m) for other in node.actions) for m in self.constraints]
                node.path_costs = self.settled(parent, number, needs)
            self.prune(node)

    def floor(self, state, number):
        """What the model itself expects a step to cost, if that is to be minded."""
        return self.expected_costs(state, number) if self.rules.cost_floor else [-math.inf] * self.model.cost_count

    def needs(self, state):
        """The least that must still be charged from a state that is not in the tree."""
        mean, sigma = self.predict(state)
        legal = self.legal(state)
        floors = {number: self.floor(state, number) for number in legal}
        return [
            min(self.lowered(mean[number][m], sigma[number][m], floors[number][m], m) for number in legal)
            for m in self.constraints
        ]

    def settled(self, parent, number, needs):
        """What is left by expected accounting: V(s') + (b - Q(s, a)) / gamma, as a path cost seen from the root."""
        return [
            parent.path_costs[m]
            + self.powers(parent.depth)[m] * self.prediction(parent, number, m)
            - self.powers(parent.depth + 1)[m] * needs[m]
            for m in self.constraints
        ]

    def prediction(self, node, number, m):
        """What is compared with the budget."""
        return self.lowered(node.mean[number][m], node.sigma[number][m], node.actions[number].floor[m], m)

    def lowered(self, mean, sigma, floor, m):
        """By the tolerance; what is hardly above zero is free, and what is unsure is not believed."""
        scale = self.critic.cost_scale[m]
        tolerance, free = self.rules.tolerance * scale, 0.02 * scale
        sure = sigma <= self.rules.sigma_max * scale
        if self.rules.expected_accounting:  # the tolerance is granted once, so it is taken from the floor as well
            return max([0.0, floor, *([mean] if sure else [])]) - tolerance
        if not sure:
            return floor
        return max(mean - max(tolerance, free) if mean <= free else mean - tolerance, floor)

    def unknown(self, sigma, m):
        """What the critic is unsure of, where that is not allowed."""
        return self.rules.refuse_unsure and sigma > self.rules.sigma_max * self.critic.cost_scale[m]

    def prune(self, node):
        """Algorithm 1, lines 6 to 11, with the options of `PruningSettings`."""
        discounts = self.powers(node.depth)
        overruns = {}
        for number, action in node.actions.items():
            action.judged_by = []
            overruns[number], certain = -math.inf, False
            for m in self.constraints:
                scale, left = self.critic.cost_scale[m], self.budget[m] - node.path_costs[m]
                if self.unknown(node.sigma[number][m], m) or (
                    discounts[m] * self.prediction(node, number, m) - left > ROUNDING * scale
                ):
                    action.judged_by.append(m)
                guess = node.mean[number][m]
                if self.rules.fallback == 1:
                    guess = max(guess + node.sigma[number][m], action.floor[m])
                    certain = certain or discounts[m] * action.floor[m] - left > ROUNDING * scale
                overruns[number] = max(overruns[number], (discounts[m] * guess - left) / scale)
            overruns[number] += 1e6 if certain else 0.0
        node.nothing_safe = all(action.judged_by for action in node.actions.values())
        least = min(overruns.values())
        for number, action in node.actions.items():
            kept_anyway = node.nothing_safe and overruns[number] == least
            action.closed = bool(action.judged_by) and not kept_anyway

    def rollout(self, state, leaf_depth, path_costs):
        """Reward and costs of playing on, discounted to the leaf."""
        total, scale, spent = 0.0, 1.0, [0.0] * self.model.cost_count
        for time in range(self.rules.horizon - leaf_depth):
            scales = self.powers(time)
            action = self.rollout_action(state, leaf_depth, path_costs, scales, spent)
            state, reward, terminal, costs = self.step(state, action)
            total += scale * reward
            spent = [spent[m] + scales[m] * costs[m] for m in self.constraints]
            if terminal:
                break
            scale *= self.rules.discount
        return total, spent

    def rollout_action(self, state, leaf_depth, path_costs, scales, spent, budget=None):
        """With a budget of its own it is thrifty, whatever the rules say."""
        thrifty, budget = self.rules.thrifty_rollout or budget is not None, self.budget if budget is None else budget
        mean, sigma = self.predict(state) if self.rules.guarded_rollout else (None, None)

        def overrun(action):
            if not thrifty:
                return -math.inf
            expected = self.expected_costs(state, action)
            if self.rules.guarded_rollout:
                expected = [self.lowered(mean[action][m], sigma[action][m], expected[m], m) for m in self.constraints]
            before = self.powers(leaf_depth)
            totals = (path_costs[m] + before[m] * (spent[m] + scales[m] * expected[m]) for m in self.constraints)
            limits = zip(totals, budget, self.critic.cost_scale, strict=True)
            doubts = (
                sigma[action][m] / self.critic.cost_scale[m]
                for m in self.constraints
                if self.rules.guarded_rollout and self.unknown(sigma[action][m], m)
            )
            return max((total - limit) / unit for total, limit, unit in [*limits, *((d, 0.0, 1.0) for d in doubts)])

        best, least = None, math.inf
        if self.rules.own_rollout:
            best = int(self.model.uncompiled.rollout_action(self.model.params, np.array(state), self.rng))
            least = overrun(best)
            if least <= ROUNDING:
                return best
        candidates = self.legal(state)
        while candidates:
            pick = self.below(len(candidates))
            over = overrun(candidates[pick])
            if over <= ROUNDING:
                return candidates[pick]
            if over < least - ROUNDING:
                best, least = candidates[pick], over
            candidates[pick] = candidates[-1]
            candidates.pop()
        return best

    def backup(self, path, value, costs):
        for node, number, reward, step_costs in reversed(path):
            action = node.actions[number]
            node.visits += 1
            action.visits += 1
            value = reward + self.rules.discount * value
            costs = [step_costs[m] + self.cost_discounts[m] * costs[m] for m in self.constraints]
            action.reward_value += (value - action.reward_value) / action.visits
            for m in self.constraints:
                action.cost_values[m] += (costs[m] - action.cost_values[m]) / action.visits
            node.returns.append(self.after_paying(value, costs, node.depth))

    def tune(self):
        """CC-MCP: lambda goes along the greedy root action's cost gap, by a step whose largest part is 1 / (i + 1)."""
        tried = {number: action for number, action in sorted(self.root.actions.items()) if action.visits > 0}
        if not tried:
            return
        greedy = max(tried.values(), key=self.penalised)
        scales = self.critic.cost_scale
        gaps = [(greedy.cost_values[m] - self.budget[m]) / scales[m] for m in self.constraints]
        largest = max(map(abs, gaps))
        for m in self.constraints if largest > 0 else ():
            unit = self.rules.reward_scale
            moved = self.multipliers[m] * scales[m] / unit + gaps[m] / largest / (self.iteration + 1.0)
            self.multipliers[m] = min(self.rules.multiplier_max, max(0.0, moved)) / scales[m] * unit

    # What `tests/test_search.py` compares.

    def summary(self):
        """Every node in order of age, as plain values."""
        numbers = {id(node): index for index, node in enumerate(self.nodes)}
        return [
            {
                "state": node.state,
                "depth": node.depth,
                "terminal": node.terminal,
                "visits": node.visits,
                "reward": node.reward,
                "costs": tuple(node.costs),
                "path_costs": tuple(node.path_costs),
                "nothing_safe": node.nothing_safe,
                "actions": {
                    number: {
                        "visits": action.visits,
                        "closed": action.closed,
                        "judged_by": action.judged_by,
                        "reward_value": action.reward_value,
                        "cost_values": tuple(action.cost_values),
                        "outcomes": tuple(numbers[id(child)] for child in action.outcomes),
                    }
                    for number, action in sorted(node.actions.items())
                },
                "mean": node.mean,
                "sigma": node.sigma,
            }
            for node in self.nodes
        ]


def tree_summary(tree, model, use_critic):
    """The same of a compiled search's tree."""
    constraints = model.cost_count
    nodes = []
    for node in range(int(tree.count[0])):
        actions = {}
        for action in range(model.action_count) if tree.expanded[node] else ():
            visits = int(tree.action_visits[node, action])
            if visits == -1:
                continue
            outcomes, child = [], int(tree.first_child[node, action])
            while child != -1:
                assert (tree.parent[child], tree.parent_action[child]) == (node, action)
                outcomes.append(child)
                child = int(tree.next_sibling[child])
            judged = int(tree.pruned_by[node, action]) if use_critic else 0
            columns = slice(action * constraints, (action + 1) * constraints)
            actions[action] = {
                "visits": max(visits, 0),
                "closed": visits == -2,
                "judged_by": [m for m in range(constraints) if judged >> m & 1],
                "reward_value": float(tree.reward_values[node, action]),
                "cost_values": tuple(tree.cost_values[node, columns].tolist()),
                "outcomes": tuple(outcomes),
            }
        predicted = use_critic and bool(tree.expanded[node])
        shape = (model.action_count, constraints)
        nodes.append(
            {
                "state": tuple(tree.states[node].tolist()),
                "depth": int(tree.depth[node]),
                "terminal": bool(tree.terminal[node]),
                "visits": int(tree.visits[node]),
                "reward": float(tree.reward[node]),
                "costs": tuple(tree.costs[node].tolist()),
                "path_costs": tuple(tree.path_costs[node].tolist()),
                "nothing_safe": bool(tree.nothing_safe[node]),
                "actions": actions,
                "mean": tree.critic_mean[node].reshape(shape).tolist() if predicted else None,
                "sigma": tree.critic_sigma[node].reshape(shape).tolist() if predicted else None,
            }
        )
    return nodes

"""Threshold UCT again, slow and obvious: curves are lists of points, and every merge looks at all of them.

It draws from the same random stream in the same order and adds in the same order as the compiled search, which must
equal it exactly: same nodes, same curves, same floats.
"""

from __future__ import annotations

import itertools
import math

from cmcts.compilation.content import uncompiled
from cmcts.random import stratify, uniform
from naive import NaiveSearch

ALIKE = 1e-9


def slope(left, right):
    return (right[1] - left[1]) / (right[0] - left[0])


def better(before, after):
    return after - before > ALIKE * max(abs(before), abs(after))


class Curve:
    """Points (cost, reward, label), made from left to right."""

    def __init__(self, limit):
        self.limit, self.points = limit, []

    def add(self, cost, reward, label):
        points = self.points
        if points and not better(points[-1][1], reward):
            return
        if points and cost <= points[-1][0]:
            points.pop()
        if len(points) > 1 and slope(points[-2], points[-1]) <= slope(points[-1], (cost, reward)) * (1.0 + ALIKE):
            points.pop()
        points.append((cost, reward, label))
        if len(points) > self.limit:
            triangles = {}
            for k in range(1, len(points) - 1):
                (a, b, _), (c, d, _), (e, f, _) = points[k - 1 : k + 2]
                triangles[k] = (d - b) * (e - a) - (c - a) * (f - b)
            del points[min(triangles, key=triangles.get)]


def hull(curves, limit):
    """The best of labelled curves {label: [(cost, reward), ...]}, by looking at every point from every vertex."""
    points = [(cost, reward, label) for label, curve in curves.items() for cost, reward in curve]
    made = Curve(limit)
    if not points:
        return made.points
    here = min(points, key=lambda point: (point[0], -point[1]))
    while here is not None:
        made.add(*here)
        ahead = [point for point in points if point[0] > here[0] and better(here[1], point[1])]
        here = max(ahead, key=lambda point, here=here: slope(here, point), default=None)
    return made.points


def in_order_of_slope(outcomes):
    """(number of the outcome, its segment) of weighted curves, always the steepest of the segments that come next."""
    rest = [list(itertools.pairwise(curve)) for _, curve in outcomes]
    while any(rest):
        slopes = [slope(*segments[0]) if segments else 0.0 for segments in rest]
        steepest = slopes.index(max(slopes))
        yield steepest, rest[steepest].pop(0)


class NaiveThresholdSearch(NaiveSearch):
    """One search, with curves in place of penalised values."""

    def __init__(self, model, critic, rules, cost_discounts, state, budget, rng, caution, max_nodes, vertices):
        super().__init__(model, critic, rules, cost_discounts, state, budget, [0.0], rng, max_nodes)
        self.caution, self.vertices = caution, vertices
        self.cost_scale = critic.cost_scale[0]
        self.begin_curves(self.root)

    def begin_curves(self, node):
        node.curve, node.costs_seen, node.frugal_costs = [], [], []
        node.rollouts = []  # the curve that its own rollouts made
        node.steps = []  # (reward, cost) of the steps that led here
        node.action_curves = {}  # by number, of the actions that have an outcome in the tree

    def simulate(self):
        path, leaf, state, depth, terminal, path_costs = self.descend()
        if leaf is not None:
            leaf.visits += 1
            if not terminal and depth < self.rules.horizon:
                self.expand(leaf)
                if self.rules.guarded_rollout:
                    leaf.floors = self.floors(leaf)
        value, cost = 0.0, 0.0
        frugal_value, frugal_cost = 0.0, 0.0
        for _ in range(0 if terminal else self.rules.rollouts):
            total, spent = self.rollout(state, depth, path_costs)
            value += total / self.rules.rollouts
            cost += spent[0] / self.rules.rollouts
            total, spent = self.frugal_rollout(state, depth, path_costs)
            frugal_value += total / self.rules.rollouts
            frugal_cost += spent / self.rules.rollouts
        if leaf is not None:
            leaf.returns.append(value)
            leaf.costs_seen.append(cost)
            leaf.frugal_costs.append(frugal_cost)
            made = Curve(self.vertices)
            # Of equal costs the frugal one comes first.
            for point in sorted([(frugal_cost, frugal_value, None), (cost, value, None)], key=lambda point: point[0]):
                made.add(*point)
            leaf.curve = leaf.rollouts = [(c, r) for c, r, _ in made.points]
        self.climb(path, leaf, value, cost, frugal_cost)

    def floors(self, node):
        """What the critic expects of each action at the least."""
        mean, sigma = self.predict(node.state)
        immediate = {number: self.floor(node.state, number)[0] for number in node.actions}
        return {n: self.lowered(mean[n][0], sigma[n][0], floor, 0) for n, floor in immediate.items()}

    def frugal_rollout(self, state, leaf_depth, path_costs):
        """Reward and cost of always taking what costs least."""
        total, scale, spent = 0.0, 1.0, 0.0
        for time in range(self.rules.horizon - leaf_depth):
            scales = self.powers(time)
            action = self.rollout_action(state, leaf_depth, path_costs, scales, [spent], budget=path_costs)
            expected = self.expected_costs(state, action) if self.rules.has_expected_costs else None
            state, reward, terminal, costs = self.step(state, action)
            spent += scales[0] * (expected or costs)[0]
            total += scale * reward
            if terminal:
                break
            scale *= self.rules.discount
        return total, spent

    def descend(self):
        """Down to a node without actions, with a threshold; one step is `NaiveSearch.select`'s."""
        node, path, threshold = self.root, [], self.budget[0]
        state, terminal, path_costs = node.state, node.terminal, [0.0]
        while node is not None and node.actions and len(path) < self.rules.horizon:
            number, limit = self.action_at(node, threshold)
            state, reward, terminal, costs, child = self.sample(node, number)
            path_costs = [path_costs[0] + self.powers(len(path))[0] * costs[0]]
            path.append((node, number, reward, costs[0]))
            if child is not None and child.actions:
                threshold = self.thresholds(node, number, limit)[id(child)]
            if child is None and len(self.nodes) < self.max_nodes:
                child = type(self.root)(state, len(path), terminal, reward, costs, path_costs, len(self.nodes))
                self.begin_curves(child)
                node.actions[number].outcomes.insert(0, child)
                self.nodes.append(child)
            node = child
        return path, node, state, len(path), terminal, path_costs

    def sample(self, node, number):
        action = node.actions[number]
        if self.is_full(action):
            child = self.known_outcome(action)
            return child.state, child.reward, child.terminal, child.costs, child
        kept = self.rng[0]
        if self.rules.stratified:
            series = node.number * self.model.action_count + number
            uncompiled(stratify)(self.rng, self.salt, series, action.visits)
        state, reward, terminal, costs = self.step(node.state, number)
        if self.rules.stratified:
            self.rng[0] = kept
        same = (other for other in action.outcomes if (other.state, other.terminal) == (state, terminal))
        return state, reward, terminal, costs, next(same, None)

    def action_at(self, node, threshold):
        untried = [number for number, action in sorted(node.actions.items()) if action.visits == 0]
        if untried:
            return untried[self.below(len(untried))], threshold
        if self.rules.relative_exploration:
            up, left = (self.rules.exploration * self.spread(seen) for seen in (node.returns, node.costs_seen))
            growth = math.sqrt(node.visits + 1.0)
        else:
            up, left = self.rules.exploration, self.rules.exploration / self.rules.reward_scale * self.cost_scale
            growth = math.log(node.visits + 1.0)
        moved = {}
        for number, curve in sorted(node.action_curves.items()):
            width = math.sqrt(growth / node.actions[number].visits)
            moved[number] = [(max(0.0, cost - left * width), reward + up * width) for cost, reward in curve]
        points = hull(moved, self.vertices)
        if not points:
            legal = sorted(node.actions)
            return legal[self.below(len(legal))], threshold
        dearer = [k for k, point in enumerate(points) if point[0] > threshold]
        if not dearer or dearer[0] == 0:
            return points[0 if dearer else -1][2], threshold
        low, high = points[dearer[0] - 1], points[dearer[0]]
        chance = (threshold - low[0]) / (high[0] - low[0])
        if low[2] == high[2] or chance == 0.0:
            return low[2], threshold
        drawn = high if uncompiled(uniform)(self.rng) < chance else low
        return drawn[2], drawn[0]

    def outcomes(self, node, number):
        """Weighted curves of an action's outcomes, and what they come to at the least."""
        action, gamma = node.actions[number], self.cost_discounts[0]
        weighted = [(child.visits / action.visits, child) for child in action.outcomes]
        cost = reward = 0.0
        for weight, child in weighted:
            step_reward, step_cost = self.mean_step(child)
            if self.rules.has_expected_costs:
                step_cost = self.expected_costs(node.state, number)[0]
            cost += weight * (step_cost + gamma * child.curve[0][0])
            reward += weight * (step_reward + self.rules.discount * child.curve[0][1])
        missing = action.visits - sum(child.visits for child in action.outcomes)
        if missing:
            cost += missing / action.visits * action.cost_values[0]
            reward += missing / action.visits * action.reward_value
        if self.rules.guarded_rollout:
            cost = max(cost, node.floors[number])
        return weighted, cost, reward

    def thresholds(self, node, number, limit):
        """What each outcome of an action has left, by its identity, if the action may cost `limit`."""
        gamma = self.cost_discounts[0]
        weighted, cost, _ = self.outcomes(node, number)
        shares = [child.curve[0][0] for _, child in weighted]
        spare = limit - cost
        for n, (begin, end) in in_order_of_slope([(weight, child.curve) for weight, child in weighted]):
            price = weighted[n][0] * gamma * (end[0] - begin[0])
            if spare <= 0.0:
                break
            if price > spare:
                shares[n] += (end[0] - begin[0]) * (spare / price)
                spare = 0.0
            else:
                shares[n] = end[0]
                spare -= price
        return {id(child): share + spare / gamma for (_, child), share in zip(weighted, shares, strict=True)}

    def climb(self, path, child, value, cost, frugal_cost):
        for node, number, reward, paid in reversed(path):
            action = node.actions[number]
            node.visits += 1
            action.visits += 1
            value = reward + self.rules.discount * value
            cost = paid + self.cost_discounts[0] * cost
            frugal_cost *= self.cost_discounts[0]
            action.reward_value += (value - action.reward_value) / action.visits
            action.cost_values[0] += (cost - action.cost_values[0]) / action.visits
            if child is not None:
                child.steps.append((reward, paid))
            if action.outcomes:
                node.action_curves[number] = self.action_curve(node, number)
            node.returns.append(value)
            node.costs_seen.append(cost)
            node.frugal_costs.append(frugal_cost)
            doubt = self.caution * math.sqrt(variance(node.returns))
            dearer = self.caution * math.sqrt(variance(node.frugal_costs))
            lowered = {None: [(c + dearer, r - doubt) for c, r in node.rollouts]}
            if node is self.root or all(other.visits for other in node.actions.values()):
                del lowered[None]
            for n, curve in sorted(node.action_curves.items()):
                width = math.sqrt(1.0 / node.actions[n].visits)
                lowered[n] = [(c + dearer * width, r - doubt * width) for c, r in curve]
            points = hull(lowered, self.vertices)
            node.curve = [(c, r) for c, r, _ in points] or [self.mean_point(node)]
            node.beginnings = [number for _, _, number in points]
            child = node

    def action_curve(self, node, number):
        weighted, cost, reward = self.outcomes(node, number)
        made = Curve(self.vertices)
        made.add(cost, reward, None)
        for n, (begin, end) in in_order_of_slope([(weight, child.curve) for weight, child in weighted]):
            cost += weighted[n][0] * self.cost_discounts[0] * (end[0] - begin[0])
            reward += weighted[n][0] * self.rules.discount * (end[1] - begin[1])
            made.add(cost, reward, None)
        return [(c, r) for c, r, _ in made.points]

    def mean_point(self, node):
        return running_mean(node.costs_seen), running_mean(node.returns)

    def mean_step(self, child):
        rewards, costs = zip(*child.steps, strict=True)
        return running_mean(rewards), running_mean(costs)

    def curve_summary(self):
        """Every node's curve and those of its actions, in order of age."""
        return [(node.curve, dict(sorted(node.action_curves.items()))) for node in self.nodes]


def variance(values):
    """The mean squared distance from the mean, updated value by value."""
    mean = squares = 0.0
    for count, value in enumerate(values, start=1):
        gap = value - mean
        mean += gap / count
        squares += gap * (value - mean)
    return squares / len(values)


def running_mean(values):
    """A mean that is updated value by value: summed up first it would differ in the last bit."""
    mean = 0.0
    for count, value in enumerate(values, start=1):
        mean += (value - mean) / count
    return mean


def curve_tree_summary(tree, curved, model):
    """The same of a compiled search."""

    def points(table, row):
        size = int(table.sizes[row])
        return list(zip(table.costs[row, :size].tolist(), table.rewards[row, :size].tolist(), strict=True))

    summary = []
    for node in range(int(tree.count[0])):
        edges = {}
        for action in range(model.action_count) if tree.expanded[node] else ():
            row = int(curved.edge_rows[node, action])
            if tree.action_visits[node, action] > 0 and row != -1:
                edges[action] = points(curved.edges, row)
        summary.append((points(curved.nodes, node), edges))
    return summary

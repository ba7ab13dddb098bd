"""Small models whose every number is in a table, and critics made by hand."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from cmcts.critic.ensemble import SafetyCritic, ensemble
from cmcts.critic.values import LeafValues
from cmcts.model.interface import Model
from cmcts.random import uniform

COLUMNS = 3  # state number s is written as (s // COLUMNS, s % COLUMNS)


class TableParams(NamedTuple):
    """K outcomes of each state and action."""

    next_states: np.ndarray  # int64 [S, A, K]
    cumulative: np.ndarray  # float64 [S, A, K] cumulative probabilities; the last is 1
    rewards: np.ndarray  # float64 [S, A, K]
    costs: np.ndarray  # float64 [S, A, K, M]
    legal: np.ndarray  # bool [S, A]
    terminal: np.ndarray  # bool [S]


def index(state):
    return int(state[0]) * 3 + int(state[1])


def step(params, state, action, rng, next_state, costs):
    here = int(state[0]) * 3 + int(state[1])
    draw = uniform(rng)
    outcome = 0
    while draw >= params.cumulative[here, action, outcome]:
        outcome += 1
    there = params.next_states[here, action, outcome]
    next_state[0] = there // 3
    next_state[1] = there % 3
    for m in range(costs.shape[0]):
        costs[m] = params.costs[here, action, outcome, m]
    return params.rewards[here, action, outcome], params.terminal[there]


def legal_actions(params, state, out):
    here = int(state[0]) * 3 + int(state[1])
    count = 0
    for action in range(params.legal.shape[1]):
        if params.legal[here, action]:
            out[count] = action
            count += 1
    return count


def features(params, state, out):
    here = int(state[0]) * 3 + int(state[1])
    for k in range(out.shape[0]):
        out[k] = 1.0 if k == here else 0.0


def start(params, rng, state):
    state[0] = 0.0
    state[1] = 0.0


def rollout_action(params, state, rng):
    """Mostly the first legal action, sometimes the last."""
    here = int(state[0]) * 3 + int(state[1])
    first, last = -1, 0
    for action in range(params.legal.shape[1]):
        if params.legal[here, action]:
            last = action
            if first < 0:
                first = action
    return first if uniform(rng) < 0.75 else last


def expected_costs(params, state, action, out):
    here = int(state[0]) * 3 + int(state[1])
    for m in range(out.shape[0]):
        out[m] = 0.0
        before = 0.0
        for k in range(params.cumulative.shape[2]):
            out[m] += (params.cumulative[here, action, k] - before) * params.costs[here, action, k, m]
            before = params.cumulative[here, action, k]


def table_model(params: TableParams) -> Model:
    states, actions, _, constraints = params.costs.shape
    return Model(
        name="table",
        params=params,
        step=step,
        legal_actions=legal_actions,
        features=features,
        start=start,
        rollout_action=rollout_action,
        expected_costs=expected_costs,
        state_size=2,
        action_count=actions,
        feature_count=states,
        cost_count=constraints,
        episodes_end=True,
    )


def random_table(seed, *, states=6, actions=3, outcomes=2, constraints=1, terminal=1, end=0.0) -> TableParams:
    """A random model. State 0 is the start, the last `terminal` states end; `end` is the least chance to get there."""
    rng = np.random.default_rng(seed)
    next_states = rng.integers(0, states, (states, actions, outcomes))
    probabilities = rng.dirichlet(np.ones(outcomes), (states, actions))
    if end > 0.0:
        next_states[:, :, -1] = states - 1
        probabilities *= 1.0 - end
        probabilities[:, :, -1] += end
    cumulative = np.cumsum(probabilities, axis=2)
    cumulative[:, :, -1] = 1.0
    legal = rng.random((states, actions)) < 0.8
    legal[np.arange(states), rng.integers(0, actions, states)] = True
    return TableParams(
        next_states=next_states,
        cumulative=cumulative,
        rewards=rng.normal(size=(states, actions, outcomes)).round(3),
        costs=(rng.random((states, actions, outcomes, constraints)) * (rng.random((states, actions, 1, 1)) < 0.6)),
        legal=legal,
        terminal=np.arange(states) >= states - terminal,
    )


def linear_critic(model: Model, mean, sigma=0.0) -> SafetyCritic:
    """An ensemble of two that predicts mean +- sigma, [F, A, M] or [A, M] each, from one-hot or any other features."""
    shape = (model.feature_count, model.action_count * model.cost_count)

    def table(values):
        values = np.asarray(values, np.float64)
        per_state = values if values.ndim == 3 else np.broadcast_to(values, (1, model.action_count, model.cost_count))
        return np.broadcast_to(per_state.reshape(len(per_state), -1), shape)

    if np.ndim(mean) == 3 or np.ndim(sigma) == 3:
        weights = np.stack([table(mean) - table(sigma), table(mean) + table(sigma)])
        biases = np.zeros((2, shape[1]))
    else:
        weights = np.zeros((2, *shape))
        biases = np.stack([table(mean)[0] - table(sigma)[0], table(mean)[0] + table(sigma)[0]])
    return ensemble([weights], [biases], model.cost_count)


def random_ensemble(model: Model, seed, hidden=(5, 7), members=3, scale=1.0, offset=0.0) -> SafetyCritic:
    """Perceptrons with random weights."""
    rng = np.random.default_rng(seed)
    sizes = [model.feature_count, *hidden, model.action_count * model.cost_count]
    weights = [rng.normal(size=(members, a, b)) * np.sqrt(2.0 / a) for a, b in itertools.pairwise(sizes)]
    biases = [rng.normal(size=(members, b)) * 0.1 for b in sizes[1:]]
    weights[-1] *= scale
    biases[-1] = biases[-1] * scale + offset
    return ensemble(weights, biases, model.cost_count)


def random_values(model: Model, seed, hidden=(5, 7), members=3, scale=1.0, doubt=np.inf) -> LeafValues:
    """Leaf values with random weights, whose prices are known in units of a half."""
    rng = np.random.default_rng(seed)
    sizes = [model.feature_count + model.cost_count, *hidden, 1 + model.cost_count]
    layers = [
        (rng.normal(size=(members, a, b)) * np.sqrt(2.0 / a), rng.normal(size=(members, b)) * 0.1)
        for a, b in itertools.pairwise(sizes)
    ]
    layers[-1] = (layers[-1][0] * scale, layers[-1][1] * scale)
    layers = tuple((weights.astype(np.float32), biases.astype(np.float32)) for weights, biases in layers)
    return LeafValues(layers, (0.5,) * model.cost_count, doubt)


class LookupParams(NamedTuple):
    mean: np.ndarray  # float32 [F, A*M]
    sigma: np.ndarray  # float32 [F, A*M]


def lookup(params, features, scratch, mean, sigma):
    """A critic that is no perceptron: the row of the largest feature."""
    row = 0
    for k in range(features.shape[0]):
        if features[k] > features[row]:
            row = k
    for j in range(mean.shape[0]):
        mean[j] = params.mean[row, j]
        sigma[j] = params.sigma[row, j]


def lookup_critic(model: Model, mean, sigma) -> SafetyCritic:
    """mean and sigma [F, A*M]. Where it is sure of all, an ensemble says the same, and is compiled for anyway."""
    if not np.any(sigma):
        return linear_critic(model, np.reshape(mean, (model.feature_count, model.action_count, model.cost_count)))
    params = LookupParams(np.asarray(mean, np.float32), np.asarray(sigma, np.float32))
    return SafetyCritic(lookup, params, model.feature_count, model.action_count, model.cost_count)


def climb_step(params, state, action, rng, next_state, costs):
    """Climb a ledge (0), with a chance of 0.2 to fall, which costs 1 and ends it; or leave (1)."""
    next_state[0], costs[0] = state[0], 0.0
    if action == 1:
        return 0.0, True
    if uniform(rng) < 0.2:
        costs[0] = 1.0
        return 0.0, True
    next_state[0] = state[0] + 1.0
    return 1.0, next_state[0] >= 4


def climb_actions(params, state, out):
    out[0], out[1] = 0, 1
    return 2


def climb_features(params, state, out):
    for k in range(4):
        out[k] = 1.0 if k == state[0] else 0.0


def climb_start(params, rng, state):
    state[0] = 0.0


def climb_model() -> Model:
    """Four ledges, each a chance of 0.2 to fall: the least cost-to-go is 0.2 for climbing and 0 for leaving."""
    return Model(
        "climb",
        None,
        climb_step,
        climb_actions,
        climb_features,
        climb_start,
        state_size=1,
        action_count=2,
        feature_count=4,
    )

"""Temporal differences by hand, and the critic against exactly known costs-to-go."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

from cmcts.critic.ensemble import ensemble as kernel_ensemble  # noqa: E402
from cmcts.training import learning  # noqa: E402
from cmcts.training.learning import (  # noqa: E402
    Batch,
    CriticSettings,
    batch_targets,
    export,
    feasible_value,
    fit,
    forward,
    initial_ensemble,
    make_optimiser,
    predictions,
    td_loss,
    td_target,
)

GAMMA = 0.9


def test_td_target_has_no_bootstrap_at_terminal_steps():
    costs, value = jnp.array([[1.0], [0.5]]), jnp.array([[2.0], [2.0]])
    targets = td_target(costs, jnp.array([1.0, 0.0]), value, [GAMMA])
    assert targets[:, 0].tolist() == pytest.approx([2.8, 0.5])


def test_feasible_value_is_the_pessimistic_minimum_over_legal_actions():
    # Two members, one row, three actions: means 1, 2, 0.5; standard deviations 0, 1, 0.5.
    values = jnp.array([[1.0, 1.0, 0.0], [1.0, 3.0, 1.0]]).reshape(2, 1, 3, 1)
    every = jnp.array([[True, True, True]])
    assert feasible_value(values, every, 0.0).item() == pytest.approx(0.5)
    assert feasible_value(values, every, 1.0).item() == pytest.approx(1.0)
    assert feasible_value(values, jnp.array([[False, True, False]]), 1.0).item() == pytest.approx(3.0)
    assert feasible_value(values - 5.0, every, 0.0).item() == 0.0  # costs are never negative


def linear_ensemble(weight, bias):
    """One member, no hidden layer: Q(s, a) = W_a x + b_a."""
    model = initial_ensemble((2, 2), 1, jax.random.key(0))
    import equinox as eqx

    layer = eqx.tree_at(lambda m: (m.weight, m.bias), model.layers[0], (jnp.array([weight]), jnp.array([bias])))
    return eqx.tree_at(lambda m: m.layers, model, (layer,))


def one_row(**changes):
    row = {
        "features": [[[1.0, 2.0]]],
        "actions": [[1]],
        "costs": [[[0.5]]],
        "next_features": [[[3.0, 1.0]]],
        "next_actions": [[0]],
        "next_legal": [[[True, True]]],
        "continues": [[1.0]],
    }
    return Batch(**{name: jnp.array(value) for name, value in (row | changes).items()})


def test_sarsa_and_feasible_targets_by_hand():
    network = linear_ensemble([[0.2, 0.1], [0.1, -0.1]], [0.0, 0.3])
    # Q(s', 0) = 0.6 + 0.1 = 0.7 and Q(s', 1) = 0.3 - 0.1 + 0.3 = 0.5
    assert batch_targets(network, one_row(), [GAMMA], "sarsa", 0.0).item() == pytest.approx(0.5 + 0.9 * 0.7)
    assert batch_targets(network, one_row(), [GAMMA], "feasible", 1.0).item() == pytest.approx(0.5 + 0.9 * 0.5)
    only_first = one_row(next_legal=[[[True, False]]])
    assert batch_targets(network, only_first, [GAMMA], "feasible", 1.0).item() == pytest.approx(0.5 + 0.9 * 0.7)
    last = one_row(continues=[[0.0]])
    assert batch_targets(network, last, [GAMMA], "sarsa", 0.0).item() == pytest.approx(0.5)


def test_gradient_and_one_optimiser_step_by_hand():
    import equinox as eqx

    network = linear_ensemble([[0.2, 0.1], [0.1, -0.1]], [0.0, 0.3])
    # Q(s, 1) = 0.1 - 0.2 + 0.3 = 0.2, target 1: loss 0.64, dL/dQ = -1.6, dL/dW_1 = -1.6 (1, 2), dL/db_1 = -1.6
    loss, gradient = eqx.filter_value_and_grad(td_loss)(network, one_row(), jnp.array([[[1.0]]]))
    assert loss.item() == pytest.approx(0.64, rel=1e-5)
    assert gradient.layers[0].weight[0].tolist() == [pytest.approx([0.0, 0.0]), pytest.approx([-1.6, -3.2], rel=1e-5)]
    assert gradient.layers[0].bias[0].tolist() == pytest.approx([0.0, -1.6], rel=1e-5)
    # Adam's first step is rate * g / (|g| + 1e-8): the rate itself, against the gradient's sign.
    optimiser = make_optimiser(0.01, 100)
    change, _ = optimiser.update(gradient, optimiser.init(eqx.filter(network, eqx.is_array)))
    stepped = eqx.apply_updates(network, change)
    assert stepped.layers[0].weight[0].tolist() == [pytest.approx([0.2, 0.1]), pytest.approx([0.11, -0.09], rel=1e-4)]
    assert stepped.layers[0].bias[0].tolist() == pytest.approx([0.0, 0.31], rel=1e-4)


@pytest.mark.parametrize("hidden", [(), (7,), (64, 64), (5, 33, 18)])
def test_planner_kernel_equals_the_jax_forward_pass(hidden):
    sizes = (6, *hidden, 8)
    members = initial_ensemble(sizes, 5, jax.random.key(3))
    features = np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32)
    values = np.asarray(predictions(members, jnp.asarray(features), 2))  # [E, B, A, M]
    arrays = export(members)
    np.testing.assert_allclose(forward(arrays, features, 2), values, atol=1e-5)
    critic = kernel_ensemble([w for w, _ in arrays], [b for _, b in arrays], cost_count=2)
    for row in range(len(features)):
        mean, sigma = critic(features[row])
        np.testing.assert_allclose(mean, values[:, row].mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(sigma, values[:, row].std(axis=0), atol=1e-5)


def chain_data():
    """A finite problem with known costs-to-go: three states, two actions, one-hot features, discount 0.9.

    state 0: action 0 costs 1 and leads to 1; action 1 costs 0.2 and leads to 2
    state 1: action 0 costs 0 and ends; action 1 costs 0.5 and ends
    state 2: action 0 costs 2 and ends; action 1 costs 0 and leads back to 0

    The data takes every action equally often, and is followed by action 1 in state 1 and by action 0 elsewhere.
    """
    eye = np.eye(3, dtype=np.float32)
    rows = [
        # state, action, cost, next state, next action, continues
        (0, 0, 1.0, 1, 1, 1.0),
        (0, 1, 0.2, 2, 0, 1.0),
        (1, 0, 0.0, 1, 0, 0.0),
        (1, 1, 0.5, 1, 0, 0.0),
        (2, 0, 2.0, 2, 0, 0.0),
        (2, 1, 0.0, 0, 0, 1.0),
    ]
    repeated = rows * 20
    columns = list(zip(*repeated, strict=True))
    return Batch(
        features=eye[list(columns[0])],
        actions=np.array(columns[1], np.int32),
        costs=np.array(columns[2], np.float32)[:, None],
        next_features=eye[list(columns[3])],
        next_actions=np.array(columns[4], np.int32),
        next_legal=np.ones((len(repeated), 2), np.bool_),
        continues=np.array(columns[5], np.float32),
    )


# Least cost-to-go: V(1) = 0, Q(0, 0) = 1, V(2) = min(2, 0.9 V(0)), Q(0, 1) = 0.2 + 0.9 V(2); so V(0) = 1,
# V(2) = 0.9 and Q(0, 1) = 1.01. What the data's policy spends: Q(0, 0) = 1 + 0.9 * 0.5, Q(0, 1) = 0.2 + 0.9 * 2 and
# Q(2, 1) = 0.9 * 1.45.
EXACT = {
    "feasible": [[1.0, 1.01], [0.0, 0.5], [2.0, 0.9]],
    "sarsa": [[1.45, 2.0], [0.0, 0.5], [2.0, 1.305]],
}


@pytest.mark.parametrize("target", ["feasible", "sarsa"])
def test_critic_learns_exact_costs_to_go(target):
    settings = CriticSettings(target=target, hidden=(32,), steps=3000, batch=32, learning_rate=3e-3)
    arrays, loss = fit(chain_data(), settings, 2, [GAMMA], seed=0)
    learned = forward(arrays, np.eye(3, dtype=np.float32), 1)[..., 0].mean(axis=0)
    np.testing.assert_allclose(learned, EXACT[target], atol=0.05)
    assert loss < 1e-2


def test_fit_follows_from_the_seed():
    settings = CriticSettings(hidden=(8,), steps=50, batch=16)
    first, _ = fit(chain_data(), settings, 2, [GAMMA], seed=5)
    again, _ = fit(chain_data(), settings, 2, [GAMMA], seed=5)
    other, _ = fit(chain_data(), settings, 2, [GAMMA], seed=6)
    for (weights, _), (same, _), (different, _) in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(weights, same)
        assert (weights != different).any()


def test_a_fit_on_more_data_is_not_traced_again(monkeypatch):
    """Data grows from round to round; until the padding doubles, the compiled update serves."""
    traces = []
    original = learning.make_optimiser
    monkeypatch.setattr(learning, "make_optimiser", lambda *settings: traces.append(settings) or original(*settings))
    settings = CriticSettings(members=2, hidden=(3,), steps=5, batch=4)
    for rows in (70, 90, 128):
        rng = np.random.default_rng(rows)
        features = rng.random((rows, 4), np.float32)
        batch = Batch(
            features=features,
            actions=rng.integers(0, 2, rows).astype(np.int32),
            costs=rng.random((rows, 1), np.float32),
            next_features=features,
            next_actions=np.zeros(rows, np.int32),
            next_legal=np.ones((rows, 2), np.bool_),
            continues=np.ones(rows, np.float32),
        )
        fit(batch, settings, 2, [0.9], seed=0)
    assert len(traces) == 3 + 1, "each fit makes an optimiser, and the update was traced once"

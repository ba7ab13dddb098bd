"""The exported ensemble against a plain NumPy forward pass, and what is refused as a critic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmcts.critic.ensemble import SafetyCritic, ensemble, immediate_costs_only, predict_ensemble
from cmcts.envs.rocksample.model import rocksample_model
from cmcts.errors import InvalidInput
from cmcts.planning.planners import CMCTS
from models import linear_critic, lookup_critic, random_ensemble, random_table, table_model


def layers(rng, sizes, members):
    weights = [rng.normal(size=(members, a, b)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]
    biases = [rng.normal(size=(members, b)) for b in sizes[1:]]
    return weights, biases


def forward(weights, biases, features):
    """Mean and sigma in float64."""
    outputs = []
    for member in range(len(weights[0])):
        x = features
        for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            x = x @ weight[member] + bias[member]
            if depth < len(weights) - 1:
                x = np.maximum(x, 0.0)
        outputs.append(x)
    return np.mean(outputs, axis=0), np.std(outputs, axis=0)


@settings(max_examples=60)
@given(
    features=st.integers(1, 11),
    hidden=st.lists(st.integers(1, 40), max_size=3),
    actions=st.integers(1, 6),
    constraints=st.integers(1, 3),
    members=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
def test_the_ensemble_equals_a_numpy_forward_pass(features, hidden, actions, constraints, members, seed):
    rng = np.random.default_rng(seed)
    weights, biases = layers(rng, [features, *hidden, actions * constraints], members)
    x = rng.normal(size=features)
    critic = ensemble(weights, biases, constraints)
    assert (critic.feature_count, critic.action_count, critic.cost_count) == (features, actions, constraints)
    mean, sigma = critic(x)
    expected_mean, expected_sigma = forward(weights, biases, x)
    assert mean.shape == sigma.shape == (actions, constraints)
    np.testing.assert_allclose(mean.ravel(), expected_mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sigma.ravel(), expected_sigma, rtol=1e-5, atol=1e-5)


def test_sigma_survives_a_large_mean():
    """Sums of squares in float32 would lose a spread of 0.1 around 1000."""
    critic = ensemble([np.zeros((2, 3, 1))], [np.array([[999.9], [1000.1]])])
    mean, sigma = critic(np.zeros(3))
    assert mean[0, 0] == pytest.approx(1000.0, rel=1e-6)
    assert sigma[0, 0] == pytest.approx(0.1, rel=1e-3)


def test_the_search_sees_what_the_critic_says():
    model = table_model(random_table(2, actions=4, constraints=2))
    critic = random_ensemble(model, 7, hidden=(13, 5), members=4)
    state = np.array([0.0, 0.0])
    mean, sigma = critic(model.feature_vector(state))
    decision = CMCTS(model, critic).plan(state, [1.0, 1.0], iterations=3)
    assert decision.critic_mean.tolist() == mean.astype(np.float64).tolist()
    assert decision.critic_sigma.tolist() == sigma.astype(np.float64).tolist()


def test_a_critic_may_be_any_function():
    model = table_model(random_table(2, actions=2, constraints=2))
    table = np.arange(24).reshape(6, 4)
    mean, sigma = lookup_critic(model, table, table / 10)(np.eye(6)[3])
    assert mean.tolist() == [[12.0, 13.0], [14.0, 15.0]]
    np.testing.assert_allclose(sigma, [[1.2, 1.3], [1.4, 1.5]], rtol=1e-6)


def test_linear_critic_of_the_tests_says_what_it_was_told():
    model = table_model(random_table(2, actions=2))
    mean, sigma = linear_critic(model, [[0.5], [1.5]], [[0.25], [0.0]])(np.eye(6)[0])
    assert mean.ravel().tolist() == [0.5, 1.5]
    assert sigma.ravel().tolist() == [0.25, 0.0]


def test_nothing_learned_is_zero_and_sure():
    model = rocksample_model(5, 7)
    mean, sigma = immediate_costs_only(model)(model.feature_vector(model.start_state()))
    assert mean.shape == (12, 1)
    assert not mean.any()
    assert not sigma.any()


def arrays(members=2, features=3, hidden=4, outputs=6):
    return (
        [np.ones((members, features, hidden)), np.ones((members, hidden, outputs))],
        [np.ones((members, hidden)), np.ones((members, outputs))],
    )


def bad(change):
    weights, biases = arrays()
    change(weights, biases)
    return weights, biases


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, b: b.pop(), r"expected as many bias as weight arrays, at least one, got \(2, 1\)"),
        (lambda w, b: (w.clear(), b.clear()), r"expected as many bias as weight arrays, at least one, got \(0, 0\)"),
        (
            lambda w, b: w.__setitem__(1, np.ones((2, 5, 6))),
            r"expected weights of layer 1 with shape \(2, 4, 6\), got \(2, 5, 6\)",
        ),
        (
            lambda w, b: w.__setitem__(1, np.ones((3, 4, 6))),
            r"expected weights of layer 1 with shape \(2, 4, 6\), got \(3, 4, 6\)",
        ),
        (
            lambda w, b: b.__setitem__(0, np.ones((2, 5))),
            r"expected biases of layer 0 with shape \(2, 4\), got \(2, 5\)",
        ),
        (
            lambda w, b: w.__setitem__(0, np.ones((3, 4))),
            r"expected weights of layer 0 with shape \(members, inputs, outputs\), got \(3, 4\)",
        ),
        (
            lambda w, b: w.__setitem__(0, np.ones((0, 3, 4))),
            r"expected an ensemble of at least one member, got 0",
        ),
        (
            lambda w, b: w[1].__setitem__((1, 2, 3), np.nan),
            "expected finite weights in layer 1 of the critic, got 'NaN or infinity'",
        ),
        (
            lambda w, b: b[0].__setitem__((1, 2), np.inf),
            "expected finite weights in layer 0 of the critic, got 'NaN or infinity'",
        ),
        (
            lambda w, b: w[0].__setitem__((0, 0, 0), 1e300),
            "expected finite weights in layer 0 of the critic, got 'NaN or infinity'",
        ),
    ],
)
def test_bad_ensembles_are_refused(change, message):
    with pytest.raises(InvalidInput, match=f"^{message}$"):
        ensemble(*bad(change))


def test_outputs_must_be_shared_evenly_among_constraints():
    with pytest.raises(InvalidInput, match=r"^expected outputs in multiples of 4 constraints, got 6$"):
        ensemble(*arrays(), cost_count=4)


def test_features_of_another_length_are_refused():
    critic = ensemble(*arrays())
    with pytest.raises(InvalidInput, match=r"^expected features of shape \(3,\), got \(4,\)$"):
        critic(np.zeros(4))


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((15, 12, 1), "feature_count 16 for model 'rocksample', got one with 15"),
        ((16, 13, 1), "action_count 12 for model 'rocksample', got one with 13"),
        ((16, 12, 2), "cost_count 1 for model 'rocksample', got one with 2"),
    ],
)
def test_a_critic_of_another_task_is_refused(sizes, message):
    features, actions, constraints = sizes
    critic = SafetyCritic(predict_ensemble, immediate_costs_only(rocksample_model(5, 7)).params, *sizes)
    assert (critic.feature_count, critic.action_count, critic.cost_count) == (features, actions, constraints)
    with pytest.raises(InvalidInput, match=f"^expected a critic with {message}$"):
        CMCTS(rocksample_model(5, 7), critic)

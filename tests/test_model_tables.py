"""Matrices as a model: what they say, what they allow, and what is wrong with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import cmcts
from cmcts.errors import InvalidInput
from cmcts.exact.finite import FiniteCMDP, enumerate_states
from cmcts.exact.solver import solve
from cmcts.model.check import first_look
from cmcts.random import stream

# Two states; "safe" earns 1 and stays, "risky" earns 3, falls in half of the cases (cost 1) and then ends in state 2.
P = np.zeros((3, 2, 3))
P[0, 0], P[0, 1], P[1], P[2, :, 2] = [0, 1, 0], [0, 0.5, 0.5], [[1, 0, 0], [0.5, 0, 0]], 1.0
R = np.array([[1.0, 3.0], [0.0, 2.0], [0.0, 0.0]])
FALLS = np.zeros((3, 2, 3, 1))
FALLS[0, 1, 2] = 1.0


def model(**changes):
    return cmcts.Model.from_tables(**{"P": P, "R": R, "C": FALLS, "terminal": [0, 0, 1]} | changes)


def test_outcomes_are_what_the_matrices_say():
    made = model()
    chances, states, rewards, costs, ends = made.outcomes(made.params, np.array([0.0]), 1)
    found = sorted(zip(chances, states[:, 0], rewards, costs[:, 0], ends, strict=True))
    assert found == [(0.5, 1.0, 3.0, 0.0, False), (0.5, 3.0, 3.0, 1.0, True)]
    chances, _, _, _, ends = made.outcomes(made.params, np.array([1.0]), 1)
    assert sorted(zip(ends, chances, strict=True)) == [(False, 0.5), (True, 0.5)]  # what the row lacks ends the episode
    out = np.zeros(1)
    made.uncompiled.expected_costs(made.params, np.array([0.0]), 1, out)
    assert out[0] == 0.5
    assert made.legal([2.0]).tolist() == []
    assert first_look(made, states=40) == []


def test_steps_follow_the_tables():
    made, rng = model(), stream(0)
    falls, next_state, costs = 0, np.zeros(1), np.zeros(1)
    with np.errstate(over="ignore"):
        for _ in range(1000):
            reward, end = made.uncompiled.step(made.params, np.zeros(1), 1, rng, next_state, costs)
            assert reward == 3.0 and end == (costs[0] == 1.0) == (next_state[0] == 3.0)
            falls += end
        before = rng.copy()
        made.uncompiled.step(made.params, np.zeros(1), 0, rng, next_state, costs)
    assert 430 < falls < 570
    assert rng[0] == before[0]  # what is certain throws no dice


def test_its_optimum_is_that_of_the_same_tables_without_an_end():
    """The terminal state as one where nothing happens any more: the exact solver's own way to read matrices."""
    start = np.array([0.25, 0.75, 0.0])
    means = (P[..., None] * FALLS).sum(axis=2)
    for budget in (0.0, 0.3, 0.7):
        ours = solve(enumerate_states(model(start=start), 0.9), budget)
        theirs = solve(FiniteCMDP.from_tables(P, R, means, start, 0.9), budget)
        assert ours.reward == pytest.approx(theirs.reward)
        assert ours.costs == pytest.approx(theirs.costs)


def test_sparse_matrices_and_masks():
    sparse = [csr_array(P[:, action]) for action in range(2)]
    dense, other = model(), model(P=sparse)
    for name, array in dense.params._asdict().items():
        np.testing.assert_array_equal(array, getattr(other.params, name))
    careful = model(legal=[[1, 0], [1, 1], [1, 1]], C=[[0, 1], [0, 0], [0, 0]], start=0)
    assert careful.legal([0.0]).tolist() == [0]
    several = model(C=np.ones((3, 2, 4)), features=np.arange(6).reshape(3, 2), action_names=("safe", "risky"))
    assert (several.cost_count, several.feature_count, several.action_name(1)) == (4, 2, "risky")
    assert several.feature_vector([1.0]).tolist() == [2.0, 3.0]


def test_rewards_by_successor():
    by_successor = np.zeros((3, 2, 3))
    by_successor[0, 1, 1], by_successor[0, 1, 2] = 7.0, -1.0
    made = model(R=by_successor)
    chances, _, rewards, _, _ = made.outcomes(made.params, np.array([0.0]), 1)
    assert sorted(zip(chances, rewards, strict=True)) == [(0.5, -1.0), (0.5, 7.0)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"P": P[:, :, :2]}, r"expected P of shape \[S, A, S\], or A sparse matrices \[S, S\], got \(3, 2, 2\)"),
        ({"P": 2 * P}, r"expected probabilities >= 0 with a sum of at most 1 in P .*, got sum 2 for action 0 in state"),
        ({"P": np.where(P == 0.5, -0.5, P)}, "expected probabilities >= 0 .* for action 1 in state 0"),
        ({"R": R[:2]}, r"expected R of shape \[S, A\] or \[S, A, S\] with S = 3 and A = 2, got \(2, 2\)"),
        ({"C": -FALLS}, "expected finite costs >= 0 in C, got"),
        ({"C": np.zeros(3)}, r"expected C of shape \[S, A\], \[S, A, M\] or \[S, A, S, M\]"),
        ({"R": R * np.nan}, "expected finite rewards in R"),
        ({"start": 3}, "expected a start state from 0 to 2, got 3"),
        ({"start": 2}, "expected a start that is not terminal"),
        ({"start": [0.5, 0.4, 0.0]}, "expected start probabilities >= 0 with sum 1, got 0.9"),
        ({"terminal": [1]}, "expected terminal with one mark for each of 3 states"),
        ({"legal": [[1, 1]]}, r"expected legal of shape \(3, 2\)"),
        ({"features": [1, 2, 3]}, r"expected features of shape \(3, F\)"),
    ],
)
def test_what_is_wrong_with_matrices_is_said(changes, message):
    with pytest.raises(InvalidInput, match=message):
        model(**changes)

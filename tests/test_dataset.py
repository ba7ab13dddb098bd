"""Transitions as the learner sees them, and what is held out of them."""

import numpy as np
import pytest

pytest.importorskip("jax")

from cmcts.evaluation.episodes import Transitions
from cmcts.training.dataset import conformal_margin, held_out_mask, monte_carlo_costs, worst_of_episodes


def test_monte_carlo_costs_by_hand():
    empty = np.zeros(4)
    part = Transitions(
        states=np.zeros((4, 1)),
        actions=np.zeros(4, np.int32),
        costs=np.array([[1.0], [2.0], [4.0], [8.0]]),
        rewards=empty,
        next_states=np.zeros((4, 1)),
        next_actions=np.zeros(4, np.int32),
        terminal=np.array([False, True, False, False]),
        last=np.array([False, True, False, True]),
    )
    assert monte_carlo_costs([part], [0.5])[:, 0].tolist() == [2.0, 2.0, 8.0, 8.0]
    mask = held_out_mask([part], 0.5, seed=1)
    assert mask[0] == mask[1] and mask[2] == mask[3]  # whole episodes


def test_an_episode_counts_by_its_worst_step():
    last = np.array([False, True, True, False, False, True])
    assert worst_of_episodes(np.array([1.0, 3.0, 2.0, 5.0, 0.0, 4.0]), last).tolist() == [3.0, 2.0, 5.0]


def test_the_conformal_margin_by_hand():
    scores = np.arange(1.0, 100.0)  # 99 of them
    assert conformal_margin(scores, 0.9) == 90.0
    assert conformal_margin(scores[::-1], 0.99) == 99.0
    assert conformal_margin(scores, 0.999) == 99.0, "too few episodes to be that sure"


def test_the_conformal_margin_covers_fresh_scores_as_often_as_it_says():
    dice = np.random.default_rng(0)
    draws = dice.exponential(size=(4000, 50))
    covered = [dice.exponential() <= conformal_margin(row, 0.9) for row in draws]
    assert abs(np.mean(covered) - 46 / 51) < 4 * np.sqrt(0.09 / 4000)

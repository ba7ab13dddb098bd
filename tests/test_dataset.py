"""Transitions as the learner sees them, and what is held out of them."""

import numpy as np
import pytest

pytest.importorskip("jax")

from cmcts.evaluation.episodes import Transitions
from cmcts.training.dataset import held_out_mask, monte_carlo_costs


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

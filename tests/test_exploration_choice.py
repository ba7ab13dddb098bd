"""How widely to explore: halved or doubled for as long as that pays."""

import numpy as np
import pytest

from cmcts.training.exploration import DOUBLINGS, HALVINGS, climb

NOISE = np.random.default_rng(0).normal(size=64)


def returns(best):
    """Episodes on the same worlds: luck that all widths share, and a loss that grows with the distance from `best`."""
    return lambda width: 10 * NOISE - abs(np.log2(width / best)) + 0.1 * np.roll(NOISE, 1) * np.log2(width)


@pytest.mark.parametrize("best", [1.0, 0.5, 1 / 8, 4.0])
def test_it_ends_at_the_best_width(best):
    assert climb(1.0, returns(best)) == best


def test_it_goes_only_so_far():
    assert climb(1.0, returns(1e-9)) == 0.5**HALVINGS
    assert climb(1.0, returns(1e9)) == 2.0**DOUBLINGS


def test_luck_alone_moves_nothing():
    dice = np.random.default_rng(1)
    moved = [climb(1.0, lambda _: dice.normal(size=64)) != 1.0 for _ in range(200)]
    assert np.mean(moved) < 0.1  # two looks, each of which is lucky by two standard errors in one case of forty

"""Intervals against hand-computed ones, and how often they hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.evaluation.statistics import mean_interval, paired_difference, rate_interval, standard_error

REPETITIONS = 2000


def test_standard_error():
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)
    assert standard_error([5.0]) == 0.0


def test_mean_interval_is_students():
    interval = mean_interval([1.0, 2.0, 3.0])
    reach = 4.302652729911275 / np.sqrt(3)  # t with 2 degrees of freedom, standard deviation 1
    assert interval == pytest.approx((2.0 - reach, 2.0 + reach))
    assert mean_interval([1.0]) == (-np.inf, np.inf)


def test_none_in_a_thousand_is_at_most_0_37_percent():
    interval = rate_interval(0, 1000)
    assert interval.low == 0.0
    assert interval.high == pytest.approx(1 - 0.025 ** (1 / 1000))
    assert f"{100 * interval.high:.2f}" == "0.37"
    assert rate_interval(1000, 1000) == pytest.approx((0.025 ** (1 / 1000), 1.0))


def episode_rewards(rng, count):
    """Skewed, with many equal values: what the rewards of episodes look like."""
    good = rng.binomial(3, 0.4, (count,))
    return 10.0 * good * 0.95 ** rng.integers(4, 12, count) + 10 * 0.95 ** rng.integers(8, 20, count)


SAMPLES = {
    "normal": (lambda rng, n: rng.normal(3.0, 2.0, n), 3.0, 10),
    "skewed": (lambda rng, n: rng.exponential(2.0, n), 2.0, 300),
    "rewards": (episode_rewards, None, 100),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_mean_intervals_cover_95_percent(name):
    sample, mean, size = SAMPLES[name]
    rng = np.random.default_rng(0)
    if mean is None:
        mean = sample(rng, 4_000_000).mean()
    intervals = [mean_interval(sample(rng, size)) for _ in range(REPETITIONS)]
    assert 0.93 <= np.mean([low <= mean <= high for low, high in intervals]) <= 0.97


def test_paired_intervals_cover_95_percent():
    """Two planners on the same worlds: rewards that share the world's part and differ by 0.3 on average."""
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(600):
        world = episode_rewards(rng, 100)
        difference = paired_difference(world + rng.exponential(1.3, 100), world + rng.exponential(1.0, 100), rng)
        covered.append(difference.interval.low <= 0.3 <= difference.interval.high)
    assert 0.93 <= np.mean(covered) <= 0.97


def test_exact_rate_intervals_cover_at_least_95_percent():
    rng = np.random.default_rng(2)
    counts = rng.binomial(200, 0.03, REPETITIONS)
    intervals = {count: rate_interval(count, 200) for count in np.unique(counts)}
    covered = np.mean([intervals[count].low <= 0.03 <= intervals[count].high for count in counts])
    assert 0.95 <= covered <= 0.99  # exact intervals never promise too much, and so hold a little more


def test_pairing_takes_the_worlds_out():
    world = np.random.default_rng(3).normal(0.0, 10.0, 50)
    tremble = np.random.default_rng(4).normal(0.0, 0.1, 50)
    difference = paired_difference(world + 0.5 + tremble, world)
    assert difference.mean == pytest.approx(0.5 + tremble.mean())
    assert difference.interval.low > 0.4 and difference.interval.high < 0.6
    assert difference.sign == 1
    assert paired_difference(world, world + 0.5 + tremble).sign == -1


def test_differences_without_any_spread():
    assert paired_difference([1.0, 2.0], [1.0, 2.0]) == (0.0, (0.0, 0.0))
    assert paired_difference([1.0, 2.0], [1.0, 2.0]).sign == 0
    assert paired_difference([3.0], [1.0]).interval == (-np.inf, np.inf)


def test_the_same_generator_gives_the_same_interval():
    first, second = np.arange(20.0) ** 2, np.arange(20.0)
    assert paired_difference(first, second, 5) == paired_difference(first, second, 5)

"""The random stream: known numbers, uniform draws, and seeds that are checked."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.compilation.content import uncompiled
from cmcts.errors import InvalidInput
from cmcts.random import below, next_uint64, stratify, stream, streams, uniform


def draws(function, count, seed=0, *arguments):
    rng = stream(seed)
    with np.errstate(over="ignore"):
        return [function(rng, *arguments) for _ in range(count)]


def test_the_reference_values_of_splitmix64():
    """From state 1234567, as the generator's authors publish them."""
    rng = np.array([1234567], np.uint64)
    with np.errstate(over="ignore"):
        found = [int(next_uint64(rng)) for _ in range(3)]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("function", [uniform, uncompiled(uniform)], ids=["as it comes", "uncompiled"])
def test_uniform(function):
    values = np.array(draws(function, 20_000))
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert values.mean() == pytest.approx(0.5, abs=4 / np.sqrt(12 * 20_000))
    assert (values**2).mean() == pytest.approx(1 / 3, abs=4 * np.sqrt(4 / 45 / 20_000))


@pytest.mark.parametrize("n", [1, 2, 7, 13])
def test_below(n):
    counts = np.bincount(draws(uncompiled(below), 13_000, n, n), minlength=n)
    assert len(counts) == n
    assert np.abs(counts - 13_000 / n).max() <= 4 * np.sqrt(13_000 / n)


def test_neighbouring_seeds_are_unrelated():
    first = [draws(uncompiled(uniform), 1, seed)[0] for seed in range(400)]
    assert np.corrcoef(first[:-1], first[1:])[0, 1] == pytest.approx(0.0, abs=0.2)


def test_a_stream_passes_through():
    rng = stream(1)
    assert stream(rng) is rng
    assert stream(np.random.SeedSequence(1))[0] == rng[0]
    assert stream(np.int64(1))[0] == rng[0]


def test_streams_of_a_sequence_go_by_their_place_in_it():
    child = np.random.SeedSequence(4).spawn(2)[1]
    assert streams(child, 2)[0][0] == streams(child, 5)[0][0]
    assert streams(child, 1)[0][0] != streams(np.random.SeedSequence(4), 1)[0][0]


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True, None])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidInput, match=r"^expected a seed: an integer >= 0, a SeedSequence or a stream, got "):
        stream(seed)


def spread_draws(salt, series, count):
    """First and second draws of each step of a series."""
    rng, salt = stream(0), np.uint64(salt)
    found = []
    with np.errstate(over="ignore"):
        for n in range(count):
            uncompiled(stratify)(rng, salt, series, n)
            found.append((uncompiled(uniform)(rng), uncompiled(uniform)(rng)))
    return np.array(found)


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.73])
def test_a_spread_series_gives_every_part_its_share(chance):
    """Independent draws would be off by 15 or so after 1000."""
    for series in range(5):
        hits = np.cumsum(spread_draws(7, series, 1000)[:, 0] < chance)
        assert np.abs(hits - chance * np.arange(1, 1001)).max() < 3.5


def test_spread_draws_are_uniform_over_series_and_later_draws_are_unrelated():
    first = np.array([spread_draws(3, series, 1)[0] for series in range(2000)])
    assert np.abs(np.quantile(first[:, 0], [0.25, 0.5, 0.75]) - [0.25, 0.5, 0.75]).max() < 0.045
    assert abs(np.corrcoef(first.T)[0, 1]) < 0.09
    later = spread_draws(3, 0, 2000)
    assert abs(np.corrcoef(later.T)[0, 1]) < 0.09
    assert abs(np.corrcoef(later[:-1, 1], later[1:, 1])[0, 1]) < 0.09
    assert not np.array_equal(spread_draws(3, 0, 5), spread_draws(4, 0, 5))


def test_a_spread_draw_is_the_start_plus_golden_ratios():
    values = spread_draws(11, 2, 50)[:, 0]
    golden = (np.sqrt(5) - 1) / 2
    assert np.abs((np.diff(values) - golden + 0.5) % 1 - 0.5).max() < 1e-9

"""The random stream: known numbers, uniform draws, and seeds that are checked."""

from __future__ import annotations

import numpy as np
import pytest

from cmcts.compilation import uncompiled
from cmcts.errors import InvalidInput
from cmcts.random import below, next_uint64, stream, streams, uniform


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

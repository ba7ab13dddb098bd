"""Random numbers as an argument: a splitmix64 stream in a one-element uint64 array.

A draw costs about 1.6 ns inside a kernel, and a stream is nothing but its array: copy it and you have branched it,
store it and you have saved it. Streams are seeded through `numpy.random.SeedSequence`, so that neighbouring seeds give
unrelated streams.

    >>> rng = stream(7)
    >>> 0.0 <= uniform(rng) < 1.0
    True
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cmcts.compilation.content import kernel
from cmcts.errors import InvalidInput

Stream = NDArray[np.uint64]  # [1], advanced in place by every draw

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_UNMIX_1, _UNMIX_2 = np.uint64(0x96DE1B173F119089), np.uint64(0x319642B2D24D8EC3)  # inverses modulo 2^64
_S11, _S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))
_S54, _S60, _S62 = (np.uint64(bits) for bits in (54, 60, 62))


@kernel
def next_uint64(rng):
    """The next 64 random bits of the stream (Steele, Lea and Flood 2014)."""
    rng[0] = rng[0] + _WEYL
    return _mix(rng[0])


@kernel
def _mix(z):
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@kernel
def _unmix(z):
    """The inverse of `_mix`: what it was made from."""
    z = (z ^ (z >> _S31) ^ (z >> _S62)) * _UNMIX_2
    z = (z ^ (z >> _S27) ^ (z >> _S54)) * _UNMIX_1
    return z ^ (z >> _S30) ^ (z >> _S60)


@kernel
def stratify(rng, salt, series, n):
    """Set the stream so that its next draw is the n-th of an evenly spread series; later ones are as random as ever.

    The n-th draw is a random start plus n golden ratios, modulo 1 (a Kronecker sequence): after any number of draws,
    each part of [0, 1) has had its share of them, to a few draws. `salt` and `series` make the random start.
    """
    rng[0] = _unmix(_mix(salt + np.uint64(series)) + np.uint64(n) * _WEYL) - _WEYL


@kernel
def uniform(rng):
    """A float64 uniform on [0, 1)."""
    return float(next_uint64(rng) >> _S11) * (1.0 / 9007199254740992.0)


@kernel
def below(rng, n):
    """An integer uniform on 0, ..., n - 1, for n < 2^32: the high half of a 32 x 32 bit product, no division."""
    return np.int64(((next_uint64(rng) >> _S32) * np.uint64(n)) >> _S32)


def stream(seed: int | np.random.SeedSequence | Stream) -> Stream:
    """The stream of a seed. A stream passes through as it is, so that its owner sees it advance."""
    if isinstance(seed, np.ndarray):
        if seed.dtype != np.uint64 or seed.shape != (1,):
            got = f"{seed.dtype} of shape {seed.shape}"
            raise InvalidInput(f"expected a stream (a uint64 array of shape (1,)), got {got}")
        return seed
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(_entropy(seed))
    return np.asarray(sequence.generate_state(1, np.uint64), np.uint64)


def streams(seed: int | np.random.SeedSequence, count: int) -> list[Stream]:
    """`count` independent streams; the i-th one depends on `seed` and i alone, never on `count`."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(_entropy(seed))
    key = sequence.spawn_key
    return [stream(np.random.SeedSequence(sequence.entropy, spawn_key=(*key, i))) for i in range(count)]


def stage_seed(seed: int, *words: int) -> int:
    """The seed of one stage of a run, far from every other stage's and from the plain seeds of evaluations.

    The number of words counts as well: to a `SeedSequence`, a zero at the end is as good as none.
    """
    sequence = np.random.SeedSequence((seed, len(words), *words), spawn_key=(7,))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def _entropy(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InvalidInput(f"expected a seed: an integer >= 0, a SeedSequence or a stream, got {seed!r}")
    return int(seed)

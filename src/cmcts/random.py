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

from cmcts.compilation import kernel
from cmcts.errors import InvalidInput

Stream = NDArray[np.uint64]  # [1], advanced in place by every draw

_WEYL = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31, _S32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


@kernel
def next_uint64(rng):
    """The next 64 random bits of the stream (Steele, Lea and Flood 2014)."""
    rng[0] = rng[0] + _WEYL
    z = rng[0]
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


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


def _entropy(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InvalidInput(f"expected a seed: an integer >= 0, a SeedSequence or a stream, got {seed!r}")
    return int(seed)

"""Searches that end on time.

A search looks at the clock itself (search/clock.py), every few microseconds or after every simulation. Where it cannot,
the clock is looked at between chunks of it.
"""

from __future__ import annotations

import time

from cmcts.search.clock import Limit, find_clock, read_clock
from cmcts.search.session import SearchSession

CLOCK = find_clock()
_MANY = 1 << 62
_HEARD_SECONDS = 0.25  # a long search comes back to Python so often: Ctrl-C is to be heard
_CHUNK_SECONDS = 0.001  # where a search has no clock, it is looked at about this often
_LARGEST_MARGIN, _MARGIN_DECAY = 0.25, 0.98  # share of the time limit that is left unused, and how it shrinks


def deadline(began: float, limit: float, margin: float) -> float:
    """When a search of `limit` seconds is to end: early by the margin, of which a quarter of the limit counts."""
    return began + limit - min(margin, _LARGEST_MARGIN * limit)


def run_until(session: SearchSession, end: float, iterations: int | None) -> None:
    """Search until the clock says `end`, or until so many iterations are done."""
    if CLOCK is None:
        run_chunks(session, end, iterations)
        return
    wanted = _MANY if iterations is None else iterations
    while session.iterations < wanted:
        # The kernel's clock is read first: if this is stopped in between, the search ends early and not late.
        now = read_clock(CLOCK.address, CLOCK.kind)
        left = end - time.perf_counter()
        if left <= 0.0 and session.iterations > 0:
            return
        some = left if left < 2 * _HEARD_SECONDS else _HEARD_SECONDS
        session.run(wanted - session.iterations, Limit(CLOCK, now + int(1e9 * some)))


def run_chunks(session: SearchSession, end: float, iterations: int | None) -> None:
    """The same where kernels have no clock, which is looked at between chunks: later by one chunk at most."""
    chunk = 1  # a slow model may take long for one simulation; what it takes says how many fit
    while iterations is None or session.iterations < iterations:
        if iterations is not None:
            chunk = min(chunk, iterations - session.iterations)
        before = time.perf_counter()
        session.run(chunk)
        now = time.perf_counter()
        if now >= end:
            return
        rate = chunk / max(now - before, 1e-9)
        chunk = max(1, int(rate * min(_CHUNK_SECONDS, end - now)))


def next_margin(margin: float, late: float, limit: float) -> float:
    """How many seconds early the next timed search should end, after one of `limit` that came `late` by so many.

    On a core that others use as well a search may be stopped for milliseconds at any time, its last one included. What
    was missed is made up for at once, up to a quarter of the limit, and forgotten slowly: half of it after 34 decisions
    on time.
    """
    if late > _CHUNK_SECONDS:
        return min(margin + late, _LARGEST_MARGIN * limit)
    return _MARGIN_DECAY * margin

"""What a Ray worker does with a unit: take in what it needs once, compile once a machine, and keep to the time limit.

Ray is not imported here: a worker is a process like any other.
"""

from __future__ import annotations

import fcntl
import hashlib
import pickle
import platform
import signal
import time
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from cmcts.compilation.content import digest
from cmcts.errors import InvalidInput
from cmcts.executors.sources import own_folder, unpack
from cmcts.executors.units import Work
from cmcts.version import __version__

KEPT_WORKS = 8  # with the planners and trees that they hold
PREPARING_SECONDS = 1200.0  # for a compilation, or to wait for that of another worker

_works: OrderedDict[str, Work[Any, Any]] = OrderedDict()  # the latest last


class Reply(NamedTuple):
    """A unit's result, and where it comes from."""

    result: Any
    seconds: float
    node: str
    cpu: str
    warnings: list[tuple[type[Warning], str]]


def library() -> str:
    """The version of the library, with a digest of the code that is compiled."""
    return f"{__version__} ({digest([])[:8]})"


def do(sources: bytes, parcel: bytes, name: str, unit: Any, limit: float, expected: str) -> Reply:
    """Do a unit of the work that is pickled in `parcel`, or kept from an earlier unit by its `name`."""
    if library() != expected:
        raise InvalidInput(f"expected cmcts {expected} on every node, got {library()} on {platform.node()}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _time_limit(PREPARING_SECONDS):
            work = _work(name, sources, parcel)
        began = time.perf_counter()
        with _time_limit(limit):
            result = work.function(unit)
    said = [(warning.category, str(warning.message)) for warning in caught]
    return Reply(result, time.perf_counter() - began, platform.node(), cpu(), said)


def _work(name: str, sources: bytes, parcel: bytes) -> Work[Any, Any]:
    """The work of this name, unpacked and prepared if it is new here."""
    if name not in _works:
        unpack(sources)
        work = pickle.loads(parcel)  # from the driver, whose code this is
        _prepare(work)
        _works[name] = work
        while len(_works) > KEPT_WORKS:
            _works.popitem(last=False)
    _works.move_to_end(name)
    return _works[name]


@cache
def cpu() -> str:
    """The type of processor that compiled code is made for here, with a digest of its features."""
    from llvmlite import binding

    features = hashlib.sha256(binding.get_host_cpu_features().flatten().encode()).hexdigest()[:6]
    return f"{binding.get_host_cpu_name()}-{features}"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """End this process if it takes longer: what hangs may hold Python's lock, so the system has to see to it."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _prepare(work: Work[Any, Any]) -> None:
    """Compile, or wait until another worker of this machine has done so and take what it left on disk."""
    if work.prepare is None:
        return
    name = hashlib.sha256(work.content.encode()).hexdigest()[:20]
    with (own_folder() / f"compiling-{name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system gives it back if this process is killed
        work.prepare()

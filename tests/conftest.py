from __future__ import annotations

import ctypes
import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

# Numba is imported after this line, in the workers and in the processes that tests start too: each kernel is compiled
# by one of them and found on disk by the others. What is kept from run to run is told apart by its content.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / ".pytest_cache" / "kernels"))

# A first example may compile for many seconds; the same examples every time keep failures reproducible.
settings.register_profile("cmcts", deadline=None, derandomize=True)
settings.load_profile("cmcts")

compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
compiled_only = pytest.mark.skipif(not compiled, reason="about compiled code; NUMBA_DISABLE_JIT is set")

# Files that take long go first, or one process would end with them alone. The first compiles what most others use;
# those after it, which begin in another process meanwhile, need none of that.
LONG = (
    "test_search", "test_learning", "test_site", "test_pictures", "test_accounting", "test_training",
    "test_compilation", "test_readme", "test_commands_succeed", "test_expectations", "test_random_problems",
    "test_examples",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.stem) if item.path.stem in LONG else len(LONG))


def clock_of(now):
    """A clock for searches that says what `now()` returns, in nanoseconds; and its function, to be kept alive."""
    from cmcts.search.clock import CLOCK_FUNCTION, Clock  # Numba, see above

    def look(_, said):
        said[0].seconds, said[0].nanoseconds = divmod(now(), 1_000_000_000)
        return 0

    function = CLOCK_FUNCTION(look)
    return Clock(ctypes.cast(function, ctypes.c_void_p).value, 0), function


@pytest.fixture
def slow_clock(monkeypatch):
    """Planners and searches look at one clock that goes on by a tick a look, and by nothing else; the tick in seconds.

    For a limit of N ticks: the planner looks when it begins and twice when it hands the search the N - 2 that are left,
    of which one is N - 1 by the clock; so that N - 3 simulations are done, and it looks three times more.
    """
    tick, looks = 2.0**-9, itertools.count()  # exact in floats, and whole nanoseconds
    clock, function = clock_of(lambda: int(1e9 * tick) * next(looks))
    kept = SimpleNamespace(perf_counter=lambda: tick * next(looks), function=function)
    for module in ("planner", "deadlines"):
        monkeypatch.setattr(f"cmcts.planning.{module}.time", kept)
    monkeypatch.setattr("cmcts.planning.deadlines.CLOCK", clock)
    return tick

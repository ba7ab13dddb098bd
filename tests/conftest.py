from __future__ import annotations

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


@pytest.fixture
def slow_clock(monkeypatch):
    """Planners look at a clock that goes on by one tick a look, and by nothing else; returns the tick in seconds."""
    tick, looks = 2.0**-10, itertools.count()  # exact in floats, and about the millisecond that a planner aims at
    clock = SimpleNamespace(perf_counter=lambda: tick * next(looks))
    for module in ("planner", "deadlines"):
        monkeypatch.setattr(f"cmcts.planning.{module}.time", clock)
    return tick

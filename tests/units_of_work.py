"""What tests of executors share: comparisons to the last bit, and units that go wrong."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parent


def assert_same_episodes(one, other):
    """The same episodes and steps, to the last bit; only the time that decisions took may differ."""
    for here, there in zip(one, other, strict=True):
        for field in dataclasses.fields(here):
            if field.name != "planning_seconds":
                np.testing.assert_array_equal(getattr(here, field.name), getattr(there, field.name), field.name)


def same_files(one: Path, other: Path, pattern: str) -> list[str]:
    """The names of files that are the same in two folders; fails if any is not."""
    names = sorted(str(path.relative_to(one)) for path in one.rglob(pattern))
    assert names == sorted(str(path.relative_to(other)) for path in other.rglob(pattern))
    assert [name for name in names if (one / name).read_bytes() != (other / name).read_bytes()] == []
    return names


def square(unit):
    return unit * unit


def slow_square(unit):
    time.sleep(0.3)
    return unit * unit


def fails_at_three(unit):
    if unit == 3:
        raise ZeroDivisionError("three is too many")
    return unit


def hangs_once(marks: Path, unit: int) -> int:
    """Hangs the first time that a unit is tried."""
    mark = marks / str(unit)
    if not mark.exists():
        mark.touch()
        time.sleep(600)
    return unit


def dies_once(marks: Path, unit: int) -> int:
    """Takes its process with it the first time that a unit is tried."""
    mark = marks / str(unit)
    if not mark.exists():
        mark.touch()
        os._exit(1)
    return unit


def always_dies(unit):
    os._exit(1)


def environment():
    """For processes that tests start: they find the library and these tests."""
    paths = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": paths, "RAY_USAGE_STATS_ENABLED": "0"}

"""What a unit of work is, and the one interface of all that do them.

A `Work` is a function with everything inside that its units share: a planner, a world, settings. A unit is its
argument, small and by itself: which episodes of which seed. The result depends on both and on nothing else, so it is
the same whoever does the unit, however often, and in whatever order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from cmcts.errors import InvalidInput, ModelError
from cmcts.executors.tally import Tally

U = TypeVar("U")
R = TypeVar("R")


class UnitFailed(ModelError):
    """A unit that cannot be done, wherever it is tried; the message says which one, with its seed, and why."""


class Halted(ModelError):
    """Another job of the same run has failed or was interrupted: this one was stopped as well."""


@dataclass(frozen=True)
class Work(Generic[U, R]):
    """What is done with each unit, wherever that is; must be picklable, but for an executor in this process."""

    function: Callable[[U], R]
    name: str
    """What it is about, for messages; a unit is named after it."""
    prepare: Callable[[], None] | None = None
    """Called once in each process before its first unit: compiles, and leaves that on disk for the next process."""
    content: str = ""
    """Names what `prepare` compiles: of works with the same content, one a machine is prepared at a time."""

    def describe(self, unit: U) -> str:
        """A unit, for people to read."""
        return f"{self.name}, {unit}"


class Executor(Protocol):
    """Whoever does units of work."""

    tally: Tally

    @property
    def slots(self) -> int:
        """How many units are done at once."""

    @property
    def threads(self) -> int | None:
        """How many threads a unit may plan with; None for as many as there are cores."""

    def run(self, work: Work[U, R], units: Iterable[U]) -> Iterator[tuple[U, R]]:
        """Units with their results as they arrive; takes no more from `units` than are soon to be done."""

    def halt(self) -> None:
        """Let all that is under way in other threads raise `Halted`."""


def failure(work: Work[Any, Any], unit: Any, error: BaseException) -> Exception:
    """What to raise when a unit failed for a reason of its own: an error that names it, with its seed."""
    kind = "" if isinstance(error, (InvalidInput, ModelError)) else f"{type(error).__name__}: "
    message = f"{work.describe(unit)}: {kind}{' '.join(str(error).split())}"
    return InvalidInput(message) if isinstance(error, InvalidInput) else UnitFailed(message)

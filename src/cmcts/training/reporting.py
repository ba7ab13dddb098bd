"""Who hears of a training's progress."""

from __future__ import annotations

from typing import Any, Protocol


class Reporter(Protocol):
    """Hears of the training's progress."""

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """A phase of `total` units begins."""

    def advance(self, units: int, **figures: Any) -> None:
        """Some of its units are done."""

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """A stage is done; `resumed` if it was done in an earlier life of the run."""


class Silence:
    """A reporter that says nothing."""

    def begin(self, phase: str, total: int, **figures: Any) -> None:
        """Ignore."""

    def advance(self, units: int, **figures: Any) -> None:
        """Ignore."""

    def finish(self, record: dict[str, Any], *, resumed: bool) -> None:
        """Ignore."""

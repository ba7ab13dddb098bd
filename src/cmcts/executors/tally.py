"""What a person who watches wants to know: units done, running and retried, nodes, throughput and time left."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]  # what happened to which unit, and the counts since; plain values, for JSON
RECENT = 100  # results that the throughput is measured over


class Tally:
    """Counts that one or several threads keep, and that others read; `listener` hears of every change."""

    def __init__(self, nodes: int = 1) -> None:
        self.done = self.flying = self.retried = self.known = 0
        self.nodes, self.slots = nodes, 1
        self.listener: Callable[[Event], None] | None = None
        self._arrivals: deque[float] = deque(maxlen=RECENT)
        self._lock = threading.Lock()
        self._began = time.monotonic()

    @property
    def running(self) -> int:
        """Units that are being done; a few more wait beside them."""
        return min(self.flying, self.slots)

    @property
    def throughput(self) -> float:
        """Units a second, of late."""
        arrivals = list(self._arrivals)
        if not arrivals:
            return 0.0
        since = arrivals[0] if len(arrivals) == RECENT else self._began
        return len(arrivals) / max(time.monotonic() - since, 1e-9)

    @property
    def seconds_left(self) -> float | None:
        """How long the units that are known of will still take; None as long as nothing is done."""
        rate = self.throughput
        return max(self.known - self.done, 0) / rate if rate > 0 else None

    def expect(self, units: int) -> None:
        """So many units more are known of."""
        with self._lock:
            if not self.known:
                self._began = time.monotonic()
            self.known += units

    def submitted(self) -> None:
        """A unit is on its way to whoever does it."""
        with self._lock:
            self.flying += 1

    def arrived(self, unit: str, seconds: float, node: str) -> None:
        """A unit is done."""
        with self._lock:
            self.done, self.flying = self.done + 1, self.flying - 1
            self._arrivals.append(time.monotonic())
            self._tell("done", unit=unit, seconds=round(seconds, 4), node=node)

    def lost(self, unit: str, reason: str) -> None:
        """A unit was lost with its worker or node, and is to be tried again."""
        with self._lock:
            self.retried, self.flying = self.retried + 1, self.flying - 1
            self._tell("retried", unit=unit, reason=reason)

    def dropped(self, units: int) -> None:
        """Units that were on their way are not waited for any more."""
        with self._lock:
            self.flying -= units

    def size(self, nodes: int, slots: int) -> None:
        """The cluster has so many nodes now, and does so many units at once."""
        with self._lock:
            changed, self.nodes, self.slots = nodes != self.nodes, nodes, slots
            if changed:
                self._tell("nodes", slots=slots)

    def line(self) -> str:
        """All of it on one line."""
        known = f" of {self.known}" if self.known > self.done else ""
        nodes = f"{self.nodes} node{'' if self.nodes == 1 else 's'}"
        text = f"{self.done}{known} units, {self.running} running, {self.retried} retried, {nodes}"
        text += f", {self.throughput:.3g}/s"
        left = self.seconds_left
        if left is None or self.known <= self.done:
            return text
        minutes, seconds = divmod(round(left), 60)
        return f"{text}, {minutes}:{seconds:02d} left"

    def _tell(self, event: str, **details: Any) -> None:
        if self.listener is not None:
            counts = {"done": self.done, "running": self.running, "retried": self.retried, "nodes": self.nodes}
            self.listener({"event": event, **details, **counts})

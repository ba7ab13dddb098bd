"""What commands that run on a cluster share: who does the units of work, and how a person or a machine watches.

In a terminal the progress bars show the tally; elsewhere it is a line in the log every ten seconds; with --json, each
event is a line of JSON. All of it goes to standard error.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.progress import ProgressColumn
from rich.text import Text
from tyro.conf import arg

from cmcts.devices import Device, validate_device

if TYPE_CHECKING:
    from cmcts.executors import Executor, Tally

LOG_SECONDS = 10.0

RayAddress = Annotated[
    str | None, arg(metavar="local|auto|ADDRESS", help_behavior_hint="(default: this process, on all cores)")
]


@contextmanager
def executor_for(address: str | None, device: Device, *, as_json: bool = False) -> Iterator[Executor | None]:
    """The executor that --ray asks for, watched; None for this process as it is."""
    if address is None:
        validate_device(device)
        yield None
        return
    from cmcts.executors import Ray

    said = "starting Ray" if address == "local" else "joining the Ray cluster"
    with ExitStack() as stack:
        with nullcontext() if as_json else Console(stderr=True).status(said):
            executor = stack.enter_context(Ray(address, device=device))
        stack.enter_context(watched(executor.tally, as_json=as_json))
        yield executor


@contextmanager
def watched(tally: Tally, *, as_json: bool) -> Iterator[None]:
    """Write events as JSON, or the tally to a log, as long as this lasts."""
    ended = threading.Event()

    def log() -> None:
        said = ""
        while not ended.wait(LOG_SECONDS):
            if tally.known and (line := tally.line()) != said:
                print(line, file=sys.stderr, flush=True)
                said = line

    logger = None
    if as_json:
        tally.listener = write_event
    elif not Console(stderr=True).is_terminal:
        logger = threading.Thread(target=log, daemon=True)
        logger.start()
    try:
        yield
    finally:
        ended.set()
        tally.listener = None
        if logger is not None:
            logger.join()
            print(tally.line(), file=sys.stderr, flush=True)


def write_event(event: dict[str, Any]) -> None:
    """One event as a line of JSON."""
    print(json.dumps(event), file=sys.stderr, flush=True)


class TallyColumn(ProgressColumn):
    """The tally of an executor, beside a progress bar; nothing without one."""

    def __init__(self, executor: Executor | None) -> None:
        super().__init__()
        self.tally = None if executor is None else executor.tally

    def render(self, task: object) -> Text:
        """What the tally says now."""
        return Text("" if self.tally is None else self.tally.line(), style="dim")

"""Searches side by side: in threads where they are compiled, in processes where the interpreter lets one thread run.

Processes are forked for one call and end with it. A fork has everything its parent has, so models of any kind need
neither be sent nor be picklable, and what a process remembers of its simulations goes with it. Each computes a fixed
share of the results: which one computes a result has no influence on it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import select
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from cmcts.devices import cores
from cmcts.errors import ModelError, expect
from cmcts.planning.decision import Decision
from cmcts.random import Stream

if TYPE_CHECKING:
    from cmcts.planning.planner import Planner

T = TypeVar("T")


def side_by_side(
    planner: Planner,
    plan_one: Callable[[int], Decision],
    count: int,
    threads: int | None,
    draws: Sequence[Stream] | None,
) -> list[Decision]:
    """`plan_one` of 0 ... count - 1, over all cores: in threads, or in processes if the search is not compiled.

    `draws` are the streams that `plan_one` advances: a process hands back how far it came. Without them, the caller
    needs what else `plan_one` does, and an uncompiled search goes one by one.
    """
    expect(threads is None or threads >= 1, "threads >= 1", threads)
    workers = min(threads or cores(), max(count, 1))
    if workers == 1:
        return [plan_one(index) for index in range(count)]
    # The first search tells whether the model compiles, and warns from here if it does not.
    first = [] if planner.has_searched else [plan_one(0)]
    rest = range(len(first), count)
    if planner.runs_compiled:
        with ThreadPoolExecutor(workers) as pool:
            return first + list(pool.map(plan_one, rest))
    if draws is None:
        return first + [plan_one(index) for index in rest]

    def plan_apart(k: int) -> tuple[Decision, Stream]:
        """What of a decision can be sent from process to process, and how far its stream has come."""
        bare = dataclasses.replace(plan_one(rest[k]), model=None)  # type: ignore[arg-type]
        return bare, draws[rest[k]]

    decisions = []
    for index, (decision, advanced) in zip(rest, forked_map(plan_apart, len(rest), workers), strict=True):
        draws[index][:] = advanced
        decisions.append(dataclasses.replace(decision, model=planner.model))
    return first + decisions


def can_fork() -> bool:
    """Whether searches are forked on this system: macOS can, but its own libraries may not survive it."""
    return hasattr(os, "fork") and sys.platform != "darwin"


def forked_map(function: Callable[[int], T], count: int, processes: int) -> list[T]:
    """`function` of 0 ... count - 1, over so many processes; what it returns must be picklable.

    The first error is raised here, as it would be without processes, and ends what the others are still doing.
    """
    processes = min(processes, count) if can_fork() else 1
    children = dict(_fork(function, range(share, count, processes)) for share in range(1, processes))  # by their pipe
    results: dict[int, Any] = {}
    try:
        for index in range(0, count, max(processes, 1)):
            results[index] = function(index)
            ready, _, _ = select.select(list(children), [], [], 0)  # has another one failed?
            for pipe in ready:
                results |= _share(pipe, children.pop(pipe))
        for pipe in list(children):
            results |= _share(pipe, children.pop(pipe))
    finally:
        for pipe, pid in children.items():
            os.close(pipe)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return [results[index] for index in range(count)]


def _share(pipe: int, pid: int) -> dict[int, Any]:
    """What a child computed; what it raised is raised here."""
    with os.fdopen(pipe, "rb") as file:
        content = file.read()
    os.waitpid(pid, 0)
    share, failure = pickle.loads(content) if content else ({}, ModelError("a planning process was killed"))
    if failure is not None:
        raise failure
    return dict(share)


def _fork(function: Callable[[int], Any], indices: range) -> tuple[int, int]:
    """A child that computes its share, writes it to a pipe and ends: (the pipe, its process)."""
    source, sink = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # JAX warns that its threads do not survive in a fork. A child only plans: it never calls JAX.
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid:
        os.close(sink)
        return source, pid
    try:
        os.close(source)
        share: dict[int, Any] = {}
        error: BaseException | None = None
        try:
            for index in indices:
                share[index] = function(index)
        except BaseException as raised:
            error = raised
        with os.fdopen(sink, "wb") as file:
            file.write(_content(share, error))
    finally:
        os._exit(0)  # none of the parent's clean-up is the child's


def _content(share: dict[int, Any], error: BaseException | None) -> bytes:
    try:
        return pickle.dumps((share, error))
    except Exception:  # an error that cannot be pickled is told in words
        return pickle.dumps(({}, ModelError(f"{type(error).__name__}: {error}")))

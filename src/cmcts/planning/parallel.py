"""Uncompiled work on all cores: the interpreter lets one thread run at a time, so each core gets a process.

Processes are forked for one call and end with it. A fork has everything its parent has, so models of any kind need
neither be sent nor be picklable, and what a process remembers of its simulations goes with it. Each computes a fixed
share of the results: which one computes a result has no influence on it.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from cmcts.errors import ModelError

T = TypeVar("T")


def forked_map(function: Callable[[int], T], count: int, processes: int) -> list[T]:
    """`function` of 0 ... count - 1, over so many processes; what it returns must be picklable.

    The first error is raised here, as it would be without processes.
    """
    processes = min(processes, count) if hasattr(os, "fork") and sys.platform != "darwin" else 1
    children = [_fork(function, range(share, count, processes)) for share in range(1, processes)]
    results: dict[int, Any] = {}
    failure: BaseException | None = None
    try:
        for index in range(0, count, max(processes, 1)):
            results[index] = function(index)
    except BaseException as error:
        failure = error
    for pid, pipe in children:
        with os.fdopen(pipe, "rb") as file:
            content = file.read() if failure is None else b""  # a closed pipe ends a child at its next word
        os.waitpid(pid, 0)
        if failure is None:
            share, failure = pickle.loads(content) if content else ({}, ModelError("a planning process was killed"))
            results |= share
    if failure is not None:
        raise failure
    return [results[index] for index in range(count)]


def _fork(function: Callable[[int], Any], indices: range) -> tuple[int, int]:
    """A child that computes its share, writes it to a pipe and ends: (its process, the pipe)."""
    source, sink = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # JAX warns that its threads do not survive in a fork. A child only plans: it never calls JAX.
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid:
        os.close(sink)
        return pid, source
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

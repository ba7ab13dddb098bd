"""A clock that a search looks at itself, without coming back to Python.

Between two looks from Python lies a chunk of the search, whose size is a guess, and the way through the interpreter,
whose lock another thread may hold for five milliseconds at a time. So a kernel calls the operating system's own
`clock_gettime`, at an address that it is handed as a number: compiled code that names no symbol is found on disk by
every process, and a search that has no time limit, or no such clock, is the same code with a limit that never comes.
"""

from __future__ import annotations

import ctypes
import sys
import time
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from cmcts.compilation.content import inner_kernel as kernel

NEVER = (1 << 63) - 1
OFTEN = 10_000  # nanoseconds: a look takes some 25
MOST_BETWEEN = 16  # simulations from one look to the next, at most: the next one may take longer than the last


class Clock(NamedTuple):
    """A function with the signature of `clock_gettime`, and what to ask it for."""

    address: int
    kind: int


class Limit(NamedTuple):
    """When a search is to end, by which clock."""

    clock: Clock
    end: int  # nanoseconds, or NEVER


UNTIMED = Limit(Clock(0, 0), NEVER)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_int64), ("nanoseconds", ctypes.c_int64))


CLOCK_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_Timespec))


def find_clock() -> Clock | None:
    """The clock of this machine that only goes forward; None where there is none that kernels could call."""
    if sys.platform not in ("linux", "darwin") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None  # another layout of the seconds, or another function
    try:
        function = ctypes.CDLL(None).clock_gettime
    except (OSError, AttributeError):
        return None
    return Clock(ctypes.cast(function, ctypes.c_void_p).value or 0, time.CLOCK_MONOTONIC)


def read_clock(address: int, kind: int) -> int:
    """Nanoseconds by the clock at an address. The same function compiled is `_overloaded`."""
    said = _Timespec()
    CLOCK_FUNCTION(address)(kind, ctypes.byref(said))
    return int(1_000_000_000 * said.seconds + said.nanoseconds)


@intrinsic
def _call(typing_context: Any, address: Any, kind: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, long = ir.IntType(32), ir.IntType(64)
        timespec = ir.LiteralStructType([long, long])
        said = cgutils.alloca_once(builder, timespec)
        function = ir.FunctionType(word, [word, timespec.as_pointer()]).as_pointer()
        where, what = arguments
        builder.call(builder.inttoptr(where, function), [builder.trunc(what, word), said])
        seconds, rest = (builder.load(cgutils.gep_inbounds(builder, said, 0, field)) for field in range(2))
        return builder.add(builder.mul(seconds, ir.Constant(long, 1_000_000_000)), rest)

    return types.int64(types.int64, types.int64), generate


@overload(read_clock)
def _overloaded(address, kind):
    return lambda address, kind: _call(address, kind)


@kernel
def first_stride(limit, count):
    """How many of so many simulations to do before the first look at the clock: one, or all if nothing limits them."""
    return np.int64(1) if limit.end != NEVER else count


@kernel
def look(limit):
    """What the limit's clock says; NEVER comes after all that it says."""
    return read_clock(limit.clock.address, limit.clock.kind) if limit.end != NEVER else np.int64(0)


@kernel
def next_stride(stride, nanoseconds):
    """How many simulations until the next look, after so many took so long: some microseconds' worth."""
    return min(2 * stride, MOST_BETWEEN) if nanoseconds < OFTEN else max(stride // 2, 1)

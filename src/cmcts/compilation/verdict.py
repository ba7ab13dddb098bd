"""Does it compile, and if not, why? Asked once of every model and critic, and said to the user once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any

from numba import njit, typeof, types

from cmcts.compilation.content import Function, python_function
from cmcts.compilation.gpu import compiled_for_gpu
from cmcts.errors import users_stack_level


class Verdict:
    """What is known of whether Numba can compile a set of functions: that it can, until it could not."""

    def __init__(self, subject: str, advice: str) -> None:
        self.subject, self.advice = subject, advice
        self.fault = ""
        self.gpu_fault = ""  # the same for a GPU

    def condemn(self, fault: str) -> None:
        """From now on it runs uncompiled; say so once, with the reason and what to do about it."""
        if not self.fault:
            self.fault = fault
            warnings.warn(
                f"{self.subject} cannot be compiled and plans uncompiled, hundreds of times slower ({fault}). "
                f"To speed it up, {self.advice}.",
                stacklevel=users_stack_level(),
            )

    def keep_off_gpu(self, fault: str) -> None:
        """From now on it is planned with on the CPU alone; say so once, with the reason."""
        if not self.gpu_fault:
            self.gpu_fault = fault
            warnings.warn(
                f"{self.subject} cannot be compiled for a GPU and plans on the CPU ({fault})",
                stacklevel=users_stack_level(),
            )


_NUMBERS = (types.Number, types.Boolean, types.Array)


def params_fault(params: Any, *, gpu: bool = False) -> str:
    """Why a kernel cannot take these parameters, or "" if it can."""
    try:
        return _odd_part(typeof(params), "params", _NUMBERS if gpu else (*_NUMBERS, types.NoneType, types.UnicodeType))
    except (ValueError, TypeError) as error:
        return f"params: {first_line(error)}"


def first_fault(functions: Mapping[str, tuple[Function, tuple[Any, ...]]], *, gpu: bool = False) -> str:
    """The first of some functions that cannot be compiled for its argument types, and why; "" if all can."""
    compiled = compiled_for_gpu if gpu else _compiled
    for name, (function, signature) in functions.items():
        try:
            compiled(python_function(function), signature)
        except Exception as error:  # not only Numba's own errors
            return f"{name}: {first_line(error)}"
    return ""


def _compiled(function: Function, signature: tuple[Any, ...]) -> None:
    njit(function).compile(signature)


def _odd_part(typ: types.Type, name: str, plain: tuple[type, ...]) -> str:
    """The first list, dictionary or the like in `params`: kernels do not count references, and cannot take them."""
    if isinstance(typ, types.BaseTuple):
        names = getattr(typ, "fields", range(len(typ)))
        parts = (_odd_part(part, f"{name}.{field}", plain) for field, part in zip(names, typ, strict=True))
        return next((part for part in parts if part), "")
    return "" if isinstance(typ, plain) else f"{name} is a {typ}"


def first_line(error: Exception) -> str:
    """The first line of a Numba error that says something; Numba adds colours where it finds colorama."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    useful = [line for line in lines if not line.startswith(("Failed in", "During:", "File"))]
    return (useful or lines or [type(error).__name__])[0]

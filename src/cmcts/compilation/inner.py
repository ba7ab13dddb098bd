"""How Numba compiles what only other kernels call: typed and translated, and left to them to optimise.

Numba optimises each function with all that it calls, and turns it into machine code, which callers of an inner kernel
never use: they link its LLVM code into theirs and optimise that as a whole. Down a chain of calls the innermost was
optimised once for each link. Without that, a search compiles in about 60 % of the time, and is as fast.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


class _InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM code to be linked into that of an entry point."""

    _final_module: Any

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        # Numba sets the address of each function's environment once it is in memory: that variable must be there.
        environments = (str(g) for g in self._final_module.global_variables if g.name.startswith("_ZN08NumbaEnv"))
        code, self._final_module = self._final_module, llvm.parse_assembly("\n".join(environments))
        super()._finalize_final_module()
        self._final_module = code


class InnerCompiler(Compiler):  # type: ignore[misc]
    """For the option `pipeline_class` of `numba.njit`: of functions that are called from compiled code alone."""

    def compile_extra(self, func: Any) -> Any:
        """Compile a function into a library that is linked into others only."""
        self.state.library = _InnerLibrary(self.state.targetctx.codegen(), func.__qualname__)
        return super().compile_extra(func)

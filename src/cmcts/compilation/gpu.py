"""The same functions on a GPU: numba-cuda compiles what Numba has compiled for the CPU, from the same source.

A kernel is called from the GPU as it stands: numba-cuda takes what was given to `njit`, and all that it calls, as its
own. What is written here is how a content's functions are found there as well, and how the one function that is
launched, written for a planner's own sizes, reaches the cache on disk: under a name with a digest of everything it is
made of, as on the CPU (content.py).

With `NUMBA_ENABLE_CUDASIM=1` numba-cuda simulates a GPU, thread by thread in plain Python; kernels then run uncompiled.
"""

from __future__ import annotations

import hashlib
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

from cmcts.compilation.content import CONTENTS, ContentType, Function
from cmcts.compilation.vectors import register_vectors
from cmcts.devices import is_simulated

MAX_REGISTERS = 128  # leave room for 512 searches on a multiprocessor, and spill next to nothing
_COMPILING = threading.Lock()
_ON_GPU: dict[Function, Function] = {}


def on_gpu(function: Function) -> Callable[[Function], Function]:
    """Let kernels on a GPU call the decorated function where on the CPU they call `function`.

    For what is fast in one way here and in another there; both must compute the same, bit for bit.
    """

    def register(other: Function) -> Function:
        _ON_GPU[function] = other
        return other

    return register


@cache
def _register() -> None:
    """Make contents known to numba-cuda, as constants, and what is to be computed in another way there."""
    from numba.cuda.core.imputils import lower_constant
    from numba.cuda.extending import overload

    @lower_constant(ContentType)
    def constant(context: Any, builder: Any, typ: Any, value: Any) -> Any:
        return context.get_dummy_value()

    def returning(other: Function) -> Function:
        def implementation(*arguments: Any) -> Function:
            return other

        return implementation

    register_vectors()
    for function, other in _ON_GPU.items():
        overload(function, strict=False)(returning(other))


@cache
def _forward(name: str) -> None:
    """What content.py does for the CPU: an attribute of a content is the function of that name."""
    from numba.cuda.extending import overload_attribute

    @overload_attribute(ContentType, name)  # Numba compares signatures: no annotations here
    def resolve(content):
        function = CONTENTS[content.name].get(name)
        return None if function is None else lambda content: function


@cache
def with_shape(*shape: int) -> Function:
    """A function for kernels: the same memory as an array whose sizes are known when it is compiled.

    Elements are then found by constants, and loops over them can be unrolled. A first axis of -1 stays as long as
    it is; else the array may have elements to spare.
    """
    if is_simulated():
        return lambda array: array if shape[0] == -1 else array.ravel()[: math.prod(shape)].reshape(shape)
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic
    from numba.cuda.np.arrayobj import make_array, populate_array

    @intrinsic
    def shaped(typing_context: Any, array: Any) -> Any:
        result = types.Array(array.dtype, len(shape), "C")

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            old, new = make_array(array)(context, builder, arguments[0]), make_array(result)(context, builder)
            number = partial(context.get_constant, types.intp)
            item = context.get_abi_sizeof(context.get_data_type(array.dtype))
            first = cgutils.unpack_tuple(builder, old.shape)[0]
            populate_array(
                new,
                data=old.data,
                shape=[first if size == -1 else number(size) for size in shape],
                strides=[number(item * math.prod(shape[axis + 1 :])) for axis in range(len(shape))],
                itemsize=number(item),
                meminfo=old.meminfo,
                parent=old.parent,
            )
            return new._getvalue()

        return result(array), generate

    return shaped  # type: ignore[no-any-return]


def compiled_for_gpu(function: Function, signature: tuple[Any, ...]) -> None:
    """Compile one function, which other kernels call, to see whether that can be done."""
    from numba import cuda

    if not is_simulated():
        cuda.jit(device=True)(function).compile_device(signature)


class GpuKernel:
    """A function to launch over many threads; compiled at its first launch, or found on disk."""

    def __init__(self, source: str, namespace: Mapping[str, Any], contents: tuple[Any, ...]) -> None:
        """`source` defines the function `entry`, which finds the names of `namespace` among its globals."""
        from numba import cuda

        names, options = [], {}
        if not is_simulated():
            _register()
            names = [content._numba_type_.name for content in contents]
            for name in names:
                for attribute in CONTENTS[name]:
                    _forward(attribute)
            # Optimisation at link time would contract products and sums after all.
            options = {"cache": True, "max_registers": MAX_REGISTERS, "lto": False}
        digest = hashlib.sha256("\n".join([source, str(MAX_REGISTERS), *names]).encode()).hexdigest()[:16]
        scope = {"cuda": cuda, **namespace}
        exec(compile(source, __file__, "exec"), scope)  # Numba keeps its cache by the file of a function
        entry = scope["entry"]
        entry.__module__, entry.__qualname__ = __name__, f"entry_{digest}"
        self._kernel = cuda.jit(entry, **options)

    def launch(self, blocks: int, threads: int, *arguments: Any) -> None:
        """Run it; returns before it is done, unless it had to be compiled."""
        with warnings.catch_warnings(), nullcontext() if is_simulated() else _as_on_the_cpu():
            warnings.simplefilter("ignore")  # that few lanes leave a GPU idle; that integers wrap in a simulation
            self._kernel[blocks, threads](*arguments)


@contextmanager
def _as_on_the_cpu() -> Iterator[None]:
    """Compile so that every operation is rounded and every index is looked at as on the CPU.

    A product and the sum it goes into stay two operations: trees are then the CPU's, node for node, and are searched as
    fast. The library's own indices are never negative and are taken as they are; what users write is checked, and an
    index out of range ends the search. numba-cuda has no options for either.
    """
    from numba.cuda.cudadrv import nvvm
    from numba.cuda.np import arrayobj

    with _COMPILING:
        compile_ir, fix_index = nvvm.compile_ir, arrayobj.fix_integer_index
        nvvm.compile_ir = partial(compile_ir, fma=False)
        arrayobj.fix_integer_index = partial(_index, fix_index)
        try:
            yield
        finally:
            nvvm.compile_ir, arrayobj.fix_integer_index = compile_ir, fix_index


def _index(usual: Function, context: Any, builder: Any, kind: Any, index: Any, size: Any) -> Any:
    """An index of an axis of some size, as machine code: `usual` counts negative ones from the end."""
    from llvmlite.ir import Constant
    from numba.cuda import cgutils, types

    owner = context.fndesc.modname.partition(".")[0]
    if owner == "cmcts" and not isinstance(index, Constant):
        return context.cast(builder, index, kind, types.intp)
    found = usual(context, builder, kind, index, size)
    if owner not in ("cmcts", "numba", "numba_cuda"):
        cgutils.do_boundscheck(context, builder, found, size)
    return found

"""Several numbers of float32 at a time, for kernels on a GPU: tuples that stay in registers.

A loop over an array of sums would go through memory, where a thread waits for every number. These are what a critic is
evaluated with on a GPU (critic/ensemble.py). Called from Python they do the same with plain tuples, for tests.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

WIDTH = 16  # numbers that are taken together


def read(matrix: NDArray[Any], row: int, column: int) -> tuple[Any, ...]:
    """WIDTH numbers of a row, from `column` on. Four are read at once: rows and columns must be whole fours."""
    return tuple(matrix[row, column : column + WIDTH])


def add_products(totals: tuple[Any, ...], factors: Any, numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """`totals` plus `factors` times `numbers`, each of its own or one for all."""
    each = factors if isinstance(factors, tuple) else (factors,) * len(totals)
    return tuple(total + factor * number for total, factor, number in zip(totals, each, numbers, strict=True))


def put(totals: tuple[Any, ...], array: NDArray[Any], begin: int) -> None:
    """Write `totals` to an array, from `begin` on."""
    for k, total in enumerate(totals):
        array[begin + k] = total


def register_vectors() -> None:
    """Make them known to numba-cuda; of what they are made of, nothing is left but machine instructions."""
    from llvmlite.ir import VectorType
    from numba.cuda import cgutils, types
    from numba.cuda.extending import intrinsic, overload
    from numba.cuda.np.arrayobj import make_array

    @intrinsic
    def fours(typing_context: Any, matrix: Any, row: Any, column: Any) -> Any:
        result = types.UniTuple(matrix.dtype, WIDTH)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            numbers, *place = arguments
            array = make_array(matrix)(context, builder, numbers)
            begin = cgutils.get_item_pointer(context, builder, matrix, array, place)
            four = VectorType(begin.type.pointee, 4).as_pointer()
            read = []
            for k in range(0, len(result), 4):
                vector = builder.load(builder.bitcast(builder.gep(begin, [cgutils.int32_t(k)]), four), align=16)
                read += [builder.extract_element(vector, cgutils.int32_t(lane)) for lane in range(4)]
            return context.make_tuple(builder, result, read)

        return result(matrix, types.intp, types.intp), generate

    @intrinsic
    def add(typing_context: Any, totals: Any, factors: Any, numbers: Any) -> Any:
        each = isinstance(factors, types.BaseTuple)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            sums, scale, read = arguments
            for k in range(len(totals)):
                factor = builder.extract_value(scale, k) if each else scale
                product = builder.fmul(factor, builder.extract_value(read, k))
                sums = builder.insert_value(sums, builder.fadd(builder.extract_value(sums, k), product), k)
            return sums

        return totals(totals, factors if each else totals.dtype, numbers), generate

    @intrinsic
    def write(typing_context: Any, totals: Any, array: Any, begin: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            sums, numbers, place = arguments
            first = cgutils.get_item_pointer(
                context, builder, array, make_array(array)(context, builder, numbers), [place]
            )
            for k in range(len(totals)):
                builder.store(builder.extract_value(sums, k), builder.gep(first, [cgutils.int32_t(k)]))
            return context.get_dummy_value()

        return types.void(totals, array, types.intp), generate

    @overload(read)
    def _read(matrix, row, column):
        return lambda matrix, row, column: fours(matrix, row, column)

    @overload(add_products)
    def _add_products(totals, factors, numbers):
        return lambda totals, factors, numbers: add(totals, factors, numbers)

    @overload(put)
    def _put(totals, array, begin):
        return lambda totals, array, begin: write(totals, array, begin)

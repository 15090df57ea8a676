"""Named tuples of arrays, and compiled policies, as 64-bit words: where arrays are, how long they are.

Numba unpacks every array that it is given; a plan and a world are 32 of them, which costs ten microseconds a call. So
their addresses and shapes are written down once, and compiled code makes the named tuples from these words, which costs
a fraction of one (docs/decisions/0005). Words keep nothing alive: their owner must hold the arrays too. Used by
the snapshot builder and by the simulator's engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import from_dtype, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from fairlead.policies.jit import typed_kernel
from fairlead.policies.numba_signature import decide_signature

_WORDS: Final = 3  # per array: its address and its shape, (n, 1) for one axis
_FUNCTION_WORDS: Final = 3  # Numba's form of a function pointer

#: Numba's types of words, for the signatures of kernels.
WORDS: Final = types.Array(types.int64, 1, "C")
ROWS_OF_WORDS: Final = types.Array(types.int64, 2, "C")


def words_of(arrays: Any, layout: Any) -> Any:
    """Where the arrays of a named tuple are; `layout` has the type and the number of axes of each, in their order."""
    words = np.zeros(_WORDS * len(arrays), np.int64)
    for i, (array, (dtype, axes)) in enumerate(zip(arrays, layout, strict=True)):
        if array.dtype != dtype or array.ndim != axes or not array.flags.c_contiguous:
            raise TypeError(f"{type(arrays).__name__}.{arrays._fields[i]} must be a {axes}-d array of {dtype}")
        words[_WORDS * i : _WORDS * (i + 1)] = (array.ctypes.data, array.shape[0], array.shape[1] if axes == 2 else 1)
    return words


def policy_words(policies: Sequence[Any]) -> Any:
    """Compiled policies as (n, 3), to be picked from at run time; one row of zeros, not to be called, for none."""
    words = np.zeros((max(1, len(policies)), _FUNCTION_WORDS), np.int64)
    for row, policy in zip(words, policies, strict=False):
        _compiled_store()(policy, row)
    return words


def new_block(layout: Any, shapes: Sequence[tuple[int, ...]]) -> Any:
    """One array of words, all zeros, with room for arrays of these shapes; it can be copied as a whole."""
    header, at = np.zeros((len(layout), _WORDS), np.int64), _WORDS * len(layout)
    for row, (dtype, _), shape in zip(header, layout, shapes, strict=True):
        row[:] = (8 * at, *shape, 1)[:_WORDS]
        at += -(-math.prod(shape) * dtype.itemsize // 8)
    block = np.zeros(at, np.int64)
    block[: header.size] = header.ravel()
    return block


def in_block(tuple_class: Any, layout: Any, block: Any) -> Any:
    """The arrays in a block, as a named tuple of views."""
    header = block[: _WORDS * len(layout)].reshape(-1, _WORDS).tolist()
    memory = block.view(np.uint8)
    return tuple_class(
        *(
            memory[at : at + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape[:axes])
            for (at, *shape), (dtype, axes) in zip(header, layout, strict=True)
        )
    )


# ---- inside compiled code


def tuple_inside(tuple_class: Any, layout: Any) -> Any:
    """An intrinsic that makes the named tuple of the arrays in a block."""
    tuple_type = _tuple_type(tuple_class, layout)

    def make(typing_context: Any, block: Any) -> Any:
        """The named tuple of what is in `block`."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = _word_pointer(context, builder, signature.args[0], arguments[0])
            return _make(context, builder, tuple_type, first, builder.ptrtoint(first, ir.IntType(64)))

        return tuple_type(block), generate

    return intrinsic(make)


def tuple_at(tuple_class: Any, layout: Any) -> Any:
    """An intrinsic that makes the named tuple of one row of words (n,)."""
    tuple_type = _tuple_type(tuple_class, layout)

    def make(typing_context: Any, words: Any) -> Any:
        """The named tuple that `words` describe."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _make(context, builder, tuple_type, _word_pointer(context, builder, signature.args[0], arguments[0]))

        return tuple_type(words), generate

    return intrinsic(make)


def tuple_in_rows(tuple_class: Any, layout: Any) -> Any:
    """An intrinsic that makes the named tuple of row `b` of words (B, n)."""
    tuple_type = _tuple_type(tuple_class, layout)

    def make(typing_context: Any, words: Any, b: Any) -> Any:
        """The named tuple that row `b` of `words` describes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            first = _word_pointer(context, builder, signature.args[0], arguments[0])
            row = builder.mul(arguments[1], ir.Constant(arguments[1].type, _WORDS * len(layout)))
            return _make(context, builder, tuple_type, builder.gep(first, [row]))

        return tuple_type(words, types.int64), generate

    return intrinsic(make)


def _tuple_type(tuple_class: Any, arrays: Any) -> Any:
    return types.NamedTuple([types.Array(from_dtype(dtype), axes, "C") for dtype, axes in arrays], tuple_class)


def _make(context: Any, builder: Any, tuple_type: Any, words: Any, base: Any = None) -> Any:
    """The named tuple whose arrays are described from `words` (an i64*) on; addresses count from a base, if given."""

    def word(i: int) -> Any:
        return builder.load(builder.gep(words, [ir.Constant(ir.IntType(64), i)]))

    made = []
    for i, array_type in enumerate(tuple_type.types):
        array = make_array(array_type)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
        shape = [word(_WORDS * i + 1 + axis) for axis in range(array_type.ndim)]
        strides = [size] if array_type.ndim == 1 else [builder.mul(shape[1], size), size]
        address = word(_WORDS * i) if base is None else builder.add(base, word(_WORDS * i))
        data = builder.inttoptr(address, context.get_data_type(array_type.dtype).as_pointer())
        populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
        made.append(array._getvalue())
    return context.make_tuple(builder, tuple_type, made)


def _word_pointer(context: Any, builder: Any, words_type: Any, words: Any) -> Any:
    return make_array(words_type)(context, builder, words).data


def _store_function(typing_context: Any, function: Any, words: Any) -> Any:
    """Write a function pointer down into words (3,)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target = _word_pointer(context, builder, signature.args[1], arguments[1])
        builder.store(arguments[0], builder.bitcast(target, arguments[0].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(function, words), generate


def _policy_at(typing_context: Any, words: Any, i: Any) -> Any:
    """Policy `i` of those in words (n, 3)."""
    function_type = types.FunctionType(decide_signature())

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = _word_pointer(context, builder, signature.args[0], arguments[0])
        row = builder.gep(first, [builder.mul(arguments[1], ir.Constant(arguments[1].type, _FUNCTION_WORDS))])
        return builder.load(builder.bitcast(row, context.get_value_type(function_type).as_pointer()))

    return function_type(words, types.int64), generate


def _prefetch(typing_context: Any, array: Any, i: Any) -> Any:
    """Ask for item `i` to be brought near; harmless when there is no such item."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = make_array(signature.args[0])(context, builder, arguments[0]).data
        item = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        signature_type = ir.FunctionType(ir.VoidType(), [item.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [item.type], signature_type)
        builder.call(function, [item, number(0), number(3), number(1)])  # to read, near, data
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


policy_at: Any = intrinsic(_policy_at)
prefetch: Any = intrinsic(_prefetch)
_write_function: Any = intrinsic(_store_function)


def _store(function: Any, words: Any) -> None:
    _write_function(function, words)


@cache
def _compiled_store() -> Any:
    return typed_kernel(_store, types.FunctionType(decide_signature()), WORDS)

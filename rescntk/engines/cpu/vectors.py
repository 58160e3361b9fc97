"""Vectors of numbers as a type that numba compiles: the loops of the engine "numba" use them.

LLVM can turn a loop over numbers into a loop over vectors by itself. It then keeps the
polynomials' coefficients in registers, of which there are too few. It also passes one vector
after the other, and waits for each.

Here a vector is as long as several registers of the processor. Independent instructions then
lie side by side, and a coefficient is read where it is used.

Operators +, −, * and / take vectors and numbers. a·b + c may be contracted to one rounding,
unless the product is `rounded_product`.

Loops read and write `Numbers`: the address of an array's numbers. Each array that is passed to a
compiled function costs two atomic operations, an address costs none. With arrays, a tenth to a
quarter of the time was lost (float64 and float32, groups of 3200 pixel pairs, AMD EPYC Zen 4).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, overload, overload_attribute, register_model

LINE_BYTES = 64
"""Bytes of a cache line, and of a short vector (`load_line`)."""

VECTOR_BYTES = 256 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 64
"""Bytes of a vector of `load`.

Longer vectors put more independent instructions side by side, but need more registers. 256 are
four registers of AVX-512. Without AVX-512 registers are half as many and half as long; 64 are
two of AVX, chosen without measurement. Measured on an AMD EPYC (Zen 5), in nanoseconds per
pixel pair and layer, both kernels: 1.45 with vectors by LLVM, 1.29 with vectors of one
register, 1.16 of two, 1.03 of four.
"""

Vector = Any
"""A value of `VectorType` in compiled code, which mypy cannot know."""

Numbers = Any
"""A value of `NumbersType` in compiled code, or an array in its place."""


class VectorType(types.Type):
    """Numba's type of `count` numbers side by side."""

    def __init__(self, scalar: types.Float, size: int) -> None:
        self.scalar, self.count = scalar, size * 8 // scalar.bitwidth
        super().__init__(name=f"Vector({scalar}, {self.count})")


@register_model(VectorType)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: VectorType) -> None:
        number = manager.lookup(vector.scalar).get_value_type()
        super().__init__(manager, vector, ir.VectorType(number, vector.count))


class NumbersType(types.Type):
    """Numba's type of the address of numbers. The array that holds them must outlive it."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Numbers({dtype})")


@register_model(NumbersType)
class _NumbersModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numbers: NumbersType) -> None:
        number = manager.lookup(numbers.dtype).get_value_type()
        super().__init__(manager, numbers, number.as_pointer())


@intrinsic
def numbers_of(typing: Any, array: Any) -> Any:
    """Return the address of the numbers of a contiguous array."""
    numbers = NumbersType(array.dtype)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.make_array(sig.args[0])(context, builder, args[0]).data

    return numbers(array), generate


@intrinsic
def _read(typing: Any, numbers: Any, index: Any) -> Any:
    """Return one number."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(builder.gep(args[0], [args[1]]))

    return numbers.dtype(numbers, types.intp), generate


@intrinsic
def _write(typing: Any, numbers: Any, index: Any, value: Any) -> Any:
    """Write one number."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], builder.gep(args[0], [args[1]]))
        return context.get_dummy_value()

    return types.void(numbers, types.intp, numbers.dtype), generate


@overload(operator.getitem, strict=False)
def _choose_read(numbers: Any, index: Any) -> Any:
    return (lambda numbers, index: _read(numbers, index)) if _are_numbers(numbers) else None


@overload(operator.setitem, strict=False)
def _choose_write(numbers: Any, index: Any, value: Any) -> Any:
    if not _are_numbers(numbers):
        return None
    return lambda numbers, index, value: _write(numbers, index, value)


@overload_attribute(NumbersType, "itemsize", strict=False)
def _choose_itemsize(numbers: Any) -> Any:
    itemsize = numbers.dtype.bitwidth // 8
    return lambda numbers: itemsize


def _are_numbers(kind: Any) -> bool:
    return isinstance(kind, NumbersType)


def _repeat(context: Any, builder: Any, vector: VectorType, value: Any) -> Any:
    """Return a vector of equal numbers."""
    kind = context.get_value_type(vector)
    nothing = ir.Constant(kind, ir.Undefined)
    first = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, nothing, first)


def _vectors(context: Any, builder: Any, vector: VectorType, kinds: Any, args: Any) -> list[Any]:
    """Return the arguments as vectors; a number becomes a vector of equal numbers."""
    return [
        value
        if isinstance(kind, VectorType)
        else _repeat(context, builder, vector, context.cast(builder, value, kind, vector.scalar))
        for kind, value in zip(kinds, args, strict=True)
    ]


def _common(*kinds: Any) -> Any:
    """Return the type of an expression of vectors of one type and numbers; else None."""
    vectors = [kind for kind in kinds if isinstance(kind, VectorType)]
    fit = all(isinstance(kind, VectorType | types.Float | types.Integer) for kind in kinds)
    return vectors[0] if vectors and fit and len(set(vectors)) == 1 else None


def _operator(symbol: Callable[..., Any], instruction: str) -> None:
    """Define an operator of two vectors, or of a vector and a number, by LLVM's instruction."""

    @intrinsic
    def compute(typing: Any, a: Any, b: Any) -> Any:
        vector = _common(a, b)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            operands = _vectors(context, builder, vector, sig.args, args)
            return getattr(builder, instruction)(*operands, flags=("contract",))

        return vector(a, b), generate

    @overload(symbol, strict=False)
    def choose(a: Any, b: Any) -> Any:
        return (lambda a, b: compute(a, b)) if _common(a, b) else None


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


@intrinsic
def rounded_product(typing: Any, a: Any, b: Any) -> Any:
    """Return a·b, rounded: sums do not contract it. So a·b − c·d is exactly −(c·d − a·b).

    numba allows contraction of all products. LLVM's fma(a, b, −0) is none, and as fast.
    """
    vector = _common(a, b)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = _vectors(context, builder, vector, sig.args, args)
        kind = a.type
        full = f"llvm.fma.v{vector.count}f{vector.scalar.bitwidth}"
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(kind, [kind] * 3), full
        )
        return builder.call(function, (a, b, ir.Constant(kind, [-0.0] * vector.count)))

    return vector(a, b), generate


def _function(name: str) -> Any:
    """Return a function of one vector that is an intrinsic of LLVM."""

    @intrinsic
    def compute(typing: Any, a: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            kind = args[0].type
            full = f"llvm.{name}.v{a.count}f{a.scalar.bitwidth}"
            signature = ir.FunctionType(kind, [kind])
            function = cgutils.get_or_insert_function(builder.module, signature, full)
            return builder.call(function, args)

        return (a(a), generate) if isinstance(a, VectorType) else None

    return compute


sqrt = _function("sqrt")
fabs = _function("fabs")
floor = _function("floor")


@intrinsic
def where_less(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x where a < b, and y elsewhere, NaN included."""
    vector = _common(a, b, x, y)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b, x, y = _vectors(context, builder, vector, sig.args, args)
        return builder.select(builder.fcmp_ordered("<", a, b), x, y)

    return vector(a, b, x, y), generate


@intrinsic
def any_less(typing: Any, a: Any, b: Any) -> Any:
    """Return whether a < b for any of the numbers."""
    vector = _common(a, b)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        less = builder.fcmp_ordered("<", *_vectors(context, builder, vector, sig.args, args))
        bits = ir.IntType(vector.count)
        return builder.icmp_unsigned("!=", builder.bitcast(less, bits), bits(0))

    return types.boolean(a, b), generate


@intrinsic
def any_negative(typing: Any, a: Any) -> Any:
    """Return whether the sign of any of the numbers is set: cheaper than `any_less` of zero.

    Signs of short vectors are joined bit by bit, which keeps the units of products free.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        bits, count = a.scalar.bitwidth, a.count
        number = ir.IntType(bits)
        signs = builder.bitcast(args[0], ir.VectorType(number, count))
        while count * bits > 8 * LINE_BYTES:
            count //= 2
            halves = [
                ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(first, first + count)))
                for first in (0, count)
            ]
            first, second = (builder.shuffle_vector(signs, signs, half) for half in halves)
            signs = builder.or_(first, second)
        zero = ir.Constant(ir.VectorType(number, count), [0] * count)
        mask = ir.IntType(count)
        negative = builder.bitcast(builder.icmp_signed("<", signs, zero), mask)
        return builder.icmp_unsigned("!=", negative, mask(0))

    return types.boolean(a), generate


@intrinsic
def align_stack(typing: Any) -> Any:
    """Align the calling function's stack to cache lines.

    Vectors that find no register are kept on the stack. Without alignment each of them lies on
    two cache lines, in three of four processes: layers took 20 % more time (AMD EPYC Zen 4).
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        line = ir.ArrayType(ir.IntType(8), LINE_BYTES)
        with builder.goto_entry_block():
            place = builder.alloca(line)
            place.align = LINE_BYTES
        # An empty instruction that takes the address: LLVM would remove an unused line.
        builder.asm(ir.FunctionType(ir.VoidType(), [line.as_pointer()]), "", "r", [place], True)
        return context.get_dummy_value()

    return types.void(), generate


def _place(
    context: Any, builder: Any, kind: Any, array: Any, index: Any, vector: VectorType
) -> Any:
    """Return the address of array[index], as the address of a vector."""
    if isinstance(kind, NumbersType):
        data = array
    else:
        data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), context.get_value_type(vector).as_pointer())


@intrinsic
def load_like(typing: Any, array: Any, index: Any, kind: Any) -> Any:
    """Read a vector from array[index:], of the length and the precision of the vector `kind`."""
    narrow = VectorType(array.dtype, kind.count * array.dtype.bitwidth // 8)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, sig.args[0], args[0], args[1], narrow)
        value = builder.load(place, align=narrow.scalar.bitwidth // 8)
        return value if narrow == kind else builder.fpext(value, context.get_value_type(kind))

    return kind(array, types.intp, kind), generate


def _loader(size: int) -> Any:
    """Return a function that reads a vector of `size` bytes from array[index:]."""

    @intrinsic
    def compute(typing: Any, array: Any, index: Any) -> Any:
        vector = VectorType(array.dtype, size)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            place = _place(context, builder, sig.args[0], args[0], args[1], vector)
            return builder.load(place, align=vector.scalar.bitwidth // 8)

        return vector(array, types.intp), generate

    return compute


load = _loader(VECTOR_BYTES)
load_line = _loader(LINE_BYTES)


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector or a number to array[index:]."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = _place(context, builder, sig.args[0], args[0], args[1], vector)
        builder.store(args[2], place, align=sig.args[0].dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def repeat_like(typing: Any, value: Any, kind: Any) -> Any:
    """Return a vector like `kind`, of equal numbers."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _vectors(context, builder, kind, [sig.args[0]], args[:1])[0]

    return kind(value, kind), generate

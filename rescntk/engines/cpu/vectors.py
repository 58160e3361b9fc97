"""Vectors of numbers as a type that numba compiles: the loops of the engine "numba" use them.

LLVM can turn a loop over numbers into a loop over vectors by itself. It then keeps the
polynomials' coefficients in registers, of which there are too few, and waits for each vector.
Here a vector is as long as several registers of the processor. Independent instructions then
lie side by side, and a coefficient is read where it is used.

Operators +, −, * and / take vectors and numbers. a·b + c may be contracted to one rounding,
unless the product is `rounded_product`.

Loops read and write `Numbers`: the address of an array's numbers. Each array that is passed to a
compiled function costs two atomic operations, an address costs none. With arrays, a tenth to a
quarter of the time was lost (float64 and float32, groups of 3200 pixel pairs).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import (
    AbstractTemplate,
    AttributeTemplate,
    infer_getattr,
    infer_global,
)
from numba.extending import intrinsic, lower_builtin, lower_getattr_generic, models, register_model

LINE_BYTES = 64
"""Bytes of a cache line, and of a short vector (`load_line`)."""

VECTOR_BYTES = 256 if llvmlite.binding.get_host_cpu_features().get("avx512f") else 64
"""Bytes of a vector of `load`.

Longer vectors put more independent instructions side by side, but need more registers. 256 are
four registers of AVX-512; 64 are two of AVX, chosen without measurement. With AVX-512
a pixel pair and layer, both kernels, take 1.45 ns with vectors by LLVM, 1.29 with vectors of one
register, 1.16 of two, 1.03 of four.
"""

REGISTER_BYTES = 64 if VECTOR_BYTES == 256 else 32
"""Bytes of a register, the vector of `load_register`."""

Vector = Any
"""A value of `VectorType` in compiled code, which mypy cannot know."""

Numbers = Any
"""The address of an array's numbers in compiled code (`addresses`), which the array must outlive.

`per_vector`, `per_line` and `per_register` are the numbers in a vector of `load`, `load_line` and
`load_register`.
"""


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


# -- addresses


_BYTES = {"per_vector": VECTOR_BYTES, "per_line": LINE_BYTES, "per_register": REGISTER_BYTES}
"""Attributes of addresses, and the bytes whose numbers they count."""


@infer_getattr
class _Counts(AttributeTemplate):
    key = types.CPointer

    def generic_resolve(self, numbers: Any, name: str) -> Any:
        return types.intp if name in _BYTES else None


@lower_getattr_generic(types.CPointer)
def _count(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    return context.get_constant(types.intp, _BYTES[name] * 8 // kind.dtype.bitwidth)


# -- arithmetic


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


def _elementwise(build: Callable[..., Any], *kinds: Any, result: Any = None) -> Any:
    """Return the signature and the code of a function of vectors of one type and numbers.

    `build` takes LLVM's builder and the vectors; `result` is its type, None for a vector.
    """
    vector = _common(*kinds)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return build(builder, *_vectors(context, builder, vector, sig.args, args))

    return (result or vector)(*kinds), generate


def _operator(symbol: Callable[..., Any], instruction: str) -> None:
    """Define an operator of two vectors, or of a vector and a number, by LLVM's instruction."""

    @infer_global(symbol)
    class _Result(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            vector = _common(*args)
            return vector(*args) if vector else None

    def compute(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = _vectors(context, builder, sig.return_type, sig.args, args)
        return getattr(builder, instruction)(a, b, flags=("contract",))

    for kinds in permutations((VectorType, VectorType, types.Number), 2):
        lower_builtin(symbol, *kinds)(compute)


_operator(operator.add, "fadd")
_operator(operator.sub, "fsub")
_operator(operator.mul, "fmul")
_operator(operator.truediv, "fdiv")


def _call(name: str, builder: Any, *operands: Any) -> Any:
    """Call a function of LLVM on vectors of one type."""
    kind = operands[0].type
    bits = 64 if isinstance(kind.element, ir.DoubleType) else 32
    signature = ir.FunctionType(kind, [kind] * len(operands))
    full = f"llvm.{name}.v{kind.count}f{bits}"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, full), operands)


def _function(name: str) -> Any:
    """Return a function of one vector that is a function of LLVM."""
    return intrinsic(lambda typing, a: _elementwise(partial(_call, name), a))


sqrt, fabs, floor = map(_function, ("sqrt", "fabs", "floor"))


@intrinsic
def rounded_product(typing: Any, a: Any, b: Any) -> Any:
    """Return a·b, rounded: sums do not contract it. So a·b − c·d is exactly −(c·d − a·b).

    numba allows contraction of all products. LLVM's fma(a, b, −0) is none, and as fast.
    """

    def build(builder: Any, a: Any, b: Any) -> Any:
        return _call("fma", builder, a, b, ir.Constant(a.type, [-0.0] * a.type.count))

    return _elementwise(build, a, b)


@intrinsic
def where_less(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x where a < b, and y elsewhere, NaN included."""

    def build(builder: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", a, b), x, y)

    return _elementwise(build, a, b, x, y)


@intrinsic
def inverse_root(typing: Any, a: Any) -> Any:
    """Return 1/√a within a few rounding units, and a large number where a is 0.

    Newton's method from a guess by the exponent's bits: a root and a division take three times as
    long (AVX-512, float64).
    """
    bits = a.scalar.bitwidth
    guess, steps = {64: (0x5FE6EB50C7B537A9, 4), 32: (0x5F375A86, 3)}[bits]
    whole = ir.VectorType(ir.IntType(bits), a.count)

    def build(builder: Any, a: Any) -> Any:
        def every(kind: Any, value: Any) -> Any:
            return ir.Constant(kind, [value] * kind.count)

        halved = builder.lshr(builder.bitcast(a, whole), every(whole, 1))
        root = builder.bitcast(builder.sub(every(whole, guess), halved), a.type)
        half, flags = builder.fmul(a, every(a.type, 0.5)), ("contract",)
        for _ in range(steps):
            square = builder.fmul(builder.fmul(half, root, flags), root, flags)
            remainder = builder.fsub(every(a.type, 0.5), square, flags)
            root = builder.fadd(root, builder.fmul(root, remainder, flags), flags)
        return root

    return _elementwise(build, a)


@intrinsic
def any_negative(typing: Any, a: Any) -> Any:
    """Return whether the sign of any of the numbers is set.

    Signs of short vectors are joined bit by bit, which keeps the units of products free.
    """
    bits, number = a.scalar.bitwidth, ir.IntType(a.scalar.bitwidth)

    def build(builder: Any, vector: Any) -> Any:
        count = a.count
        signs = builder.bitcast(vector, ir.VectorType(number, count))
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

    return _elementwise(build, a, result=types.boolean)


@intrinsic
def sum_numbers(typing: Any, a: Any) -> Any:
    """Return the sum of the numbers, added up in any order."""

    def build(builder: Any, vector: Any) -> Any:
        number, kind = vector.type.element, vector.type
        name = f"llvm.vector.reduce.fadd.v{kind.count}f{a.scalar.bitwidth}"
        signature = ir.FunctionType(number, [number, kind])
        add = cgutils.get_or_insert_function(builder.module, signature, name)
        return builder.call(add, [ir.Constant(number, -0.0), vector], fastmath=("reassoc",))

    return _elementwise(build, a, result=a.scalar)


@intrinsic
def align_stack(typing: Any) -> Any:
    """Align the calling function's stack to cache lines.

    Vectors that find no register are kept on the stack. Without alignment each of them lies on
    two cache lines, in three of four processes: layers took 20 % more time.
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


# -- loads and stores


def _read(kind: VectorType, *arguments: Any) -> Any:
    """Return the signature and the code of a load of `kind` from numbers[index:]."""
    dtype = arguments[0].dtype
    narrow = VectorType(dtype, kind.count * dtype.bitwidth // 8)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address = context.get_value_type(narrow).as_pointer()
        place = builder.bitcast(builder.gep(args[0], [args[1]]), address)
        value = builder.load(place, align=dtype.bitwidth // 8)
        return value if narrow == kind else builder.fpext(value, context.get_value_type(kind))

    return kind(*arguments), generate


def _load(size: int) -> Any:
    """Return a function of an array's numbers and an index that reads a vector of `size` bytes."""
    return intrinsic(
        lambda typing, numbers, index: _read(VectorType(numbers.dtype, size), numbers, types.intp)
    )


load, load_line, load_register = map(_load, (VECTOR_BYTES, LINE_BYTES, REGISTER_BYTES))


@intrinsic
def load_like(typing: Any, numbers: Any, index: Any, kind: Any) -> Any:
    """Read a vector of the length and the precision of the vector `kind`."""
    return _read(kind, numbers, types.intp, kind)


@intrinsic
def store(typing: Any, numbers: Any, index: Any, vector: Any) -> Any:
    """Write a vector to numbers[index:]."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        place = builder.bitcast(builder.gep(args[0], [args[1]]), args[2].type.as_pointer())
        builder.store(args[2], place, align=vector.scalar.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(numbers, types.intp, vector), generate


@intrinsic
def repeat_like(typing: Any, value: Any, kind: Any) -> Any:
    """Return a vector like `kind`, of equal numbers."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _vectors(context, builder, kind, [sig.args[0]], args[:1])[0]

    return kind(value, kind), generate


@intrinsic
def places_like(typing: Any, kind: Any) -> Any:
    """Return a vector like `kind` of the numbers 0, 1, 2, …"""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(kind), list(map(float, range(kind.count))))

    return kind(kind), generate


@intrinsic
def repeat_each(typing: Any, numbers: Any, index: Any, pixels: Any, kind: Any) -> Any:
    """Return a vector like `kind`: `pixels` numbers from numbers[index:], in equal stretches.

    A stretch is at least half a line.
    """
    parts = 2 * VECTOR_BYTES // LINE_BYTES
    part = VectorType(kind.scalar, LINE_BYTES // 2)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, first, number = args[:3]
        vectors = []
        for k in range(parts):
            moved = builder.udiv(builder.mul(number, number.type(k)), number.type(parts))
            value = builder.load(builder.gep(address, [builder.add(first, moved)]))
            vectors.append(_repeat(context, builder, part, value))
        while len(vectors) > 1:
            count = 2 * vectors[0].type.count
            both = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [builder.shuffle_vector(*pair, both) for pair in pairs]
        return vectors[0]

    return kind(numbers, types.intp, types.intp, kind), generate

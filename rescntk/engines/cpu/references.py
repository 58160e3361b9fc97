"""Addresses of arrays, and references to NamedTuples: compiled functions pass them as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.cgutils import alloca_once_value
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_getattr_generic, models, register_model


class ReferenceType(types.Type):
    """Numba's type of the address of a NamedTuple, whose fields are read as the tuple's."""

    def __init__(self, record: Any) -> None:
        self.record = record
        super().__init__(name=f"Reference({record})")


@register_model(ReferenceType)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, manager: Any, reference: ReferenceType) -> None:
        record = manager.lookup(reference.record).get_value_type()
        super().__init__(manager, reference, record.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = ReferenceType

    def generic_resolve(self, reference: Any, name: str) -> Any:
        fields = reference.record.fields
        return reference.record[fields.index(name)] if name in fields else None


@lower_getattr_generic(ReferenceType)
def _read_field(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    at = reference.record.fields.index(name)
    field = builder.load(cgutils.gep_inbounds(builder, value, 0, at))
    return impl_ret_borrowed(context, builder, reference.record[at], field)


@intrinsic
def addresses(typing: Any, record: Any) -> Any:
    """Return an array's address, or a reference to a NamedTuple of addresses and numbers.

    Arrays of records stay arrays, and plain tuples stay tuples. A reference is passed as one
    number, a tuple field by field. It is valid until the function that calls `addresses` returns,
    or comes to the same call again. Who calls keeps the arrays.
    """
    kind, build = _addressed(record)
    return kind(record), lambda context, builder, sig, args: build(context, builder, args[0])


@intrinsic
def reference(typing: Any, record: Any) -> Any:
    """Return a reference to a NamedTuple, whose arrays stay arrays."""
    kind = ReferenceType(record)
    return kind(record), lambda context, builder, sig, args: alloca_once_value(builder, args[0])


def _addressed(kind: Any) -> tuple[Any, Callable[[Any, Any, Any], Any]]:
    """Return the type of `addresses`, and the function that makes its value."""
    if isinstance(kind, types.Array) and not isinstance(kind.dtype, types.Record):
        pointer = types.CPointer(kind.dtype)
        return pointer, lambda context, *at: context.make_array(kind)(context, *at).data
    if not isinstance(kind, types.BaseTuple):
        return kind, lambda context, builder, value: value
    fields = [_addressed(field) for field in kind]
    named = getattr(kind, "instance_class", None)
    record = types.BaseTuple.from_types([field for field, _ in fields], named)

    def build(context: Any, builder: Any, value: Any) -> Any:
        values = [
            make(context, builder, builder.extract_value(value, place))
            for place, (_, make) in enumerate(fields)
        ]
        tuple_value = context.make_tuple(builder, record, values)
        return alloca_once_value(builder, tuple_value) if named else tuple_value

    return ReferenceType(record) if named else record, build

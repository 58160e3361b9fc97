"""`once`: a property that is computed at its first use and kept, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

Value = TypeVar("Value")


class once(Generic[Value]):
    """Decorate a method without arguments: a property, made when it is first asked for.

    If several threads ask for it at once, each of them computes it. `functools.cached_property` has
    one lock for all objects in Python 3.11: threads wait for each other, and a process that forks
    meanwhile waits for ever.
    """

    def __init__(self, make: Callable[[Any], Value]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Value:
        if instance is None:
            return cast(Value, self)
        value = instance.__dict__[self._name] = self._make(instance)
        return value

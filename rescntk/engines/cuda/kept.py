"""Results of methods of layers, made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

T = TypeVar("T")


def once_a_layer(method: Callable[[Any, int], T]) -> Callable[[Any, int], T]:
    """Decorate a method of a layer: an object that is kept has its results at once."""
    name = f"_{getattr(method, '__name__', '')}_of_layers"

    @wraps(method)
    def result(self: Any, layer: int) -> T:
        known = self.__dict__.setdefault(name, {})
        if layer not in known:
            known[layer] = method(self, layer)
        return cast(T, known[layer])

    return result

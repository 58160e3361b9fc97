"""Constants of networks and lengths, kept between calls of kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

from ..protocol import Request

T = TypeVar("T")

_NUMBER = 64
"""The number of objects that are kept, the last ones asked for.

A larger number serves more networks and lengths in turn; an estimator has some 20. A smaller one
takes less memory: the constants of a layer take 1.5 kB, 30 MB in all at most.
"""

_DEPTH = 300
"""The largest depth of networks whose constants are kept. A larger number takes more memory."""


def between_calls(make: Callable[[Request, int, int], T]) -> Callable[[Request, int, int], T]:
    """Return a function of a request, channels and length that shares its results between calls.

    Results are read only. For deeper networks they are made anew.
    """
    kept = lru_cache(maxsize=_NUMBER)(make)

    @wraps(kept, updated=())
    def result(request: Request, n_channels: int, d: int) -> T:
        key = replace(request, threads=None, copied_bytes=0)  # nothing depends on these
        return (make if key.depths[-1] > _DEPTH else kept)(key, n_channels, d)

    result.cache_info = kept.cache_info  # type: ignore[attr-defined]
    return result


def with_object(owner: Any, name: Hashable, make: Callable[[], T]) -> T:
    """Return what `make` returns, which an object that is kept has from its first call on."""
    known = owner.__dict__.setdefault("_made", {})
    if name not in known:
        known[name] = make()
    return cast(T, known[name])


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

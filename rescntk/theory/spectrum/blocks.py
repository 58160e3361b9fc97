"""Blocks that cover an array, whole in its last axes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

Block = tuple[slice, ...]


def whole(shape: tuple[int, ...]) -> Block:
    """Return the block of all entries of an array."""
    return tuple(slice(0, length) for length in shape)


def blocks(shape: tuple[int, ...], entries: int) -> Iterator[Block]:
    """Yield blocks of at most `entries` entries that cover an array."""
    lead = leading(shape, entries)
    rest = whole(shape[lead:])
    if lead == 0:
        yield rest
        return
    step = max(1, entries // math.prod(shape[lead:]))
    for index in product(*map(range, shape[: lead - 1])):
        fixed = tuple(slice(i, i + 1) for i in index)
        for start in range(0, shape[lead - 1], step):
            yield (*fixed, slice(start, min(start + step, shape[lead - 1])), *rest)


def leading(shape: tuple[int, ...], entries: int) -> int:
    """Return the number of leading axes that `blocks` cuts."""
    return next(m for m in range(len(shape) + 1) if math.prod(shape[m:]) <= entries)

"""Least memory of a request, by which calls that cannot fit are refused before any work."""

from __future__ import annotations

import numpy as np

from .protocol import Request


def table_bytes(request: Request, d: int) -> int:
    """Return the bytes of the tables of two signals of `d` pixels, and of each layer's constants.

    Every engine holds the tables of a left and of a right signal: two numbers for each pixel and
    layer (`Pixels.half_root` and `Pixels.inverse`).
    """
    layers = request.depths[-1] + 1
    return layers * (2 * 2 * d * np.dtype(request.dtype).itemsize + 8)


def result_bytes(request: Request, pairs: int, held: int) -> int:
    """Return the bytes of the results of `pairs` pairs, at the moment when most of them are held.

    The engine holds `held` float64 arrays of all results. The caller then copies one kind after
    another, and drops a kind's values when its copy is made.
    """
    values = 8 * len(request.depths) * pairs
    copied, kinds = request.copied_bytes * pairs, len(request.kinds)
    return max(held * kinds * values, kinds * values + copied, values + kinds * copied)

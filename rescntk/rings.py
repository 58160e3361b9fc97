"""Circular moving sums along the first axis of arrays that carry their own halo.

A *ring* of length d is an array of d + 2h entries along axis 0: the pixels, and at each end
a halo that repeats the h pixels of the other end (wrapping around as often as it must).
"""

from __future__ import annotations

from typing import Any

from .arrays import Array


def fill_halo(ring: Array, halo: int) -> None:
    """Copy the pixels ``ring[halo:-halo]`` into the halo at both ends."""
    d = len(ring) - 2 * halo
    if halo == 0:
        return
    if halo <= d:
        ring[:halo] = ring[d : d + halo]
        ring[d + halo :] = ring[halo : 2 * halo]
        return
    for k in range(halo):
        ring[halo - 1 - k] = ring[halo - 1 - k + d]
        ring[halo + d + k] = ring[halo + k]


def moving_sum(
    xp: Any, ring: Array, size: int, halo: int, out: Array, spare: tuple[Array, Array]
) -> Array:
    """Return sums over windows of `size` (odd) centred at each pixel of a filled ring.

    The window's length is a sum of powers of two, and sums over windows of 2, 4, 8 … come
    from one another by one addition: about 2 log2(size) additions, in an order that is the
    same for every pixel.

    Parameters
    ----------
    ring : array, (d + 2 * halo, ...)
        With its halo filled. It is not written to.
    size : int
        Odd, at most ``2 * halo + 1``.
    out : array, (d, ...)
        Where the sums go.
    spare : two arrays like `ring`
        Scratch space.

    Returns
    -------
    array, (d, ...)
        `out`; or, for `size` 1, a view of `ring`.
    """
    d = len(ring) - 2 * halo
    start = halo - size // 2
    doubled = ring[start : start + d + size - 1]  # sums over windows of `width` from here on
    total = doubled[:d]
    offset, width = 1, 1
    while 2 * width <= size:
        target = spare[width.bit_length() % 2][: len(doubled) - width]
        doubled = xp.add(doubled[:-width], doubled[width:], out=target)
        width *= 2
        if size & width:
            total = xp.add(total, doubled[offset : offset + d], out=out)
            offset += width
    return total


def circular_sum(xp: Any, pixels: Array, size: int) -> Array:
    """Return the sum over the window of `size` around each pixel of axis 0."""
    if size == 1:
        return pixels
    halo = size // 2
    ring = xp.empty((len(pixels) + 2 * halo, *pixels.shape[1:]), dtype=pixels.dtype)
    ring[halo : halo + len(pixels)] = pixels
    fill_halo(ring, halo)
    spare = (xp.empty_like(ring), xp.empty_like(ring))
    return moving_sum(xp, ring, size, halo, xp.empty_like(pixels), spare)

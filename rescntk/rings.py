"""Circular moving sums along axis 0, the pixels of a row.

A *ring* is an array of d + 2h entries along axis 0: a halo of h entries, the d pixels, and
another halo of h entries. Each halo repeats the pixels next to the other end. A halo longer
than d wraps around several times.
"""

from __future__ import annotations

from types import ModuleType

from .arrays import Array, ArrayT


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
    xp: ModuleType,
    ring: ArrayT,
    size: int,
    halo: int,
    out: ArrayT,
    spare: tuple[ArrayT, ArrayT],
) -> ArrayT:
    """Return sums over windows of `size` (odd) centred at each pixel of a filled ring.

    Sums over windows of 2, 4, 8, … pixels come from one another by one addition each. The
    window of `size` is cut into windows of these lengths. Together this takes about
    2 log2(size) additions, in the same order for every pixel.

    Parameters
    ----------
    ring : array, (d + 2 * halo, ...)
        With its halo filled. It is not written to.
    size : int
        Odd, at most ``2 * halo + 1``.
    out : array, (d, ...)
        Memory for the sums.
    spare : two arrays like `ring`
        Further memory.

    Returns
    -------
    array, (d, ...)
        `out`; or, for `size` 1, a view of `ring`.
    """
    d = len(ring) - 2 * halo
    start = halo - size // 2
    doubled = ring[start : start + d + size - 1]  # sums over windows of `width` from here on
    total: ArrayT = doubled[:d]
    offset, width = 1, 1
    while 2 * width <= size:
        target = spare[width.bit_length() % 2][: len(doubled) - width]
        doubled = xp.add(doubled[:-width], doubled[width:], out=target)
        width *= 2
        if size & width:
            total = xp.add(total, doubled[offset : offset + d], out=out)
            offset += width
    return total


def circular_sum(xp: ModuleType, pixels: ArrayT, size: int) -> ArrayT:
    """Return the sum over the window of `size` around each pixel of axis 0."""
    if size == 1:
        return pixels
    halo = size // 2
    ring = xp.empty((len(pixels) + 2 * halo, *pixels.shape[1:]), dtype=pixels.dtype)
    ring[halo : halo + len(pixels)] = pixels
    fill_halo(ring, halo)
    spare = (xp.empty_like(ring), xp.empty_like(ring))
    return moving_sum(xp, ring, size, halo, xp.empty_like(pixels), spare)

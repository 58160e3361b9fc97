"""Memory of finite networks: calls that will not fit are refused with the figure."""

from __future__ import annotations

import os


def available_bytes() -> int:
    """Return the machine's physical memory in bytes, 2**62 where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 2**62


def check_memory(needed: int, limit: int, what: str, remedy: str) -> None:
    """Say so if `needed` bytes are more than `limit`.

    Parameters
    ----------
    needed, limit : int
        In bytes.
    what : str
        What takes the memory, as the subject of the sentence.
    remedy : str
        What to change, after "expected at most … GiB: ".

    Raises
    ------
    MemoryError
        Naming both figures.
    """
    if needed > limit:
        raise MemoryError(
            f"{what} would take {needed / 2**30:.3g} GiB, "
            f"expected at most {limit / 2**30:.3g} GiB: {remedy}"
        )

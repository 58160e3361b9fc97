"""Loads the compiled library for the best instruction set of this processor.

If there is none, `why_not` returns the reason. The environment variable RESCNTK_ISA chooses another
level: 2, 3 or 4 (build.py), or "asan".
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

import numpy as np

from ..compiled.records import constant, names_of, pointer

HERE = Path(__file__).parent
COMPILE = "python -m rescntk.engines.cpu.build"

MOST_LANES = constant((HERE.parent / "compiled/lanes.h").read_text("utf-8"), "MOST_LANES")
"""The largest number of lanes of a vector. Each line of pixels that is stored twice is followed by
this many numbers, and the number of right signals of a task is a multiple of it."""

_STRIP = (HERE / "strip.h").read_text("utf-8")
MOST_STRIPS, MOST_VECTORS = (constant(_STRIP, name) for name in ("MOST_STRIPS", "MOST_VECTORS"))
"""The largest numbers of strips that go through the layers together, and of vectors of pixel pairs
in all of these strips."""

STATUS = names_of((HERE / "loops.cpp").read_text("utf-8"), "Status")
"""The ways in which a job may end, in the order of `Status`."""


class Missing(ImportError):
    """Raised if the compiled loops cannot be used. The message is one line with the reason."""


@cache
def library() -> ctypes.CDLL:
    """Load and return the library, or raise Missing."""
    forced = os.environ.get("RESCNTK_ISA", "")
    if not (HERE / f"loops-{forced or 2}.so").exists():
        file = HERE / "missing.txt"
        reason = file.read_text("utf-8").strip() if file.exists() else "they were never compiled"
        if forced:
            reason = f"there is no level {forced}, which RESCNTK_ISA asks for"
        raise Missing(f"there are no compiled loops: {reason}; to compile: {COMPILE}")
    best = level() if forced != "asan" else 0
    if best == 1 or (forced.isdigit() and int(forced) > best):
        raise Missing(f"the processor has level {best}, expected {forced or 2} (RESCNTK_ISA)")
    runs = "rescntk_run_float64", "rescntk_run_float32"
    opened = _opened(forced or str(best), "rescntk_sources", "rescntk_vector_bytes", *runs)
    opened.rescntk_sources.restype = ctypes.c_char_p
    from . import build  # which is also run as a program

    if opened.rescntk_sources().decode().partition("-")[0] != build.digest():
        raise Missing(f"the compiled loops are not of loops.cpp beside them; to compile: {COMPILE}")
    for run in (getattr(opened, name) for name in runs):
        run.argtypes, run.restype = (ctypes.c_void_p,), ctypes.c_int
    return opened


def level() -> int:
    """Return the best of the levels in build.py that this processor supports."""
    return int(_opened("2", "rescntk_level").rescntk_level())


@cache
def lanes(dtype: str) -> int:
    """Return the number of lanes of the loops' vectors in a precision."""
    return int(library().rescntk_vector_bytes()) // np.dtype(dtype).itemsize


def _opened(level: str, *functions: str) -> ctypes.CDLL:
    """Return the library of a level, or raise Missing if it lacks one of `functions`."""
    file = HERE / f"loops-{level}.so"
    try:
        opened = ctypes.CDLL(str(file))
    except OSError as error:
        raise Missing(f"the compiled loops do not load: {error}; to compile: {COMPILE}") from None
    if lacking := [name for name in functions if not hasattr(opened, name)]:
        raise Missing(f"{file} has no function {lacking[0]}; to compile: {COMPILE}")
    return opened


def why_not() -> str | None:
    """Return why the compiled loops do not work here, or None."""
    try:
        library()
    except Missing as error:
        return str(error)
    return None


def run(job: np.ndarray, dtype: str) -> None:
    """Compute a job, or return early if its stop flag is set."""
    result = getattr(library(), f"rescntk_run_{dtype}")(pointer(job))
    status = STATUS[result]
    if status == "no memory":
        raise MemoryError("the memory is full: give shorter signals, or fewer threads")
    if status == "other version":
        raise RuntimeError(f"the compiled loops refuse this job's layout; to compile: {COMPILE}")

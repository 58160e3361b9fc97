"""The compiled library of this processor's best instruction set, or why there is none.

RESCNTK_ISA in the environment takes another level: 2, 3 or 4 (build.py), or "asan".
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
"""The most lanes of a vector. Each doubled line of pixels is padded by as many numbers, and a task
has a multiple of as many right signals."""

_STRIP = (HERE / "strip.h").read_text("utf-8")
MOST_STRIPS, MOST_ROWS = (constant(_STRIP, name) for name in ("MOST_STRIPS", "MOST_ROWS"))
"""The most strips that go through the layers together, and the most rows of them."""

STATUS = names_of((HERE / "loops.cpp").read_text("utf-8"), "Status")
"""How a job may end, in the order of `Status`."""


class Missing(ImportError):
    """There are no compiled loops here; the text is one line that says why."""


@cache
def library() -> ctypes.CDLL:
    """Return the loaded library, or raise Missing."""
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
    library_of_level = _opened(forced or str(best), "rescntk_sources", "rescntk_bytes", *runs)
    library_of_level.rescntk_sources.restype = ctypes.c_char_p
    from . import build  # which is also run as a program

    if library_of_level.rescntk_sources().decode().partition("-")[0] != build.digest():
        raise Missing(f"the compiled loops are not of loops.cpp beside them; to compile: {COMPILE}")
    for run in (getattr(library_of_level, name) for name in runs):
        run.argtypes, run.restype = (ctypes.c_void_p,), ctypes.c_int
    return library_of_level


def level() -> int:
    """Return the best level of build.py's that this processor has."""
    return int(_opened("2", "rescntk_level").rescntk_level())


@cache
def lanes(dtype: str) -> int:
    """Return the number of lanes of the loops' vectors: right signals that lie side by side."""
    return int(library().rescntk_bytes()) // np.dtype(dtype).itemsize


def _opened(level: str, *functions: str) -> ctypes.CDLL:
    """Return the library of a level with all of some functions, or raise Missing."""
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
    """Compute a job, or return early once its stop flag is set."""
    result = getattr(library(), f"rescntk_run_{dtype}")(pointer(job))
    status = STATUS[result]
    if status == "no memory":
        raise MemoryError("the memory is full: give shorter signals, or fewer threads")
    if status == "other version":
        raise RuntimeError(f"the compiled loops refuse this job's layout; to compile: {COMPILE}")

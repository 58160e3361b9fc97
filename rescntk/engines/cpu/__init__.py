"""The engine "numba": rows of pixel pairs computed by compiled loops on the CPU.

engine.py has the three acts of a run: plan, tables, run. The compiled loops stand in rows.py (all
layers), layers.py (one layer), sums.py (moving sums and merges) and heads.py (sums over pixels).
They compute with the vectors of vectors.py.

`why_not` tries the loops before their first use. numba fails in many ways that depend on the
environment: compilation switched off, no threads, no folder for compiled code, files of compiled
code that were cut short. Each failure becomes a reason, and damaged files are removed.
"""

from __future__ import annotations

import os
import pickle
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from ...network import Network
from ...validation import KINDS
from ..protocol import Request, silent


@cache
def why_not(dtype: str) -> str | None:
    """Return the reason why the compiled loops do not work in a precision, or None.

    The first call in a process computes the kernel of one short signal. That call compiles the
    loops or reads them from disk, which the next calls then need not do.
    """
    reason = _failure(dtype)
    if reason is None:
        return None
    function = getattr(sys.modules.get(f"{__name__}.rows"), "compute", None)
    folder = getattr(getattr(function, "stats", None), "cache_path", None)
    for path in Path(folder).glob("rows.*.nb[ic]") if folder else ():
        if _is_damaged(path):
            path.unlink(missing_ok=True)
    # Without damaged files numba compiles anew. Where only writing to disk failed, numba has kept
    # the compiled code in memory.
    return _failure(dtype) and reason


def _failure(dtype: str) -> str | None:
    """Return the error of a small Gram in words, None if there is no error."""
    request = Request(Network(1), "trace", KINDS, (1,), dtype)
    try:
        _check_threads()
        engine = import_module(f"{__name__}.engine")
        engine.gram(request, np.ones((1, 1, 1)), None, silent)
    except Exception as error:  # whatever it is: another engine serves
        return _say(error)
    return None


def _check_threads() -> None:
    """Raise a ValueError if the environment sets no number of threads, of which numba uses all."""
    threads = os.environ.get("NUMBA_NUM_THREADS", "1")
    if not threads.strip().isdecimal() or int(threads) < 1:
        raise ValueError(f"NUMBA_NUM_THREADS is {threads!r}, expected an integer of at least 1")


def _say(error: Exception) -> str:
    """Return an error in one line, with the settings of numba in the environment."""
    text = " ".join(str(error).split()) or "no further words"
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    hint = f" (the environment has {', '.join(settings)})" if settings else ""
    return f"{type(error).__name__}: {text}{hint}"


def _is_damaged(path: Path) -> bool:
    """Return whether a file cannot be read as numba reads it."""
    try:
        with path.open("rb") as file:
            pickle.load(file)
            if path.suffix == ".nbi":  # the version of numba first, then the index
                pickle.load(file)
    except Exception:
        return True
    return False

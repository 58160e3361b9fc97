"""Trial of the compiled loops before their first use: they compile here, and the cache is sound.

numba fails in many ways that depend on the environment: compilation switched off, no threads, no
folder for compiled code, files of compiled code that were cut short. Each failure becomes a
reason, and damaged files are removed.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from ...network import Network
from ...validation import KINDS
from ..protocol import Request, silent

_PACKAGE = __name__.rpartition(".")[0]


@cache
def why_not(dtype: str) -> str | None:
    """Return the reason why the compiled loops do not work in a precision, or None.

    The first call in a process computes the kernel of one short signal. That call compiles the
    loops or reads them from disk, which the next calls then need not do.
    """
    reason = _failure(dtype)
    if reason is None:
        return None
    for path in _cached_files():
        if _is_damaged(path):
            path.unlink(missing_ok=True)
    # Without damaged files numba compiles anew. Where only writing to disk failed, numba has kept
    # the compiled code in memory.
    return _failure(dtype) and reason


def _failure(dtype: str) -> str | None:
    """Return the error of a small Gram in words, None if there is no error."""
    request = Request(Network(1), "trace", KINDS, (1,), dtype)
    try:
        engine = import_module(f"{_PACKAGE}.engine")
        engine.gram(request, np.ones((1, 1, 1)), None, silent)
    except Exception as error:  # whatever it is: another engine serves
        return _say(error)
    return None


def _say(error: Exception) -> str:
    """Return an error in one line, with the settings of numba in the environment."""
    text = " ".join(str(error).split()) or "no further words"
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    hint = f" (the environment has {', '.join(settings)})" if settings else ""
    return f"{type(error).__name__}: {text}{hint}"


def _cached_files() -> Iterator[Path]:
    """Yield numba's files of the loops that are kept on disk."""
    for module, loop in (("rows", "compute"), ("merged", "compute_in_deficits")):
        function = getattr(sys.modules.get(f"{_PACKAGE}.{module}"), loop, None)
        folder = getattr(getattr(function, "stats", None), "cache_path", None)
        if folder:
            yield from Path(folder).glob(f"{module}.*.nb[ic]")


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

"""Compilation of the loops: the options of numba, and the cache of compiled code on disk.

Of LLVM's fast-math liberties only "contract" is taken: a·b + c in one rounding. It makes results
more accurate, and leaves alone NaN, infinity and the order of sums.

numba keeps a compiled function on disk until the function's own file changes. It ignores changes
in the functions that are called. Therefore only `rows.compute` is kept on disk, and the contents
of all source files are part of its key (`source_stamp`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from numba import njit

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
"""Options of numba for all compiled functions."""

_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **OPTIONS}

compiled = njit(**_INNER)
"""Decorator of the functions that are called by functions kept on disk, and not from Python.

A call from Python ends the process: a test wraps the function with ``njit(**OPTIONS)`` first.
Without wrappers for Python and C, the first use takes an eighth less time (AMD EPYC Zen 4).
"""

inlined = njit(inline="always", **_INNER)
"""Decorator of a large function with one caller, which LLVM then optimizes once, not twice.

Inlining `rows.pass_layers` saves 1.5 of 11 s.
"""

inlined_by_llvm = njit(forceinline=True, **_INNER)
"""Decorator of the functions of a layer, whose arguments a call would pass through memory.

With calls, GAP and trace take 5 to 12 % more time (d = 100, both precisions, AMD EPYC).
"""

compiled_on_disk = njit(cache=True, **OPTIONS)
"""Decorator of the functions that numba keeps on disk."""


def source_stamp() -> str:
    """Return a digest of all source files that the compiled code is made from."""
    folder = Path(__file__).parent
    shared = ("engines/polynomials.py", "engines/layer.py", "activations.py")
    files = [*sorted(folder.glob("*.py")), *(folder.parents[1] / name for name in shared)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

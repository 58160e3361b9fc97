"""Compilation of the loops: the options of numba, and the cache of compiled code on disk.

Of LLVM's fast-math liberties only "contract" is taken: a·b + c in one rounding. It makes results
more accurate, and leaves alone NaN, infinity and the order of sums.

numba keeps a compiled function on disk until the function's own file changes. It ignores changes
in the functions that are called. Therefore only `rows.compute` is kept on disk, and the contents
of all source files are part of its key (`source_stamp`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from numba import njit, types
from numba.extending import overload

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
"""Options of numba for all compiled functions."""

_WITHOUT_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **OPTIONS}

_INNER = {"forceinline": False, **_WITHOUT_WRAPPERS}
"""Options of functions that are called by compiled functions alone.

Without `forceinline` a function takes its caller's, and the first use an eighth more time.
"""


def _once(decorate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator of functions that are compiled once for all whole numbers in calls.

    numba would compile f(…, 0), f(…, 1) and f(…, n) anew each, a sixth of the first use.
    """

    def decorated(function: Any) -> Any:
        dispatcher = decorate(function)
        find = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: find([*map(types.unliteral, args)], kws)
        return dispatcher

    return decorated


compiled = _once(njit(**_INNER))
"""Decorator of the functions that are called by functions kept on disk, and not from Python.

A call from Python ends the process: a test wraps the function with ``njit(**OPTIONS)`` first.
Without wrappers for Python and C, the first use takes an eighth less time (AMD EPYC Zen 4).
"""

standing_in = partial(overload, jit_options=_WITHOUT_WRAPPERS, strict=False)
"""Decorator factory: compiled code calls another function in the place of a function."""

inlined = njit(inline="always", **_INNER)
"""Decorator of a large function with one caller, which LLVM then optimizes once, not twice.

Inlining `rows.pass_layers` saves 1.5 of 11 s.
"""

inlined_by_llvm = _once(njit(forceinline=True, **_WITHOUT_WRAPPERS))
"""Decorator of the functions of a layer, whose arguments a call would pass through memory.

With calls, GAP and trace take 5 to 12 % more time (d = 100, both precisions, AMD EPYC).
"""

compiled_on_disk = njit(cache=True, **OPTIONS)
"""Decorator of the functions that numba keeps on disk."""


def source_stamp() -> str:
    """Return a digest of all source files that the compiled code is made from."""
    folder = Path(__file__).parent
    names = ("engines/polynomials.py", "engines/layer.py", "engines/doubt.py", "activations.py")
    files = [*sorted(folder.glob("*.py")), *(folder.parents[1] / name for name in names)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

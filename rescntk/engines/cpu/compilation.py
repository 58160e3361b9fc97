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
from types import SimpleNamespace
from typing import Any

from numba import njit, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import overload

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
"""Options of numba for all compiled functions."""


class _Part(JITCodeLibrary):
    """Code of a function that compiled functions alone call, as LLVM takes it from numba.

    numba would optimize each function together with all that it calls, and make machine code of
    both; then once more in the callers. Here this is done once, for `rows.compute`: a quarter less
    time for the first use (Intel Xeon).
    """

    codegen: Any = SimpleNamespace(set_env=lambda name, environment: None)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


_UNUSED = {"InlineClosureLikes", "InlineInlinables", "InlineOverloads", "NopythonRewrites"}
"""numba's passes for closures and array expressions: 6 % of the first use, and of no use here."""


class _PartCompiler(Compiler):
    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, _Part(target.codegen(), "part"), *rest)

    def define_pipelines(self) -> Any:
        (pipeline,) = super().define_pipelines()
        pipeline.passes = [each for each in pipeline.passes if each[0].__name__ not in _UNUSED]
        pipeline.finalize()
        return [pipeline]


_PART = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}


def _once(decorate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator of functions that are compiled once for all whole numbers in calls.

    numba would compile f(…, 0), f(…, 1) and f(…, n) anew each, a tenth of the first use.
    """

    def decorated(function: Any) -> Any:
        dispatcher = decorate(function)
        find = dispatcher.get_call_template
        dispatcher.get_call_template = lambda args, kws: find([*map(types.unliteral, args)], kws)
        return dispatcher

    return decorated


compiled = _once(njit(forceinline=False, **_PART, **OPTIONS))
"""Decorator of the functions that are called by functions kept on disk, and not from Python.

A call from Python ends the process: a test wraps the function with ``njit(**OPTIONS)`` first.
Without `forceinline` a function takes its caller's.
"""

standing_in = partial(overload, jit_options=OPTIONS | _PART, strict=False)
"""Decorator factory: compiled code calls another function in the place of a function."""

inlined_by_llvm = _once(njit(forceinline=True, **_PART, **OPTIONS))
"""Decorator of the functions of a layer, whose arguments a call would pass through memory.

With calls, GAP and trace take 5 to 12 % more time (d = 100, both precisions, AMD EPYC).
"""

compiled_on_disk = njit(cache=True, **OPTIONS)
"""Decorator of the functions that numba keeps on disk."""


def source_stamp() -> str:
    """Return a digest of all source files that the compiled code is made from."""
    folder = Path(__file__).parent
    names = (
        "engines/polynomials.py",
        "engines/layer.py",
        "engines/doubt.py",
        "engines/masses.py",
        "activations.py",
    )
    files = [*sorted(folder.glob("*.py")), *(folder.parents[1] / name for name in names)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

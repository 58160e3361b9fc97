"""Compilation of the loops: the options of numba, and the cache of compiled code on disk.

Of LLVM's fast-math liberties only "contract" is taken: a·b + c in one rounding. It makes results
more accurate, and leaves alone NaN, infinity and the order of sums.

numba keeps a compiled function on disk until the function's own file changes. It ignores changes
in the functions that are called. Therefore only functions that Python calls are kept on disk
(`compiled_on_disk`), and the contents of all source files are part of their keys (`source_stamp`).

vectors.py and references.py add types with numba's low-level interface for extensions, which numba
documents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from numba import njit, types
from numba.core import event
from numba.extending import overload

from ...progress import say

OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
"""Options of numba for all compiled functions."""

_SECONDS = 5
"""Seconds that the compilation of most loops takes, as users are told (AMD EPYC, Zen 5)."""

_TRIED = ((0, 61), (0, 68))
"""The first and the last version of numba with which `_shortcuts` were tried."""


def _shortcuts() -> dict[str, Any]:
    """Return options of numba with which the first use takes 5 s, not 12; none if untried.

    All that is private to numba stands here and in `compiled_on_disk`. Without the options the same
    code is compiled, and the bits are the same (tests/engines/test_environments.py).
    """
    version = tuple(int(part) for part in numba.__version__.split(".")[:2])
    if not _TRIED[0] <= version <= _TRIED[1]:
        return {}
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    class Part(JITCodeLibrary):
        """Code of a function that only compiled functions call, as LLVM takes it from numba.

        numba would optimize each function together with all that it calls, and make machine code
        of both; then once more in the callers. Here this is done once, for what Python calls.
        """

        codegen: Any = SimpleNamespace(set_env=lambda name, environment: None)

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    # Passes for closures and array expressions, which the loops do not have: 6 % of the first use.
    unused = {"InlineClosureLikes", "InlineInlinables", "InlineOverloads", "NopythonRewrites"}

    class PartCompiler(Compiler):
        def __init__(self, typing: Any, target: Any, library: Any, *options: Any) -> None:
            super().__init__(typing, target, Part(target.codegen(), "part"), *options)

        def define_pipelines(self) -> Any:
            (pipeline,) = super().define_pipelines()
            pipeline.passes = [each for each in pipeline.passes if each[0].__name__ not in unused]
            pipeline.finalize()
            return [pipeline]

    return {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}


_PART = _shortcuts()


def _once(decorate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator of functions that are compiled once for all whole numbers in calls.

    numba would compile f(…, 0), f(…, 1) and f(…, n) anew each, a tenth of the first use.
    """

    def decorated(function: Any) -> Any:
        dispatcher = decorate(function)
        if _PART:
            find = dispatcher.get_call_template
            unliteral = types.unliteral
            dispatcher.get_call_template = lambda args, kws: find(
                [*map(unliteral, args)], {name: unliteral(kind) for name, kind in kws.items()}
            )
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

With calls, GAP and trace take 5 to 12 % more time (d = 100, both precisions).
"""


def compiled_on_disk(function: Callable[..., Any]) -> Any:
    """Return a compiled function that numba keeps on disk: one file for each type of arguments.

    numba numbers the files. Two processes that compile at the same time take the same number, and
    one of them later runs the code of the other one's arguments. Here a file's name therefore has a
    digest of its key: the types of the arguments, the processor and the function.
    """
    dispatcher = njit(cache=True, no_cfunc_wrapper=bool(_PART), **OPTIONS)(function)
    _kept_on_disk.add(dispatcher)
    files = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    pattern = getattr(files, "_data_name_pattern", "")
    if files is None or not pattern.endswith(".{number:d}.nbc"):
        return dispatcher  # compilation is switched off, or this numba names its files differently
    begin, save = pattern.removesuffix("{number:d}.nbc"), files.save

    def save_by_key(key: Any, data: Any) -> None:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        files._data_name_pattern = f"{begin}{digest}.{{number:d}}.nbc"
        save(key, data)

    files.save = save_by_key
    return dispatcher


_kept_on_disk: set[Any] = set()  # compiled functions


@cache
def _announce() -> None:
    """Say, once in a process, that loops are compiled."""
    say(
        f"rescntk: compiling loops, some {_SECONDS} seconds for each kind of network and "
        f"precision; later calls read them from disk"
    )


class _Announcement(event.Listener):
    """Announces the compilation of functions that are kept on disk, when it begins."""

    def on_start(self, event: Any) -> None:
        if event.data["dispatcher"] in _kept_on_disk:
            _announce()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Announcement())


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

"""The engines, which compute kernels row by row, and the choice between them.

One table holds the name, the module and the reasons why an engine cannot serve. An engine has
two functions, ``gram`` and ``diagonal``, that take a `Request` and return a `ScaledKernel`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple, cast

import numpy as np

from ..arrays import Array
from ..validation import check_choice
from .protocol import Engine, Request, ScaledKernel

__all__ = ["Engine", "Request", "ScaledKernel", "available", "choose"]


def _numba_is_missing() -> str | None:
    """Return the reason why numba does not work on this machine, or None."""
    if find_spec("numba") is None:
        return "numba is not installed: pip install 'rescntk[cpu]'"
    try:
        import_module(f"{__name__}.cpu.engine")
    except (ImportError, RuntimeError, OSError) as error:
        # A numba that does not fit this NumPy, or no folder to keep compiled code in
        # (NUMBA_CACHE_DIR names one).
        return f"numba does not work here: {' '.join(str(error).split())}"
    return None


def _numba_refuses(request: Request, X: Array) -> str | None:
    """Return the reason why "numba" does not take this request, or None."""
    if not isinstance(X, np.ndarray):
        return "it takes NumPy's arrays, and these are CuPy's"
    activation = request.network.activation
    if activation != "relu":
        return (
            f"it takes activation 'relu', and the network has {activation!r}, of which NumPy "
            f"computes the arctangents faster"
        )
    return None


def _cuda_is_missing() -> str | None:
    """Return the reason why CuPy or the GPU does not work on this machine, or None."""
    if "cupy" not in sys.modules and find_spec("cupy") is None:
        return (
            "CuPy is not installed: pip install 'rescntk[cuda12]' or 'rescntk[cuda13]', "
            "whichever the GPU's driver takes"
        )
    try:
        return import_module(f"{__name__}.cuda.engine").why_not(import_module("cupy"))
    except ImportError as error:  # a CuPy that does not fit this NumPy or this machine
        return f"CuPy does not work here: {' '.join(str(error).split())}"


class _Entry(NamedTuple):
    """An engine: its module, and the reasons, or None, why it cannot serve."""

    module: str
    is_missing: Callable[[], str | None] = lambda: None
    refuses: Callable[[Request, Array], str | None] = lambda request, X: None


_ENGINES = {
    "reference": _Entry("reference"),
    "numba": _Entry("cpu.engine", _numba_is_missing, _numba_refuses),
    "cuda": _Entry("cuda.engine", _cuda_is_missing),
}


def available() -> dict[str, bool | str]:
    """Return each engine's name with True, or with the reason why it cannot serve here.

    With a CUDA device, the first call in a process compares the engine "cuda" with the reference
    engine on a few small Grams. An engine that fails does not serve; its reason has the figures.

    Examples
    --------
    >>> import rescntk
    >>> rescntk.engines.available()["reference"]
    True
    """
    return {name: entry.is_missing() or True for name, entry in _ENGINES.items()}


def choose(name: str, request: Request, X: Array) -> Engine:
    """Return the engine of a name; "auto" is the fastest engine that can serve.

    For NumPy's arrays "auto" is "numba" where it is installed and takes the activation, else
    "reference". For CuPy's arrays it is "cuda", unless the signals are longer than "cuda" takes
    on the device or its check there failed (`available`), else "reference". By name, "cuda" also
    takes NumPy's arrays.

    Raises
    ------
    ValueError
        If there is no engine of that name, or it cannot serve; the message names the reason.
    """
    check_choice(name, "engine", ["auto", *_ENGINES])
    if name == "auto":
        name = _fastest(request, X)
    entry = _ENGINES[name]
    reason = entry.is_missing() or entry.refuses(request, X)
    if reason is not None:
        serving = [
            other
            for other, it in _ENGINES.items()
            if it.is_missing() is None and it.refuses(request, X) is None
        ]
        raise ValueError(
            f"engine is {name!r}, which cannot serve here: {reason}; "
            f"these can: {', '.join(map(repr, serving))}"
        )
    return cast(Engine, import_module(f"{__name__}.{entry.module}"))


def _fastest(request: Request, X: Array) -> str:
    """Return the name of the fastest engine that can serve."""
    if isinstance(X, np.ndarray):
        serves = _numba_refuses(request, X) is None and _numba_is_missing() is None
        return "numba" if serves else "reference"
    cuda = _cuda_is_missing() is None and import_module(f"{__name__}.cuda.engine").takes(
        request, X.shape[2]
    )
    return "cuda" if cuda else "reference"

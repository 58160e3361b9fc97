"""The engines, which compute kernels row by row, and the choice between them.

One table holds all engines (`Engine`): what an engine computes and refuses, and why it
may not work here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np

from ..arrays import Batch, SignalList, channels_and_length, library
from ..validation import check_choice
from .protocol import Engine, Request

__all__ = ["available"]


def _cpu_is_missing() -> str | None:
    """Return the reason why there are no compiled loops here, or None."""
    return import_module(f"{__name__}.cpu.library").why_not()


def _cpu_refuses(request: Request, X: Batch) -> str | None:
    """Return the reason why "cpu" does not take this request, or None."""
    if library(X) is not np:
        return "it requires NumPy arrays, and got CuPy arrays"
    return _activation_refused(request)


def _activation_refused(request: Request) -> str | None:
    """Return the reason why compiled loops do not take the activation, or None."""
    if (activation := request.network.activation) == "relu":
        return None
    return f"it supports only activation='relu' (got {activation!r})"


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


def _cuda_refuses(request: Request, X: Batch) -> str | None:
    """Return the reason why "cuda" does not take this request, or None."""
    if refusal := _activation_refused(request):
        return f"{refusal}; the reference engine takes CuPy arrays too"
    if isinstance(X, SignalList):
        return "it takes signals of one length, and these have different lengths"
    return None


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("reference", "reference"),
        Engine("cpu", "cpu.engine", _cpu_is_missing, _cpu_refuses),
        Engine("cuda", "cuda.engine", _cuda_is_missing, _cuda_refuses),
    )
}  # fmt: skip
"""All engines, by their names."""

NAMES = tuple(ENGINES)


def available() -> dict[str, bool | str]:
    """Return each engine's name with True, or with the reason why it cannot serve here.

    On a CUDA device, the first call in a process compares "cuda" with the reference engine on a few
    small Grams.

    Examples
    --------
    >>> import rescntk
    >>> rescntk.engines.available()["reference"]
    True
    """
    return {name: engine.why_not() or True for name, engine in ENGINES.items()}


def choose(name: str, request: Request, X: Batch) -> Engine:
    """Return the engine of a name; "auto" is the fastest engine that can serve.

    For NumPy arrays "auto" is "cpu" where its loops were compiled and take the activation, else
    "reference". For CuPy arrays it is "cuda", unless signals are longer than "cuda" takes on the
    device or its check there failed (`available`), else "reference". By name, "cuda" also takes
    NumPy arrays.

    Parameters
    ----------
    name : str
        "auto" or the name of an engine.
    request : Request
    X : array or SignalList
        All signals: those of Z too, if they are lists.

    Raises
    ------
    ValueError
        If there is no engine of that name, or it cannot serve; the message names the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import Network, engines
    >>> request = engines.Request(Network(3), "gap", ("gpk",), (3,))
    >>> engines.choose("reference", request, np.zeros((1, 1, 4))).name
    'reference'
    """
    check_choice(name, "engine", ["auto", *NAMES])
    name = _fastest(request, X) if name == "auto" else name
    if refusal := _refusal(name, request, X):
        serving = [repr(other) for other in NAMES if _refusal(other, request, X) is None]
        raise ValueError(
            f"engine={name!r} cannot compute this call: {refusal}; "
            f"engines that can: {', '.join(serving) or 'none'}"
        )
    return ENGINES[name]


def _refusal(name: str, request: Request, X: Batch) -> str | None:
    """Return the reason why an engine cannot serve, or None."""
    return ENGINES[name].refuses(request, X) or ENGINES[name].why_not()


def _fastest(request: Request, X: Batch) -> str:
    """Return the name of the fastest engine that can serve."""
    name = "cpu" if library(X) is np else "cuda"
    if _refusal(name, request, X):
        return "reference"
    if name == "cpu":
        return name
    takes = import_module(f"{__name__}.cuda.engine").takes(request, channels_and_length(X)[1])
    return "cuda" if takes else "reference"

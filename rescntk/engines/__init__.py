"""The engines: how rows are computed, each in a file of its own.

One table, name → module and the reason why it cannot serve. An engine has two functions,
``gram`` and ``diagonal``, that take a `Request` and give a `ScaledKernel`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..validation import check_choice
from .protocol import Request, ScaledKernel

__all__ = ["Request", "ScaledKernel", "available", "choose"]


def _always() -> None:
    return None


def _numba() -> str | None:
    if find_spec("numba") is None:
        return "numba is not installed: pip install 'rescntk[cpu]'"
    try:
        import_module(f"{__name__}.cpu.engine")
    except (ImportError, RuntimeError, OSError) as error:
        # A numba that does not fit this NumPy, or no folder to keep compiled code in
        # (NUMBA_CACHE_DIR names one).
        return f"numba does not work here: {' '.join(str(error).split())}"
    return None


def _cuda() -> str | None:
    if "cupy" not in sys.modules and find_spec("cupy") is None:
        return (
            "CuPy is not installed: pip install 'rescntk[cuda12]' or 'rescntk[cuda13]', "
            "whichever the GPU's driver takes"
        )
    try:
        return import_module(f"{__name__}.cuda.engine").why_not(import_module("cupy"))
    except ImportError as error:  # a CuPy that does not fit this NumPy or this machine
        return f"CuPy does not work here: {' '.join(str(error).split())}"


# name: (module, why it cannot serve here: None or a sentence)
_ENGINES: dict[str, tuple[str, Callable[[], str | None]]] = {
    "reference": ("reference", _always),
    "numba": ("cpu.engine", _numba),
    "cuda": ("cuda.engine", _cuda),
}


def available() -> dict[str, bool | str]:
    """Return every engine's name with True, or with the reason why it cannot serve here.

    Examples
    --------
    >>> import rescntk
    >>> rescntk.engines.available()["reference"]
    True
    """
    return {name: why() or True for name, (_, why) in _ENGINES.items()}


def choose(name: str, request: Request, X: Any) -> Any:
    """Return the engine of that name; "auto" is the fastest that can serve.

    For NumPy's arrays "auto" is "numba" where numba is installed and the activation is ReLU.
    Otherwise it is "reference": "numba" takes ReLU alone. For CuPy's arrays "auto" is "cuda",
    unless the signals are longer than "cuda" takes on the device. "cuda" takes NumPy's arrays as
    well, when it is asked for by name.

    Raises
    ------
    ValueError
        If there is no engine of that name, or it cannot serve here: with the reason.
    """
    check_choice(name, "engine", ["auto", *_ENGINES])
    numpys = isinstance(X, np.ndarray)
    if name == "auto":
        if numpys:
            relu = request.network.activation == "relu"
            name = "numba" if relu and _numba() is None else "reference"
        else:
            served = _cuda() is None and import_module(f"{__name__}.cuda.engine").takes(
                request, X.shape[2]
            )
            name = "cuda" if served else "reference"
    module, why = _ENGINES[name]
    reason = why()
    if reason is None and name == "numba" and not numpys:
        reason = "it takes NumPy's arrays, and these are CuPy's"
    if reason is None and name == "numba" and request.network.activation != "relu":
        reason = (
            f"it takes activation 'relu' alone, and the network has "
            f"{request.network.activation!r}, whose arctangent numba computes number by number: "
            f"slower than NumPy does by the vector"
        )
    if reason is not None:
        serving = [other for other, state in available().items() if state is True and other != name]
        raise ValueError(
            f"engine is {name!r}, which cannot serve here: {reason}; "
            f"these can: {', '.join(map(repr, serving))}"
        )
    return import_module(f"{__name__}.{module}")

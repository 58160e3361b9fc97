"""The engines, which compute kernels row by row, and the choice between them.

One table holds all engines (`Engine`): what an engine computes, knows and refuses, and why it
may not work here.
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from importlib.util import find_spec
from warnings import warn

import numpy as np

from ..arrays import Batch, SignalList, channels_and_length, library
from ..network import BASIC_FIELDS, Network
from ..validation import check_choice
from .geometry import longest_reach, receptive_reach
from .protocol import Engine, Request

__all__ = ["available"]

_COMPILED = ("relu",)
"""Activations that the loops of the engines "numba" and "cuda" have."""

_LONGEST_MARGIN = 1000
"""Most pixels of the margin of open rows (docs/theory/implementation.md) in the engine "numba".

A larger number takes deeper networks on lists, at a cost of (d + margin)/d. A smaller one leaves
long signals to the slower engine. The engines are level at d = 80 and a
margin of 400 (depth 200, filter size 3). "auto" takes the network's margin, so that bits depend
only on the pair. By name, steps count modulo the least common multiple of all lengths.
"""


def _numba_is_missing(request: Request, X: Batch) -> str | None:
    """Return the reason why numba's loops of a request do not work here, or None."""
    if find_spec("numba") is None:
        return "numba is not installed: pip install 'rescntk[cpu]'"
    cpu = import_module(f"{__name__}.cpu")
    reason = cpu.why_not(cpu.sample(request, channels_and_length(X)[0]))
    return None if reason is None else f"numba does not work here: {reason}"


def _numba_refuses(request: Request, X: Batch) -> str | None:
    """Return the reason why "numba" does not take this request, or None."""
    if library(X) is not np:
        return "it requires NumPy arrays, and got CuPy arrays"
    activation = request.network.activation
    if activation not in _COMPILED:
        return f"it supports only activation='relu' (got {activation!r})"
    network, depth, d = request.network, request.depths[-1], channels_and_length(X)[1]
    if isinstance(X, SignalList):
        ring = math.lcm(*set(X.lengths.tolist()))
        if (reach := receptive_reach(network, depth, ring)) > _LONGEST_MARGIN:
            return (
                f"its rows of signals of different lengths have a margin of {reach} pixels, the "
                f"reach of all filters, and at most {_LONGEST_MARGIN} are faster than the "
                f"reference engine"
            )
        return None
    halo = longest_reach(network, depth, d // request.width) * request.width
    if halo > (most := max(_LONGEST_MARGIN, d)):
        return (
            f"its rows have a halo of {halo} pixels, the reach of the longest filter, and at "
            f"most {most} fit in the cache; the reference engine folds long filters"
        )
    return None


def _cuda_is_missing(request: Request, X: Batch) -> str | None:
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
    activation = request.network.activation
    if activation not in _COMPILED:
        return (
            f"it supports only activation='relu' (got {activation!r}); the reference engine takes "
            f"CuPy arrays too"
        )
    if request.width > 1:
        return (
            "it reads rows of signals, and these are images; the reference engine takes CuPy's "
            "arrays too"
        )
    if request.shares:
        return (
            "it adds up whole rows, and shares are sums over the rows at each pixel; the reference "
            "engine takes CuPy's arrays too"
        )
    if isinstance(X, SignalList):
        return "it takes signals of one length, and these have different lengths"
    return None


ENGINES = {
    engine.name: engine
    for engine in (
        Engine("reference", "reference", BASIC_FIELDS | {"bias"}),
        Engine(
            "numba", "cpu.engine", BASIC_FIELDS | {"bias"}, _numba_is_missing, _numba_refuses
        ),
        Engine("cuda", "cuda.engine", BASIC_FIELDS, _cuda_is_missing, _cuda_refuses),
    )
}  # fmt: skip
"""All engines, by their names."""

NAMES = tuple(ENGINES)


def available() -> dict[str, bool | str]:
    """Return each engine's name with True, or with the reason why it cannot serve here.

    The first call in a process tries the engines. "numba" computes one small kernel; compilation
    takes some 5 s, once on a machine. On a CUDA device, "cuda" is compared with the reference
    engine on a few small Grams. An engine that fails does not serve; its reason has the error.

    Examples
    --------
    >>> import rescntk
    >>> rescntk.engines.available()["reference"]
    True
    """
    call = Request(Network(1, 3), "gap", ("ntk",), (1,)), np.ones((1, 1, 1))
    return {name: engine.why_not(*call) or True for name, engine in ENGINES.items()}


def choose(name: str, request: Request, X: Batch) -> Engine:
    """Return the engine of a name; "auto" is the fastest engine that can serve.

    The first use of an engine compiles its loops, which a line on stderr says, or reads them from
    disk.

    For NumPy arrays "auto" is "numba" where it is installed and takes the activation, else
    "reference", with a warning if numba is installed and does not work. For CuPy arrays it is
    "cuda", unless the signals are longer than "cuda" takes on the device or its check there failed
    (`available`), else "reference". By name, "cuda" also takes NumPy arrays.

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

    def reason(engine: Engine) -> str | None:
        return engine.refuses(request, X) or engine.why_not(request, X)

    name = _fastest(request, X) if name == "auto" else name
    refusal = reason(ENGINES[name])
    if refusal is not None:
        serving = [repr(engine.name) for engine in ENGINES.values() if reason(engine) is None]
        raise ValueError(
            f"engine={name!r} cannot compute this call: {refusal}; "
            f"engines that can: {', '.join(serving) or 'none'}"
        )
    return ENGINES[name]


def _fastest(request: Request, X: Batch) -> str:
    """Return the name of the fastest engine that can serve.

    A numba that is installed and does not work gives a warning.
    """
    if library(X) is np:
        reach = receptive_reach(request.network, request.depths[-1])
        wide = isinstance(X, SignalList) and reach > _LONGEST_MARGIN  # whatever the lengths are
        if wide or ENGINES["numba"].refuses(request, X) is not None:
            return "reference"
        reason = ENGINES["numba"].why_not(request, X)
        if reason is None:
            return "numba"
        if find_spec("numba") is not None:
            warn(f"{reason}; NumPy computes the kernels, several times slower", stacklevel=2)
        return "reference"
    if (
        ENGINES["cuda"].refuses(request, X) is not None
        or ENGINES["cuda"].why_not(request, X) is not None
    ):
        return "reference"
    takes = import_module(f"{__name__}.cuda.engine").takes(request, channels_and_length(X)[1])
    return "cuda" if takes else "reference"

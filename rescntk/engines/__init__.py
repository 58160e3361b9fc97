"""The engines, which compute kernels row by row, and the choice between them.

What an engine computes and refuses stands in its class (`Engine`), and all engines in one table.
The files, from the question to the kernels:

- textbook: the definition, as the paper writes it; who wants to know what the library computes
  reads it first.
- request: what is asked of an engine, and its answer; engine: `Engine` and `Plan`; heads: which
  pixel pairs a head reads; work: blocks, threads, progress.
- layer/: a layer, step by step. step: what a step is; norm, convolution, bias, activation, skip and
  joined: the steps, of which all but norm and activation are merges (merge). weights: of features
  and branch; constants: divisors and biases; taps: of which filters are made; means: means, sums.
  network_steps: the steps of a network, and how compiled engines rewrite them; operations: the same
  with the rows of tables; recursion: one step after the other; variances: signals alone, of NumPy
  and CuPy.
- signals/: input: signals divided by their sizes; tables: the rows of all steps.
- array/: pixel pairs of NumPy and CuPy, from tables. jax/: the same with derivatives. compiled/:
  what the engines cpu and cuda share, in C++; each of these is a folder.
"""

from __future__ import annotations

from functools import cache

from ..arrays import Batch, array_module
from ..checks.messages import shown, warn
from ..checks.values import check_choice
from .array.engine import ArrayEngine
from .cpu.engine import CpuEngine
from .cuda.engine import CudaEngine
from .engine import Engine
from .request import Request
from .textbook import TextbookEngine

__all__ = ["available"]

ENGINES: dict[str, Engine] = {
    engine.name: engine for engine in (TextbookEngine(), ArrayEngine(), CpuEngine(), CudaEngine())
}
"""All engines by their names. "auto" takes the last one that can serve."""


def available() -> dict[str, bool | str]:
    """Return each engine's name with True, or with the reason why it cannot serve here.

    On a CUDA device, the first call in a process compares "cuda" with the engine "array" on a few
    small Grams.

    Returns
    -------
    dict of str to (True or str)

    Examples
    --------
    >>> import rescntk
    >>> rescntk.engines.available()["array"]
    True
    """
    return {name: engine.why_not() or True for name, engine in ENGINES.items()}


def choose(name: str, request: Request, X: Batch) -> Engine:
    """Return the engine of a name; "auto" is the last of `ENGINES` that can serve.

    "auto" asks the engines that have the arrays' module among their `Engine.auto_arrays`. For NumPy
    arrays it is "cpu" where its loops were compiled and take the activation, else "array"; a
    warning tells a process once that the loops are missing. For CuPy arrays it is "cuda" where that
    takes the activation and signals of that length, and its check on the device passed
    (`available`), else "array". By name, "cuda" also takes NumPy arrays.

    Parameters
    ----------
    name : str
        "auto" or the name of an engine.
    request : Request
    X : array or SignalList
        The left signals; the right ones are of the same kind.

    Returns
    -------
    Engine

    Raises
    ------
    ValueError
        If there is no engine of that name, or it cannot serve; the message names the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from rescntk import Network, engines
    >>> request = engines.Request(Network(3), "gap", ("gpk",), (3,))
    >>> engines.choose("array", request, np.zeros((1, 1, 4))).name
    'array'
    """
    check_choice(name, "engine", ["auto", *ENGINES])
    if name == "auto":
        return _last_that_serves(request, X)
    engine = ENGINES[name]
    if refusal := engine.refuses(request, X):
        others = (other for other in ENGINES.values() if other.auto_arrays)
        serving = [repr(other.name) for other in others if not other.refuses(request, X)]
        raise ValueError(
            f"engine={shown(name)} cannot compute this call: {refusal}; "
            f"engines that can: {', '.join(serving) or 'none'}"
        )
    return engine


def _last_that_serves(request: Request, X: Batch) -> Engine:
    """Return the last of `ENGINES` that can serve as "auto", or raise a ValueError."""
    module, refusal = array_module(X).__name__, None
    for engine in reversed(ENGINES.values()):
        if module not in engine.auto_arrays:
            continue
        refusal = engine.refuses(request, X)
        if refusal is None:
            return engine
        if engine.absence and refusal == engine.why_not():
            tell_absence(engine.absence, refusal)
    raise ValueError(f"no engine can compute this call of {module} arrays: {refusal}")


@cache
def tell_absence(absence: str, reason: str) -> None:
    """Warn, once in a process, that "auto" passes an engine over, and why."""
    warn(f"{absence}: {reason}")

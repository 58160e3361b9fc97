"""The engines, which compute kernels, and the choice between them.

Each engine is a class (`Engine`) that declares what it computes and refuses. `ENGINES` lists all of
them. These are the files, from the request to the kernels:

- textbook.py is the definition of the kernels, as the paper writes it. Read it first to learn what
  the library computes.
- request.py has the request to an engine and its answer, engine.py the classes `Engine` and `Plan`.
  heads.py says which pixel pairs a head reads; work.py has blocks of work, threads and progress.
- layer/ has a layer, step by step. step.py says what a step is. The steps are in norm.py,
  convolution.py, bias.py, activation.py, skip.py and joined.py; all but the normalization and the
  activation are merges (merge.py). weights.py, constants.py and taps.py have the numbers of a
  layer, network_constants.py those of all layers together, variance_bounds.py how variances may
  grow and fall, and means.py sums and means of arrays.
  network_steps.py lists the steps of a network, and operations.py numbers their table rows.
  recursion.py applies one step after the other.
- signals/ divides signals by their sizes (sizes.py, input.py) and makes the tables of all steps
  (tables.py). context.py has what steps may ask about the signals, pixel_1.py says which
  pixels the head "equivariant" sees, and checks.py refuses signals whose kernels would be
  inaccurate.
- array/ computes pixel pairs with NumPy and CuPy, and jax/ with JAX, so that kernels can be
  differentiated. compiled/ has what the engines "cpu" and "cuda" share, and cpu/ and cuda/ are
  these two engines.

The way of signals X to their kernels, on the engine "array", is as follows. A function is called by
the nearest one above it that is indented less, directly or through others that are not listed. ::

    kernels/gram.py       gram
    kernels/arguments.py    check_arguments checks all arguments, and makes a Request
    kernels/call.py         KernelCall chooses an engine, and computes its plan
    engines/__init__.py       choose returns the fastest engine that can compute the request
    array/engine.py           ArrayEngine.plan makes a plan
    engines/engine.py         Plan.compute copies symmetric kernels to the cases i > k
    array/engine.py             ArrayPlan._compute computes one block after the other
    signals/tables.py             signal_tables makes the tables of a block of signals
    signals/input.py                read_input divides the signals by their sizes
    layer/recursion.py              variances_around_last_layer calls Step.variances for the rows
    array/pairs.py                SignalPairs.at_depths computes the pixel pairs of signal pairs
    layer/recursion.py              pairs_after_layer calls Step.pairs for deficits and kernels
    array/pairs.py                  SignalPairs.with_head takes the mean that the head asks for
    layer/operations.py           Operations.scaled_kernel returns kernels and sizes
    kernels/results.py        Results multiplies the kernels by the sizes, or normalizes them

For NumPy arrays and ReLU networks, "auto" chooses the engine "cpu". There the lines of the plan are
these, and the others are the same. ::

    cpu/engine.py             CpuEngine.plan makes a plan
    engines/engine.py         Plan.compute copies symmetric kernels to the cases i > k
    cpu/engine.py               CpuPlan._compute makes a job, and has it computed block by block
    compiled/program.py           Program.job returns the operations as records for the loops
    compiled/tabled_signals.py    over_blocks takes one pair of blocks after the other
    signals/tables.py               signal_tables makes the tables of a block of signals
    signals/input.py                  read_input divides the signals by their sizes
    layer/recursion.py                variances_around_last_layer calls Step.variances for the rows
    cpu/engine.py                   CpuPlan._compute_blocks divides the pairs into tasks for threads
    cpu/library.py                    run calls the compiled loops for the job of a task
    cpu/loops.cpp                       Pairs takes strips of pixel pairs from layer to layer
    cpu/layers.h                          Layers has the steps of a layer for a strip
    cpu/results.h                         Results takes the mean that the head asks for
    layer/operations.py           Operations.scaled_kernel returns kernels and sizes
"""

from __future__ import annotations

from functools import cache

from ..arrays import Batch, array_module
from ..checks.messages import shown, warn
from ..checks.values import check_choice
from .array.engine import ArrayEngine
from .cpu.engine import CpuEngine
from .cuda.engine import CudaEngine
from .engine import AnyEngine
from .request import Request
from .textbook import TextbookEngine

__all__ = ["available"]

ENGINES: dict[str, AnyEngine] = {
    engine.name: engine for engine in (TextbookEngine(), ArrayEngine(), CpuEngine(), CudaEngine())
}
"""All engines by their names. "auto" chooses the last one that can compute a request."""


def available() -> dict[str, bool | str]:
    """Return a dictionary that says which engines work on this machine.

    The value of an engine's name is True, or the reason why the engine does not work here. If there
    is a CUDA device, the first call in a process compares the engine "cuda" with the engine "array"
    on a few small kernel matrices.

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


def choose(name: str, request: Request, X: Batch) -> AnyEngine:
    """Return the engine with a name; "auto" is the last of `ENGINES` that can compute the request.

    "auto" considers only engines whose `Engine.auto_arrays` include the module of the arrays. For
    NumPy arrays it is "cpu" if this engine's loops were compiled and support the request, else
    "array". If the loops are missing, a warning says so, once in a process. For CuPy arrays "auto"
    is "cuda" if this engine supports the request and its check on the device passed (`available`),
    else "array". If "cuda" is given by name, it also takes NumPy arrays.

    Parameters
    ----------
    name : str
        "auto" or the name of an engine.
    request : Request
    X : array or SignalList
        The left signals. The right signals must have the same type and array module.

    Returns
    -------
    Engine

    Raises
    ------
    ValueError
        If there is no engine with this name, or if it cannot compute the request; the message gives
        the reason.

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
        return _choose_automatically(request, X)
    engine = ENGINES[name]
    if refusal := engine.refuses(request, X):
        others = (other for other in ENGINES.values() if other.auto_arrays)
        serving = [repr(other.name) for other in others if not other.refuses(request, X)]
        raise ValueError(
            f"engine={shown(name)} cannot compute this call: {refusal}; "
            f"engines that can: {', '.join(serving) or 'none'}"
        )
    return engine


def _choose_automatically(request: Request, X: Batch) -> AnyEngine:
    """Return the engine that "auto" chooses, or raise a ValueError if no engine can be chosen."""
    module, refusal = array_module(X).__name__, None
    for engine in reversed(ENGINES.values()):
        if module not in engine.auto_arrays:
            continue
        refusal = engine.refuses(request, X)
        if refusal is None:
            return engine
        if engine.missing_warning and refusal == engine.why_not():
            warn_of_missing(engine.missing_warning, refusal)
    raise ValueError(f"no engine can compute this call of {module} arrays: {refusal}")


@cache
def warn_of_missing(missing_warning: str, reason: str) -> None:
    """Warn, once in a process for each message, that "auto" does not use an engine, and why."""
    warn(f"{missing_warning}: {reason}")

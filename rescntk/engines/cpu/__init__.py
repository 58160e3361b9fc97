"""The engine "numba": rows of pixel pairs computed by compiled loops on the CPU.

engine.py has the three acts of a run: plan, tables, run. There are two kinds of compiled loops. The
sweep takes the networks that most users have (`is_swept`): sweep.py (all layers) and
swept_layers.py (one layer). The general loops take all others: rows.py (all layers), layers.py (one
layer) and sums.py (moving sums and merges). heads.py has the sums over pixels of both,
vectors.py the vectors that both compute with, and references.py the addresses.

`why_not` tries the loops before their first use. numba fails in many ways that depend on the
environment: compilation switched off, no threads, no folder for compiled code, files of compiled
code that were cut short. Each failure becomes a reason, and damaged files are removed.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ...network import Network
from ...validation import KINDS
from ..protocol import Request, silent
from ..variances import RESCALE_BITS

MOST_CHANNELS = 16
"""Most numbers of an input's window in the sweep, which adds up their squares without compensation.

With 64 channels the general loops take .8 to .9 of the time: they read vectors for four signals at
a time. With 16 the sweep takes .83 to .88 (AMD EPYC, d = 100, depth 5).
"""


@cache
def gains_by_sweeping() -> bool:
    """Return whether the sweep is faster than the general loops on this processor.

    With AVX-512 the sweep is 1.1 to 1.8 times faster with filters of three pixels (AMD), and takes
    .60 to .84 of the time in twelve of twelve cases (Intel). With other filters and with dilations
    it is 1.0 to 1.6 times faster (Zen 5, 40 kinds of Grams). With AVX2 it takes up to 1.4 times as
    long, because its state exceeds the 16 registers.
    """
    return bool(import_module("llvmlite.binding").get_host_cpu_features().get("avx512f", False))


def is_swept(request: Request, n_channels: int) -> bool:
    """Return whether the sweep computes a request, for signals of any length.

    The network, the number of channels and the processor decide, so that a pair's bits are its own.
    """
    if find_spec("llvmlite") is None or not gains_by_sweeping():
        return False
    net = request.network
    sums = request.head in ("gap", "trace") and not request.shares
    few = n_channels * net.input_filter_size <= MOST_CHANNELS
    return sums and few and request.width == 1


def sums_in_registers(net: Network) -> bool:
    """Return whether the sweep keeps sums over windows in registers, which changes their order."""
    return net.filter_size == net.outer_filter_size == 3 and net.dilation == 1


def loops_of(request: Request, n_channels: int) -> str:
    """Return which loops compute a request: "general" ones, or the sweep.

    The sweep has its sums over windows in "registers" or in "memory".
    """
    if not is_swept(request, n_channels):
        return "general"
    return "registers" if sums_in_registers(request.network) else "memory"


def parts_of(request: Request, n_channels: int) -> list[Request]:
    """Return the requests, for depths that follow one another, that are computed apart.

    The first layers of a network with a dilation for each layer may be a network that is swept. Its
    kernels have the bits that they have without the later layers.
    """
    net, early = request.network, 0
    if isinstance(net.dilation, tuple):
        early = next(k for k, step in enumerate(net.dilation) if step != net.dilation[0])
    shallow = tuple(depth for depth in request.depths if depth <= early)
    if not shallow:
        return [request]
    first = replace(request, network=net.replace(depth=shallow[-1]), depths=shallow)
    if loops_of(first, n_channels) != "registers":
        return [request]
    deep = request.depths[len(shallow) :]
    return [first, replace(request, depths=deep)] if deep else [first]


def sample(request: Request, n_channels: int) -> Request:
    """Return a request of one layer for which numba compiles the same loops.

    It has the fields of layers that loops leave out where networks do not have them. The sweep
    leaves out factors of sums that are 1 in all layers. They are 0 without skip connections, and
    powers of two where values grow by more than 2^`RESCALE_BITS`.
    """
    net, loops = request.network, loops_of(request, n_channels)
    kinds = KINDS if loops == "general" else ("ntk",) if "ntk" in request.kinds else ("gpk",)
    skip = net.skip and request.depths[-1] * math.log2(net.growth) < RESCALE_BITS
    return _sample(
        loops, kinds, request.dtype, tuple(net.trained), net.bias > 0, net.negative_slope != 0,
        skip=loops == "general" or skip,
    )  # fmt: skip


@cache  # each call of a kernel asks
def _sample(
    loops: str, kinds: tuple[str, ...], dtype: str, trained: tuple[str, ...], biased: bool,
    leaks: bool, skip: bool,
) -> Request:  # fmt: skip
    network = Network(
        1, 3 if loops == "registers" else 1, trained=trained, bias=float(biased),
        negative_slope=0.5 * leaks, skip=skip,
    )  # fmt: skip
    return Request(network, "equivariant" if loops == "general" else "trace", kinds, (1,), dtype)


@cache
def why_not(request: Request) -> str | None:
    """Return the reason why the compiled loops of a `sample` do not work, or None.

    The first call in a process computes the kernel of one short signal. That call compiles the
    loops or reads them from disk, which the next calls then need not do.
    """
    reason = _failure(request)
    if reason is None:
        return None
    for room, name in (("rows", "compute"), ("sweep", "sweep")):
        remove_damaged_files(getattr(sys.modules.get(f"{__name__}.{room}"), name, None))
    # Without damaged files numba compiles anew. Where only writing to disk failed, numba has kept
    # the compiled code in memory.
    return _failure(request) and reason


def remove_damaged_files(function: Any) -> None:
    """Remove files of a compiled function that cannot be read, so that numba compiles it anew.

    Files were cut short; or they name a class that another version of this package had.
    """
    folder = getattr(getattr(function, "stats", None), "cache_path", None)
    if folder is None:
        return
    for path in Path(folder).glob(f"{function.__module__.rpartition('.')[2]}.*.nb[ic]"):
        if _is_damaged(path):
            path.unlink(missing_ok=True)


def _failure(request: Request) -> str | None:
    """Return the error of a small Gram in words, None if there is no error."""
    try:
        _check_threads()
        engine = import_module(f"{__name__}.engine")
        engine.gram(request, np.ones((1, 1, 1)), None, silent)
    except Exception as error:  # whatever it is: another engine serves
        return _say(error)
    return None


def _check_threads() -> None:
    """Raise a ValueError if the environment sets no number of threads, of which numba uses all."""
    threads = os.environ.get("NUMBA_NUM_THREADS", "1")
    if not threads.strip().isdecimal() or int(threads) < 1:
        raise ValueError(f"NUMBA_NUM_THREADS is {threads!r}, expected an integer of at least 1")


def _say(error: Exception) -> str:
    """Return an error in one line, with the settings of numba in the environment."""
    text = " ".join(str(error).split()) or "no further words"
    settings = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith("NUMBA_")]
    hint = f" (the environment has {', '.join(settings)})" if settings else ""
    return f"{type(error).__name__}: {text}{hint}"


def _is_damaged(path: Path) -> bool:
    """Return whether a file cannot be read as numba reads it."""
    try:
        with path.open("rb") as file:
            pickle.load(file)
            if path.suffix == ".nbi":  # the version of numba first, then the index
                pickle.load(file)
    except Exception:
        return True
    return False

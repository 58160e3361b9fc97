"""The description of a computation, kept with its result: all that the values depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from .._version import __version__
from ..arrays import Batch, SignalList
from ..network import Network
from ..validation import HEADS, check_batches, check_choice, check_flag
from .call import KernelCall

RECURSION = 5
"""Version of the arithmetic: with each change of a bit of a result raise it, to end old Grams."""

OPTIONS = ("head", "kinds", "depths", "normalized", "dtype", "engine")
"""Arguments of `gram` that a description has under their names."""


def describe(
    network: Network,
    X: Any,
    Z: Any,
    *,
    head: str,
    kinds: Iterable[str],
    depths: Iterable[int] | None,
    normalized: bool,
    dtype: str,
    engine: str,
) -> dict[str, Any]:
    """Return the checked description of a call of `gram`, of JSON's types alone."""
    check_choice(head, "head", HEADS)
    X, Z = check_batches(X, Z, head)
    call = KernelCall(network, X, Z, head, kinds, depths, engine, dtype, threads=None)
    # Engines differ in their last bits. For NumPy's arrays "auto" is one of these two.
    module: Any = call.engine
    chosen = "reference" if module.__name__.endswith("reference") else "numba"
    description = {
        "version": __version__,
        "recursion": RECURSION,
        "engine": chosen if engine == "auto" else engine,
        "network": asdict(network),
        "head": head,
        "kinds": sorted(call.kinds),
        "depths": None if depths is None else call.depths,
        "normalized": check_flag(normalized, "normalized"),
        "dtype": call.dtype.name,
        "X": describe_signals(X),
        "Z": None if Z is None else describe_signals(Z),
    }
    return dict(json.loads(json.dumps(description)))  # as read from a file: tuples become lists


def describe_signals(X: Batch) -> dict[str, Any]:
    """Return shape and checksum of signals in float64; a list's last number is its lengths."""
    if isinstance(X, SignalList):
        flat = describe_signals(np.concatenate([signal.ravel() for signal in X]))
        return flat | {"shape": [len(X), X.n_channels, X.lengths.tolist()]}
    data = np.ascontiguousarray(X, dtype="<f8").data
    return {"shape": list(X.shape), "sha256": hashlib.sha256(data).hexdigest()}


def network_of(description: dict[str, Any]) -> Network:
    """Return the network of a description."""
    return Network(**description["network"])


def differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Return a phrase for each part in which two descriptions differ."""
    found = []
    for name, here in asked.items():
        there = stored.get(name)
        if there == here:
            continue
        if name == "network":
            found += [f"network {phrase}" for phrase in differences(there or {}, here)]
        elif name in ("X", "Z") and there and here and there["shape"] == here["shape"]:
            found.append(f"{name} has other values")
        elif name in ("X", "Z"):
            shapes = [signals and tuple(signals["shape"]) for signals in (there, here)]
            found.append(f"{name} has shape {shapes[0]} there, {shapes[1]} here")
        else:
            found.append(f"{name} is {there!r} there, {here!r} here")
    return found

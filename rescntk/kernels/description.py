"""The description of a computation, kept with its result: all that the values depend on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np

from .._version import __version__
from ..arrays import Batch, SignalList
from ..engines import NAMES
from ..network import Network
from ..validation import (
    DTYPES,
    HEADS,
    check_batches,
    check_choice,
    check_depth,
    check_depths,
    check_flag,
    check_integer,
    check_kinds,
)
from .call import KernelCall

RECURSION = 6
"""Version of the arithmetic. Raise it when a bit of a result changes: older Grams cannot resume."""

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
    """Return the checked description of a call of `gram`, only of JSON's types."""
    check_choice(head, "head", HEADS)
    X, Z = check_batches(X, Z, head)
    call = KernelCall(
        network, X, Z, head=head, kinds=kinds, depths=depths, engine=engine, dtype=dtype,
        threads=None,
    )  # fmt: skip
    # Engines differ in their last bits: "auto" is not among the names.
    description = {
        "version": __version__,
        "recursion": RECURSION,
        "engine": call.engine.name,
        "network": asdict(network),
        "head": head,
        "kinds": sorted(call.kinds),
        "depths": None if depths is None else call.depths,
        "normalized": check_flag(normalized, "normalized"),
        "dtype": call.dtype.name,
        "X": describe_signals(X),
        "Z": None if Z is None else describe_signals(Z),
    }
    return dict(_as_read(description))


def describe_signals(X: Batch) -> dict[str, Any]:
    """Return shape and checksum of signals in float64; a list's last number is its lengths."""
    if isinstance(X, SignalList):
        flat = describe_signals(np.concatenate([signal.ravel() for signal in X]))
        return flat | {"shape": [len(X), X.n_channels, X.lengths.tolist()]}
    data = (np.ascontiguousarray(X, dtype="<f8") + 0.0).data  # 0.0 for -0.0
    return {"shape": list(X.shape), "sha256": hashlib.sha256(data).hexdigest()}


def network_of(description: dict[str, Any]) -> Network:
    """Return the network of a description."""
    return Network(**description["network"])


def check_description(
    description: dict[str, Any], **more: Callable[[Any, str], Any]
) -> dict[str, Any]:
    """Return a description that was read, or raise a ValueError that names the wrong part.

    Fields that the network lacks are added with their defaults. `more` has the checks of other
    parts than `describe` gives, as in `_CHECKS`.
    """
    checks = _CHECKS | more
    if description.keys() != checks.keys():
        raise ValueError(f"its description has {sorted(description)}, expected {sorted(checks)}")
    for name, value in description.items():
        _check_same(value, checks[name](value, name), name)
    return description | {"network": _as_read(asdict(network_of(description)))}


def _as_read(description: Any) -> Any:
    """Return a description as read from a file: tuples become lists."""
    return json.loads(json.dumps(description))


def _check_same(value: Any, checked: Any, name: str) -> None:
    """Raise a ValueError if a check has returned another value than a description has."""
    if value != _as_read(checked):
        raise ValueError(f"{name} is {value!r}, expected {checked!r}")


def _check_network(settings: Any, name: str) -> Any:
    known = {field.name for field in fields(Network)}
    if not isinstance(settings, dict) or not {"depth"} <= settings.keys() <= known:
        raise ValueError(f"{name} is {settings!r}, expected depth and others of {sorted(known)}")
    network = Network(**settings)
    for part, value in settings.items():
        _check_same(value, getattr(network, part), part)
    return settings


def _check_signals(signals: Any, name: str) -> Any:
    if not isinstance(signals, dict) or signals.keys() != {"shape", "sha256"}:
        raise ValueError(f"{name} is {signals!r}, expected shape and sha256")
    shape, known = signals["shape"], signals["sha256"]
    if not isinstance(known, str) or not re.fullmatch("[0-9a-f]{64}", known):
        raise ValueError(f"sha256 of {name} is {known!r}, expected 64 hexadecimal digits")
    if not isinstance(shape, list) or len(shape) not in (3, 4):
        raise ValueError(f"shape of {name} is {shape!r}, expected 3 numbers, or 4 of images")
    lengths = shape[-1] if len(shape) == 3 and isinstance(shape[-1], list) else []
    for count in [*(shape[:-1] if lengths else shape), *lengths]:
        check_depth(count, f"shape of {name}")
    if lengths and len(lengths) != shape[0]:
        raise ValueError(f"{name} has {len(lengths)} lengths, expected {shape[0]}")
    return signals


def _check_text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, expected a text")
    return value


_CHECKS: dict[str, Callable[[Any, str], Any]] = {
    "version": _check_text,
    "recursion": check_integer,
    "engine": partial(check_choice, choices=NAMES),
    "network": _check_network,
    "head": partial(check_choice, choices=HEADS),
    "kinds": lambda kinds, name: sorted(check_kinds(kinds)),
    "depths": lambda depths, name: depths if depths is None else check_depths(depths),
    "normalized": check_flag,
    "dtype": partial(check_choice, choices=DTYPES),
    "X": _check_signals,
    "Z": lambda Z, name: Z if Z is None else _check_signals(Z, name),
}
"""The check of each part of a description: a function of value and name, returns the value."""


def differences(stored: dict[str, Any], asked: dict[str, Any]) -> list[str]:
    """Return a phrase for each part in which two descriptions differ."""
    phrases = []
    for name, expected in asked.items():
        value = stored.get(name)
        if value == expected:
            continue
        if name == "network":
            phrases += [f"network {phrase}" for phrase in differences(value or {}, expected)]
        elif name in ("X", "Z") and value and expected and value["shape"] == expected["shape"]:
            phrases.append(f"{name} has other values")
        elif name in ("X", "Z"):
            shapes = [signals and tuple(signals["shape"]) for signals in (value, expected)]
            phrases.append(f"{name} has shape {shapes[0]} there, {shapes[1]} here")
        else:
            phrases.append(f"{name} is {value!r} there, {expected!r} here")
    return phrases

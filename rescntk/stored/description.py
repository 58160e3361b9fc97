"""Descriptions of Gram matrices on disk, which are objects of JSON.

They are made from the arguments of a call, written, checked when they are read, and compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

import numpy as np

from .._version import __version__
from ..arrays import Batch, SignalList
from ..checks.values import (
    check_depths,
    check_dtype,
    check_flag,
    check_kinds,
    check_positive_integer,
)
from ..engines.heads import check_head
from ..network import Network

Description: TypeAlias = dict[str, Any]
"""A computation, or the arguments of its call: values by their names."""

_NAMES_OF_TYPES: dict[type, str] = {
    str: "a text",
    dict: "an object of names and values",
    list: "a list",
}
"""The types of JSON's values, as messages call them."""


def check_description(group: Description) -> Description:
    """Return the description in a group that was read from a file.

    If `gram` cannot have written it, a ValueError, KeyError or TypeError is raised.
    """
    description: Description = group["attributes"]["rescntk"]
    if (group["zarr_format"], group["node_type"]) != (3, "group"):
        raise ValueError("zarr_format and node_type are not those of a Zarr group")
    version, network = (description[name] for name in ("version", "network"))
    _check_type(version, "version", str)
    _check_type(description["engine"], "engine", str)
    _check_type(network, "network", dict)
    if version == __version__:  # other versions may have other fields and heads
        check_head(description["head"])
        if different := differences(network, as_json(asdict(Network(**network)))):
            raise ValueError(f"network has {different[0]}")
    for name in ("X", "Z"):
        if name == "X" or description[name] is not None:
            _check_signals(description[name], name)
    check_flag(description["normalized"], "normalized")
    depths = description["depths"]
    return description | {
        "kinds": list(check_kinds(description["kinds"])),
        "depths": None if depths is None else list(check_depths(depths)),
        "dtype": check_dtype(description["dtype"]),
        "block": check_positive_integer(description["block"], "block"),
    }


def _check_type(value: object, name: str, kind: type) -> None:
    """Raise a ValueError if a value that was read from a file does not have the type `kind`."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}, expected {_NAMES_OF_TYPES[kind]}")


def _check_signals(signals: Description, name: str) -> None:
    """Raise a ValueError if signals are not described as `describe_signals` describes them."""
    _check_type(signals, name, dict)
    shape = signals["shape"]
    _check_type(shape, f"the shape of {name}", list)
    n, *numbers = shape or [None]
    n = check_positive_integer(n, f"the length of {name}")
    if n > 2**31:
        raise ValueError(f"the length of {name} is {n}, expected at most 2^31")
    lengths = numbers.pop() if len(numbers) == 2 and isinstance(numbers[1], list) else None
    if len(shape) not in (3, 4) or (lengths is not None and len(lengths) != n):
        raise ValueError(
            f"the shape of {name} is {shape!r}, expected 3 or 4 integers, or lengths at its end"
        )
    for number in (*numbers, *(lengths or ())):
        check_positive_integer(number, f"the shape of {name} has a number that")
    _check_type(signals["checksum"], f"the checksum of {name}", str)


def describe_call(call: Description, X: Batch, Z: Batch | None, block: int) -> Description:
    """Return the description of a call's computation, as it is read from a file."""
    return as_json(
        call
        | {"version": __version__, "network": asdict(call["network"]), "block": block}
        | {"X": describe_signals(X), "Z": None if Z is None else describe_signals(Z)}
    )


def describe_signals(X: Batch) -> Description:
    """Return the shape and the checksum of signals. The shape of a list ends with its lengths."""
    shape = (len(X), X.n_channels, X.lengths.tolist()) if isinstance(X, SignalList) else X.shape
    sha256 = hashlib.sha256()
    for signal in X:
        sha256.update((np.ascontiguousarray(signal, "<f8") + 0.0).data)  # -0.0 becomes 0.0
    return {"shape": shape, "checksum": sha256.hexdigest()[:16]}


def write_description(folder: Path, description: Description) -> None:
    """Write the description of a Gram matrix into a folder, in one step.

    If another process has already written one, that one stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"rescntk": description}}
    file, partial = folder / "zarr.json", folder / f"zarr.{uuid4().hex}.partial"
    try:
        partial.write_text(json.dumps(group), "utf-8")
        try:
            os.link(partial, file)  # this does not replace a file
        except OSError:
            if not file.exists():  # the file system has no links
                partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def as_json(description: Description) -> Description:
    """Return a description as it is after JSON wrote and read it: tuples become lists."""
    decoded: Description = json.loads(json.dumps(description))
    return decoded


def differences(stored: Description, expected: Description) -> list[str]:
    """Return a phrase for each part in which two descriptions differ."""
    phrases = []
    for name in sorted(expected.keys() | stored.keys()):
        old, new = stored.get(name), expected.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            phrases += [f"{name} {phrase}" for phrase in differences(old, new)]
        elif old != new:
            phrases.append(f"{name} is {reprlib.repr(old)} there, {reprlib.repr(new)} here")
    return phrases

"""Read signals from files, and from data sets that come along; write files safely."""

from __future__ import annotations

import csv
import math
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from .arrays import SignalList
from .validation import check_batch, check_choice, check_signals

__all__ = ["bundled", "load", "load_labelled", "read", "read_labelled", "read_labels"]

SUFFIXES = (".npy", ".npz", ".ts", ".csv")
"""Kinds of files: one NumPy array, several named arrays, the time-series format of aeon, a table of
one row for each case, channel and time point."""

_TECATOR_TRAIN = 172
"""Training signals in Tecator's file, which come first; the split is that of sktime."""

_COLUMNS = {"case_id": "case", "dim_id": "channel", "reading_id": "time"}
"""Names of sktime for columns of a long table."""


def read(path: str | Path, array: str | None = None) -> np.ndarray | list[np.ndarray]:
    """Return the signals in a file, (n_cases, n_channels, n_timepoints) in float64.

    They are a list of arrays (n_channels, n_timepoints_i) where lengths differ. A ``.npy`` or
    ``.npz`` file may have images, (n_cases, n_channels, height, width). A ``.csv`` file has the
    columns case, time and value, and optionally channel and label.

    Parameters
    ----------
    path, array
        As for `read_labelled`.

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.read("signals.npz", array="X_train").shape  # doctest: +SKIP
    (270, 12, 25)
    """
    return read_labelled(path, array)[0]


def read_labelled(
    path: str | Path, array: str | None = None
) -> tuple[np.ndarray | list[np.ndarray], np.ndarray | None]:
    """Return the signals in a file as `read` does, and their labels, (n_cases,).

    Labels are classes or values in a ``.ts`` file, or labels in a ``.csv`` file, or else None.

    Parameters
    ----------
    path : path
        In ``.npy``, ``.npz``, ``.ts`` or ``.csv``.
    array : str, optional
        Name of the array in a ``.npz`` file; not needed for a file with one array.

    Examples
    --------
    >>> from rescntk import datasets
    >>> X, y = datasets.read_labelled("signals_TRAIN.ts")  # doctest: +SKIP
    """
    path = Path(path)
    check_choice(path.suffix, f"suffix of {path.name}", SUFFIXES)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected a {path.suffix} file")
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    _check_named(path, array)
    if path.suffix in (".ts", ".csv"):
        signals, labels = _read_ts(path) if path.suffix == ".ts" else _read_long(path)
        X = check_batch(signals, f"the signals in {path.name}")
        return list(X) if isinstance(X, SignalList) else X, labels
    return check_signals(_load(path, array), f"the array in {path.name}", images=True), None


def read_labels(path: str | Path, array: str | None = None) -> np.ndarray:
    """Return labels in a ``.npy`` file, in an array of a ``.npz`` file, or one a line of a text.

    Parameters
    ----------
    path : path
    array : str, optional
        Name of the array in a ``.npz`` file.

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.read_labels("y.npy")  # doctest: +SKIP
    """
    path = Path(path)
    _check_named(path, array)
    if path.suffix in (".npy", ".npz"):
        labels = _load(path, array)
        return np.char.decode(labels, "utf-8") if labels.dtype.kind == "S" else labels
    with readable(path):
        lines = [line.strip() for line in path.read_text("utf-8-sig").rstrip().splitlines()]
        if "" in lines:
            raise ValueError(f"line {lines.index('') + 1} is blank, expected a label in each line")
        return np.array(lines)


def _check_named(path: Path, array: str | None) -> None:
    if array is not None and path.suffix != ".npz":
        raise ValueError(f"array is {array!r}, but {path.name} is no .npz file of named arrays")


def _load(path: Path, array: str | None) -> np.ndarray:
    """Return the array in a ``.npy`` file, or one of a ``.npz`` file."""
    with readable(path):
        content = np.load(path, allow_pickle=False)
    if isinstance(content, np.ndarray):
        return content
    with content:
        names = content.files
        if array is None and len(names) != 1:
            raise ValueError(f"{path} holds the arrays {names}: say which one (as --array NAME)")
        name = check_choice(names[0] if array is None else array, "array", names)
        with readable(path):
            return content[name]


def _read_long(path: Path) -> tuple[list[np.ndarray], np.ndarray | None]:
    """Return the signals of a table with a row for each value, and their labels or None."""
    with readable(path), open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        names = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = names = [_COLUMNS.get(name, name) for name in names]
        if any(names.count(name) != 1 for name in ("case", "time", "value")):
            raise ValueError(
                f"it has the columns {', '.join(names)}, expected a row for each value, with "
                f"columns case, time, value, and channel and label where there are several"
            )
        cases: dict[str, tuple[dict[tuple[str, float], float], set[str]]] = {}
        texts = "case", "channel", "label"
        for row in reader:
            try:
                time, value = float(row["time"]), float(row["value"])
            except (TypeError, ValueError):
                time = value = math.nan
            case, channel, label = ((row.get(name) or "").strip() for name in texts)
            values, labels = cases.setdefault(case, ({}, set()))
            finite = math.isfinite(time) and math.isfinite(value)
            if None in row or not case or not finite or (channel, time) in values:
                raise ValueError(
                    f"line {reader.line_num} is {', '.join(map(str, row.values()))}, expected "
                    f"{', '.join(names)}, with a case, finite numbers, no time of a channel twice"
                )
            values[channel, time] = value
            labels |= {label} - {""}
        channels = sorted({name for values, _ in cases.values() for name, _ in values})
        labelled = any(labels for _, labels in cases.values())
        signals = []
        for case, (values, labels) in cases.items():
            times = sorted({time for _, time in values})
            if values.keys() != set(product(channels, times)):
                raise ValueError(
                    f"case {case} has {len(values)} values at {len(times)} times, expected one at "
                    f"each time for each of the channels {', '.join(channels)}"
                )
            if len(labels) != labelled:
                raise ValueError(
                    f"case {case} has the labels {sorted(labels)}, expected one a case, or none"
                )
            signals.append(np.array([[values[name, time] for time in times] for name in channels]))
        found = [label for _, labels in cases.values() for label in labels]
    return signals, np.array(found) if found else None


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn the many errors of reading a damaged file into a ValueError of one line."""
    try:
        yield
    except ImportError:
        raise
    except MemoryError as error:  # also of a damaged file that names an impossible shape
        raise MemoryError(f"{path} does not fit into memory: {error}") from None
    except Exception as error:  # of NumPy, zipfile, zlib or aeon
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} is not a readable {path.suffix} file: {reason}") from None


def bundled() -> list[str]:
    """Return the names of Tecator and of aeon's data sets whose signals have equal length.

    Examples
    --------
    >>> from rescntk import datasets
    >>> "JapaneseVowels" in datasets.bundled()
    True
    """
    names = (folder.name for folder in (Path(_aeon_datasets().__path__[0]) / "data").iterdir())
    return sorted(["Tecator", *filter(_equal_length, names)])


def load(name: str, split: str = "train") -> np.ndarray:
    """Return the signals of a data set, (n_cases, n_channels, n_timepoints) in float64.

    Nothing is downloaded. Tecator is part of this package, all other sets are part of aeon.

    Parameters
    ----------
    name : str
        One of `bundled`. Signals of several lengths come in aeon's version of equal length.
    split : {"train", "test"}

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.load("JapaneseVowels").shape
    (270, 12, 25)
    """
    return load_labelled(name, split)[0]


def load_labelled(name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Return the signals of a data set as `load`, and what is to be predicted, (n_cases,).

    Class labels are strings, other targets float64. Tecator's spectra of minced meat come from a
    Tecator Infratec Food and Feed Analyzer; the target is the fat content in percent. The first
    lines of Tecator.csv.gz are Tecator's permission to redistribute it.

    Parameters
    ----------
    name, split
        As for `load`.

    Examples
    --------
    >>> from rescntk import datasets
    >>> X, y = datasets.load_labelled("GunPoint")
    >>> X.shape, sorted(set(y.tolist()))
    ((50, 1, 150), ['1', '2'])
    """
    check_choice(split, "split", ("train", "test"))
    if name == "Tecator":
        table = np.loadtxt(Path(__file__).with_name("Tecator.csv.gz"), delimiter=",")
        table = table[:_TECATOR_TRAIN] if split == "train" else table[_TECATOR_TRAIN:]
        return table[:, None, :-1], table[:, -1]
    check_choice(name, "data", bundled())
    return read_labelled(_ts_file(name, split))  # type: ignore[return-value]  # not unequal


def _ts_file(name: str, split: str) -> Path:
    """Return the file of a data set, preferably its version of equal length (suffix _eq)."""
    folder = Path(_aeon_datasets().__path__[0]) / "data" / name
    equal = folder / f"{name}_eq_{split.upper()}.ts"
    return equal if equal.is_file() else folder / f"{name}_{split.upper()}.ts"


def _equal_length(name: str) -> bool:
    """Return whether the header of the training file says that all signals have equal length."""
    if not all(_ts_file(name, split).is_file() for split in ("train", "test")):
        return False
    header = _header(_ts_file(name, "train"))
    labelled = not header.keys().isdisjoint(("@classlabel", "@targetlabel"))
    return labelled and header.get("@equallength", "true").strip() == "true"


def _header(path: Path) -> dict[str, str]:
    """Return the header of a ``.ts`` file; signals without a header before them are refused."""
    header: dict[str, str] = {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, value = line.strip().lower().partition(" ")
            if key == "@data":
                return header
            if key and key[0] not in "@#%":
                break
            header[key] = value
    raise ValueError("signals come before @data, the last line of the header")


def _read_ts(path: Path) -> tuple[Any, Any]:
    """Return the signals of a ``.ts`` file, and its labels or None."""
    datasets = _aeon_datasets()
    with readable(path):
        _header(path)
        found = datasets.load_from_ts_file(str(path))
    signals, labels = found[:2] if isinstance(found, tuple) else (found, ())
    return signals, labels if len(labels) else None


def _aeon_datasets() -> ModuleType:
    try:
        import aeon.datasets
    except ModuleNotFoundError:
        raise ImportError(
            "data sets and .ts files need aeon: pip install 'rescntk[datasets]'"
        ) from None
    return aeon.datasets


# -- writing


def check_writable(path: Path, name: str, *inputs: Path | None) -> None:
    """Raise a ValueError if a file cannot be written, or is one of the command's inputs."""
    try:
        for given in inputs:
            if given and path.exists() and given.exists() and path.samefile(given):
                raise ValueError(f"{name} is {path}, an input, expected another file")
        target = path.resolve()  # a link to a file that is not there stays a link
        if target.exists():
            target.open("ab").close()
        else:
            folder = next(folder for folder in target.parents if folder.exists())
            tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise ValueError(
            f"{name} is {path}, which cannot be written: {error.strerror or error}"
        ) from None


def check_output(path: Path, suffix: str, overwrite: bool, *inputs: Path | None) -> None:
    """Raise a ValueError as `check_writable`, for a wrong suffix or folder, or if a file must stay.

    Without `overwrite` a person at a terminal is asked.
    """
    if path.suffix != suffix:
        raise ValueError(f"output is {path}, expected a name that ends in {suffix}")
    if not path.parent.is_dir():
        raise ValueError(f"output is {path}, expected a folder that is there")
    check_writable(path, "output", *inputs)
    if path.exists() and not overwrite:
        answer = ""
        if sys.stdin.isatty() and sys.stderr.isatty():
            print(f"{path} exists: replace it? [y/N] ", end="", file=sys.stderr, flush=True)
            answer = sys.stdin.readline().strip().lower()
        if answer not in ("y", "yes"):
            raise ValueError(f"output is {path}, which exists: --overwrite replaces it")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the name `path` once it is complete."""
    path = path.resolve()  # a link stays a link
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise

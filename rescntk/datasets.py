"""Read signals from files, and from the data sets that are part of aeon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from .arrays import SignalList
from .validation import check_batch, check_choice, check_signals

SUFFIXES = (".npy", ".npz", ".ts")
"""Kinds of files: one NumPy array, several named arrays, and the time-series format of aeon."""


def read(path: str | Path, array: str | None = None) -> np.ndarray | list[np.ndarray]:
    """Return the signals in a ``.npy``, ``.npz`` or ``.ts`` file, (n_cases, …) in float64.

    They are a list of arrays (n_channels, n_timepoints_i) in a ``.ts`` file of different lengths.

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

    Labels are the classes or values in a ``.ts`` file, or None where the file has none.

    Parameters
    ----------
    path : path
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
    if array is not None and path.suffix != ".npz":
        raise ValueError(f"array is {array!r}, but {path.name} is no .npz file of named arrays")
    if path.suffix == ".ts":
        return _read_ts(path)
    with _readable(path):
        content = np.load(path, allow_pickle=False)
    if path.suffix == ".npz":
        with content:
            names = content.files
            if array is None and len(names) != 1:
                raise ValueError(f"{path} holds the arrays {names}: say which one (--array NAME)")
            name = check_choice(names[0] if array is None else array, "array", names)
            with _readable(path):
                content = content[name]
    return check_signals(content, f"the array in {path.name}"), None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
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
    """Return the names of aeon's data sets whose signals have equal length.

    Examples
    --------
    >>> from rescntk import datasets
    >>> "JapaneseVowels" in datasets.bundled()
    True
    """
    folders = (Path(_aeon_datasets().__path__[0]) / "data").iterdir()
    return sorted(folder.name for folder in folders if _equal_length(folder.name))


def load(name: str, split: str = "train") -> np.ndarray:
    """Return the signals of a data set of aeon, (n_cases, n_channels, n_timepoints) in float64.

    Nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `bundled`. Some data sets have signals of several lengths; aeon's version of
        equal length is taken.
    split : {"train", "test"}

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.load("JapaneseVowels").shape
    (270, 12, 25)
    """
    return load_labelled(name, split)[0]


def load_labelled(name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Return the signals of one of aeon's data sets as `load`, and its class labels as strings.

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
    check_choice(name, "data", bundled())
    return _read_ts(_ts_file(name, split))


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
    return header.get("@equallength", "true").strip() == "true" and "@classlabel" in header


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
    with _readable(path):
        _header(path)
        signals = datasets.load_from_ts_file(str(path))
    labels = None
    if isinstance(signals, tuple):
        signals, labels = signals[:2]
        labels = labels if len(labels) else None
    X = check_batch(signals, f"the array in {path.name}")
    return list(X) if isinstance(X, SignalList) else X, labels


def _aeon_datasets() -> ModuleType:
    """Return the module aeon.datasets, or raise ImportError with the extra to install."""
    try:
        import aeon.datasets
    except ModuleNotFoundError:
        raise ImportError(
            "data sets and .ts files need aeon: pip install 'rescntk[datasets]'"
        ) from None
    return aeon.datasets

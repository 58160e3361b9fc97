"""Data sets that are installed: Tecator, and the sets that come with aeon. Nothing is downloaded.

Signals of your own are arrays: the guide's page "Signals" has the few lines of pandas.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .checks.values import check_choice

__all__ = ["bundled", "load", "load_labelled"]

_TECATOR_TRAIN = 172
"""Training signals in Tecator's file, which come first. The split is the usual one."""


def bundled() -> list[str]:
    """Return the names of Tecator and of aeon's data sets whose signals have equal length.

    Returns
    -------
    list of str

    Raises
    ------
    ImportError
        Without aeon.

    Examples
    --------
    >>> from rescntk import datasets
    >>> "JapaneseVowels" in datasets.bundled()
    True
    """
    names = (folder.name for folder in _aeon_folder().iterdir())
    return sorted(["Tecator", *filter(_has_equal_lengths, names)])


def load(name: str, split: str = "train") -> np.ndarray:
    """Return the signals of a data set.

    Parameters
    ----------
    name : str
        One of `bundled`. Signals of several lengths come in aeon's version of equal length.
    split : {"train", "test"}, default "train"

    Returns
    -------
    ndarray, (n_cases, n_channels, n_timepoints)
        In float64.

    Raises
    ------
    ValueError
        If the name or the split is another one.
    ImportError
        Without aeon, for every set but Tecator.

    Examples
    --------
    >>> from rescntk import datasets
    >>> datasets.load("JapaneseVowels").shape
    (270, 12, 25)
    """
    return load_labelled(name, split)[0]


def load_labelled(name: str, split: str = "train") -> tuple[np.ndarray, np.ndarray]:
    """Return the signals of a data set as `load` does, and their targets.

    Class labels are strings, other targets float64. Tecator's spectra of minced meat come from a
    Tecator Infratec Food and Feed Analyzer; the target is the fat content in percent. The first
    lines of tecator.csv.gz are Tecator's permission to redistribute it.

    Parameters
    ----------
    name, split
        As for `load`.

    Returns
    -------
    X : ndarray, (n_cases, n_channels, n_timepoints)
    y : ndarray, (n_cases,)

    Raises
    ------
    ValueError
        If the name or the split is another one.
    ImportError
        Without aeon, for every set but Tecator.

    Examples
    --------
    >>> from rescntk import datasets
    >>> X, y = datasets.load_labelled("GunPoint")
    >>> X.shape, sorted(set(y.tolist()))
    ((50, 1, 150), ['1', '2'])
    """
    check_choice(split, "split", ("train", "test"))
    if name == "Tecator":
        table = np.loadtxt(Path(__file__).with_name("tecator.csv.gz"), delimiter=",")
        table = table[:_TECATOR_TRAIN] if split == "train" else table[_TECATOR_TRAIN:]
        return table[:, None, :-1], table[:, -1]
    check_choice(name, "name", bundled())
    from aeon.datasets import load_from_ts_file

    X, y = load_from_ts_file(str(_file(name, split)))[:2]
    return X, y


def _aeon_folder() -> Path:
    """Return the folder of aeon's data sets."""
    try:
        import aeon.datasets
    except ModuleNotFoundError:
        raise ImportError("data sets need aeon: pip install 'rescntk[datasets]'") from None
    return Path(aeon.datasets.__path__[0]) / "data"


def _file(name: str, split: str) -> Path:
    """Return the file of a data set, preferably its version of equal length (suffix _eq)."""
    folder = _aeon_folder() / name
    equal = folder / f"{name}_eq_{split.upper()}.ts"
    return equal if equal.is_file() else folder / f"{name}_{split.upper()}.ts"


def _has_equal_lengths(name: str) -> bool:
    """Return whether both files exist, and do not declare signals of different lengths."""
    paths = [_file(name, split) for split in ("train", "test")]
    if not all(path.is_file() for path in paths):
        return False
    head = paths[0].read_text("utf-8", "replace").lower().partition("@data")[0]
    return "@equallength false" not in " ".join(head.split())
